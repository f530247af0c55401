package filestore_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
)

func put(t testing.TB, s claimcheck.Store, key string) {
	t.Helper()
	if err := s.Put(ctx, key, section([]byte("body of "+key))); err != nil {
		t.Fatal(err)
	}
}

func TestNewRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	claims := filepath.Join(t.TempDir(), "store")
	write(t, filepath.Join(claims, "claims"), "")
	for _, test := range []struct{ dir, why string }{
		{"", "empty"},
		{"/", "root of a file system"},
		{"/..//", "root of a file system"},
		{file, "directory"},
		{filepath.Join(t.TempDir(), "missing", "store"), "no such file"},
		{claims, "not a folder"},
	} {
		if s, err := filestore.New(test.dir); err == nil || !strings.Contains(err.Error(), test.why) {
			t.Errorf("New(%q): %v, %v, want an error with %q", test.dir, s, err, test.why)
		}
	}
}

func TestDays(t *testing.T) {
	s, dir := newStore(t)
	day := func(n int) time.Time { return time.Date(2026, time.January, n, 15, 0, 0, 0, time.UTC) }
	put(t, s, newKey(t, "a", day(1)))
	put(t, s, newKey(t, "a", day(1)))
	put(t, s, newKey(t, "a", day(2)))
	put(t, s, newKey(t, "b", day(1)))
	undated := []string{
		"claims/notes.txt", "claims/tenant=", "claims/tenant=a.b", "claims/Tenant=a", "claims/dt=2026-01-01",
		"claims/tenant=a/2026-01-01", "claims/tenant=a/dt=2026-1-1", "claims/tenant=a/dt=2026-02-30", "claims/tenant=a/dt=2026-01-01x",
		"claims/tenant=a/dt=2026-01-01T00", "claims/tenant=a/dt=", "claims/tenant=a/dt=0001-01-01", "claims/tenant=a/dt=1969-12-31", "claims/tenant=a/dt=99999-01-01", "claims/tenant=b/dt=2026-01-02.old",
	}
	for _, name := range undated {
		write(t, filepath.Join(dir, filepath.FromSlash(name), "file"), "theirs")
	}
	files := []string{"claims/tenant=file", "claims/tenant=a/dt=2026-01-03"}
	for _, name := range files {
		write(t, filepath.Join(dir, filepath.FromSlash(name)), "theirs")
	}
	want := []claimcheck.Day{
		{Path: "claims/tenant=a/dt=2026-01-01", Tenant: "a", Date: day(1).Truncate(24 * time.Hour)},
		{Path: "claims/tenant=a/dt=2026-01-02", Tenant: "a", Date: day(2).Truncate(24 * time.Hour)},
		{Path: "claims/tenant=b/dt=2026-01-01", Tenant: "b", Date: day(1).Truncate(24 * time.Hour)},
	}
	for _, name := range slices.Concat(undated, files) {
		want = append(want, claimcheck.Day{Path: name})
	}
	got := days(t, s)
	slices.SortFunc(want, byPath)
	if !slices.Equal(got, want) {
		t.Errorf("Days:\n got %v\nwant %v", got, want)
	}

	before := tree(t, dir)
	for _, d := range []claimcheck.Day{
		{},
		{Path: "claims", Tenant: "a", Date: day(1)},
		{Path: "claims/tenant=a", Tenant: "a", Date: day(1)},
		{Path: "claims/tenant=a/dt=2026-01-01", Tenant: "b", Date: day(1)},
		{Path: "claims/tenant=a/dt=2026-01-01", Tenant: "a", Date: day(2)},
		{Path: "claims/tenant=a/dt=2026-01-01", Tenant: "a"},
		{Path: "claims/tenant=../dt=2026-01-01", Tenant: "..", Date: day(1)},
		{Path: "claims/tenant=/dt=2026-01-01", Tenant: "", Date: day(1)},
		{Path: "claims/tenant=a/dt=0001-01-01", Tenant: "a"},
	} {
		if n, err := s.DeleteDay(ctx, d); n != 0 || !errors.Is(err, claimcheck.ErrInvalidRef) {
			t.Errorf("DeleteDay(%v): %d, %v, want an ErrInvalidRef", d, n, err)
		}
	}
	if after := tree(t, dir); after != before {
		t.Errorf("changed:\n%s\nto:\n%s", before, after)
	}

	// Everything in the folder of a day goes with it, and nothing else.
	write(t, filepath.Join(dir, "claims/tenant=a/dt=2026-01-01/folder/file"), "theirs")
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "theirs")
	if err := os.Symlink(outside, filepath.Join(dir, "claims/tenant=a/dt=2026-01-01/link")); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{4, 0} {
		if n, err := s.DeleteDay(ctx, claimcheck.Day{Path: "claims/tenant=a/dt=2026-01-01", Tenant: "a", Date: day(1)}); n != want || err != nil {
			t.Errorf("DeleteDay number %d: %d, %v, want %d", i+1, n, err, want)
		}
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "theirs" {
		t.Errorf("what a link led to is %q, %v", data, err)
	}
	var rest []string
	for _, line := range strings.SplitAfter(before, "\n") {
		if !strings.Contains(line, "/tenant=a/dt=2026-01-01/") && !strings.Contains(line, "/tenant=a/dt=2026-01-01 ") {
			rest = append(rest, line)
		}
	}
	if after := tree(t, dir); after != strings.Join(rest, "") {
		t.Errorf("left:\n%s\nwant:\n%s", after, strings.Join(rest, ""))
	}
	// The tenant's next object makes the folder again.
	key := newKey(t, "a", day(1))
	put(t, s, key)
	if got, err := contents(s, key); err != nil || string(got) != "body of "+key {
		t.Errorf("after DeleteDay: %q, %v", got, err)
	}
}

// TestDeleteDayOfLink: a tenant's folder that is a link is not followed.
func TestDeleteDayOfLink(t *testing.T) {
	s, dir := newStore(t)
	key := newKey(t, "b", time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))
	put(t, s, key)
	if err := os.Symlink("tenant=b", filepath.Join(dir, "claims/tenant=a")); err != nil {
		t.Fatal(err)
	}
	day := claimcheck.Day{Path: "claims/tenant=a/dt=2026-01-01", Tenant: "a", Date: time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)}
	if n, err := s.DeleteDay(ctx, day); n != 0 || !errors.Is(err, claimcheck.ErrUnavailable) {
		t.Errorf("DeleteDay: %d, %v, want an ErrUnavailable", n, err)
	}
	if _, err := contents(s, key); err != nil {
		t.Errorf("the object that the link led to: %v", err)
	}
	if got := days(t, s); len(got) != 2 || !got[0].Date.IsZero() || got[0].Path != "claims/tenant=a" {
		t.Errorf("Days: %v", got)
	}
}

func byPath(a, b claimcheck.Day) int { return strings.Compare(a.Path, b.Path) }

func days(t testing.TB, s claimcheck.DayStore) []claimcheck.Day {
	t.Helper()
	var all []claimcheck.Day
	for day, err := range s.Days(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, day)
	}
	slices.SortFunc(all, byPath)
	return all
}

func TestDeleteLeftovers(t *testing.T) {
	s, dir := newStore(t)
	if n, err := s.DeleteLeftovers(ctx, time.Now()); n != 0 || err != nil {
		t.Errorf("DeleteLeftovers where nothing was ever put: %d, %v", n, err)
	}
	put(t, s, newKey(t, "a", time.Now()))
	before := time.Now().Add(-time.Hour)
	age := func(name string, at time.Time) {
		if err := os.Chtimes(filepath.Join(dir, ".incoming", name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	for name, at := range map[string]time.Time{"old": before.Add(-time.Second), "oldest": {}, "equal": before, "new": before.Add(time.Second)} {
		write(t, filepath.Join(dir, ".incoming", name), "half")
		if at.IsZero() {
			at = time.Unix(0, 0)
		}
		age(name, at)
	}
	write(t, filepath.Join(dir, ".incoming", "folder", "file"), "theirs")
	age("folder", time.Unix(0, 0))
	if n, err := s.DeleteLeftovers(ctx, before); n != 2 || err != nil {
		t.Errorf("DeleteLeftovers: %d, %v, want 2", n, err)
	}
	if got, want := files(t, dir), []string{"equal", "folder", "new"}; !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	if got := keys(t, s); len(got) != 1 {
		t.Errorf("List: %q", got)
	}
}

// TestShorter: a file that became shorter while it was read does not end like one that is
// complete.
func TestShorter(t *testing.T) {
	s, dir := newStore(t)
	key := newKey(t, "a", time.Now())
	if err := s.Put(ctx, key, section(make([]byte, 100_000))); err != nil {
		t.Fatal(err)
	}
	r, err := s.Get(ctx, key, 0, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := os.Truncate(filepath.Join(dir, filepath.FromSlash(key)), 50_000); err != nil {
		t.Fatal(err)
	}
	n := 0
	for buf := make([]byte, 1000); err == nil; {
		var m int
		m, err = r.Read(buf)
		n += m
	}
	if n != 50_000 || !errors.Is(err, claimcheck.ErrUnavailable) {
		t.Errorf("read %d bytes, then %v, want 50000 and an ErrUnavailable", n, err)
	}
}
