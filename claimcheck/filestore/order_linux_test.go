package filestore_test

import (
	"bytes"
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck/filestore"
)

var randomName = regexp.MustCompile(`[0-9a-f]{32}`)

// TestOrder is what keeps an object through a power cut: the bytes are on the disk before they
// have their name, and every name is on the disk before Put returns.
func TestOrder(t *testing.T) {
	day := time.Date(2026, time.January, 15, 12, 0, 0, 0, time.UTC)
	s, dir := newStore(t)
	key := newKey(t, "a", day)
	second := newKey(t, "a", day)
	body := bytes.Repeat([]byte("0123456789abcdef"), 20_000) // 320,000 bytes
	put := func(s *filestore.Store, key string) []string {
		calls := record(func() {
			if err := s.Put(context.Background(), key, section(body)); err != nil {
				t.Error(err)
			}
		})
		for i, c := range calls {
			c = strings.ReplaceAll(c, filepath.ToSlash(dir), "STORE")
			c = strings.ReplaceAll(c, filepath.Base(key), "PACK")
			calls[i] = randomName.ReplaceAllString(c, "TEMP")
		}
		return calls
	}
	for _, test := range []struct {
		name  string
		calls []string
		want  []string
	}{
		{"the first of all", put(s, key), []string{
			"mkdirat STORE/.incoming", "fsync STORE",
			"create STORE/.incoming/TEMP", "write STORE/.incoming/TEMP", "write STORE/.incoming/TEMP", "fsync STORE/.incoming/TEMP",
			"mkdirat STORE/claims/tenant=a", "fsync STORE/claims",
			"mkdirat STORE/claims/tenant=a/dt=2026-01-15", "fsync STORE/claims/tenant=a",
			"linkat STORE/.incoming/TEMP STORE/claims/tenant=a/dt=2026-01-15/PACK", "fsync STORE/claims/tenant=a/dt=2026-01-15",
			"unlinkat STORE/.incoming/TEMP",
		}},
		{"the next of the day", put(s, second), []string{
			"create STORE/.incoming/TEMP", "write STORE/.incoming/TEMP", "write STORE/.incoming/TEMP", "fsync STORE/.incoming/TEMP",
			"linkat STORE/.incoming/TEMP STORE/claims/tenant=a/dt=2026-01-15/PACK", "fsync STORE/claims/tenant=a/dt=2026-01-15",
			"unlinkat STORE/.incoming/TEMP",
		}},
		// Whoever made the folders may not have come to synchronise them yet.
		{"the first of another process", put(openStore(t, dir), newKey(t, "a", day)), []string{
			"fsync STORE",
			"create STORE/.incoming/TEMP", "write STORE/.incoming/TEMP", "write STORE/.incoming/TEMP", "fsync STORE/.incoming/TEMP",
			"fsync STORE/claims", "fsync STORE/claims/tenant=a",
			"linkat STORE/.incoming/TEMP STORE/claims/tenant=a/dt=2026-01-15/PACK", "fsync STORE/claims/tenant=a/dt=2026-01-15",
			"unlinkat STORE/.incoming/TEMP",
		}},
	} {
		if !slices.Equal(test.calls, test.want) {
			t.Errorf("%s:\n got %s\nwant %s", test.name, strings.Join(test.calls, "\n     "), strings.Join(test.want, "\n     "))
		}
	}

	// A key that is taken costs nothing but a look.
	calls := record(func() {
		if err := s.Put(context.Background(), key, section(body)); err == nil {
			t.Error("Put of a key that is taken succeeded")
		}
	})
	if len(calls) != 0 {
		t.Errorf("Put of a key that is taken: %q", calls)
	}
}

// TestNewIsDurable: the folder of the store and the one of the objects are.
func TestNewIsDurable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	calls := record(func() {
		s, err := filestore.New(dir)
		if err != nil {
			t.Error(err)
			return
		}
		s.Close()
	})
	for i, c := range calls {
		calls[i] = strings.ReplaceAll(c, filepath.Dir(dir), "PARENT")
	}
	want := []string{
		"mkdirat PARENT/store", "fsync PARENT",
		"mkdirat PARENT/store/claims", "fsync PARENT/store",
	}
	if !slices.Equal(calls, want) {
		t.Errorf("got  %q\nwant %q", calls, want)
	}
}
