package claimcheck_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
)

// sweptStores are one store that can remove days, and one that cannot.
var sweptStores = map[string]func(t *testing.T) claimcheck.PrunableStore{
	"memory": func(*testing.T) claimcheck.PrunableStore { return new(memstore.Store) },
	"folder": func(t *testing.T) claimcheck.PrunableStore {
		s, err := filestore.New(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	},
}

// putAt puts an object of a tenant and a time.
func putAt(t testing.TB, s claimcheck.Store, tenant string, at time.Time) (key string) {
	t.Helper()
	ref, err := claimcheck.NewPackRef(tenant, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), ref.Key(), io.NewSectionReader(strings.NewReader("pack"), 0, 4)); err != nil {
		t.Fatal(err)
	}
	return ref.Key()
}

func keysOf(t testing.TB, s claimcheck.PrunableStore) (keys []string) {
	t.Helper()
	for key, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func newSweeper(t testing.TB, c claimcheck.SweeperConfig) *claimcheck.Sweeper {
	t.Helper()
	s, err := claimcheck.NewSweeper(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func paths(days []claimcheck.Day) (paths []string) {
	for _, d := range days {
		paths = append(paths, d.Path)
	}
	slices.Sort(paths)
	return paths
}

// TestSweepDays: a day is deleted at the moment at which its last body is as old as that.
func TestSweepDays(t *testing.T) {
	const keep = 3
	noon := time.Date(2000, time.January, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		after time.Duration // since the fake clock's 2000-01-01T00:00:00Z
		last  string        // the last day that is deleted
	}{
		{0, "1999-12-28"},
		{time.Nanosecond, "1999-12-28"},
		{24*time.Hour - time.Nanosecond, "1999-12-28"},
		{24 * time.Hour, "1999-12-29"},
		{5*24*time.Hour - time.Nanosecond, "2000-01-01"},
		{5 * 24 * time.Hour, "2000-01-02"},
	} {
		for name, store := range sweptStores {
			for _, dry := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					s := store(t)
					var want, gone, days []string
					objects := 0
					for _, d := range []int{-5000, -366, -60, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 60, 366} {
						for _, tenant := range []string{"a", "ab", "B"} {
							for _, at := range []time.Time{noon.AddDate(0, 0, d), noon.AddDate(0, 0, d).Add(12*time.Hour - time.Millisecond)} {
								key := putAt(t, s, tenant, at)
								if day := at.Format(time.DateOnly); day > test.last {
									want = append(want, key)
								} else {
									gone, objects = append(gone, key), objects+1
									days = append(days, path.Dir(key))
								}
							}
						}
					}
					slices.Sort(days)
					days = slices.Compact(days)
					if dry {
						want = append(want, gone...)
					}
					time.Sleep(test.after)
					report, err := newSweeper(t, claimcheck.SweeperConfig{Store: s, Days: keep, DryRun: dry}).Sweep(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					slices.Sort(want)
					if got := keysOf(t, s); !slices.Equal(got, want) {
						t.Errorf("%s, dry %t, at %v: %d keys are left, want %d", name, dry, time.Now().UTC(), len(got), len(want))
					}
					if got := paths(report.Deleted); !slices.Equal(got, days) {
						t.Errorf("%s, dry %t, at %v: reported %q, want %q", name, dry, time.Now().UTC(), got, days)
					}
					if report.Objects != objects || len(report.Undated) != 0 || report.Leftovers != 0 {
						t.Errorf("%s, dry %t: report %d objects, %q, %d leftovers, want %d, none, 0", name, dry, report.Objects, report.Undated, report.Leftovers, objects)
					}
				})
			}
		}
	}
}

func TestSweepTrustsOnlyDates(t *testing.T) {
	dir := t.TempDir()
	s, err := filestore.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(name string, age time.Duration) {
		name = filepath.Join(dir, filepath.FromSlash(name))
		at := time.Now().Add(-age)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("theirs"), 0o600), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	const years = 5 * 365 * 24 * time.Hour
	undated := []string{"claims/notes", "claims/tenant=a/2020-01-01", "claims/tenant=a/dt=2020-13-01", "claims/tenant=a/dt=", "claims/tenant=é", "claims/dt=2020-01-01"}
	for _, name := range undated {
		put(name+"/file", years)
	}
	// Elsewhere it does not even look.
	put("notes/tenant=a/dt=2020-01-01/file", years)
	put("claims.old/tenant=a/dt=2020-01-01/file", years)
	put(".incoming/young", 23*time.Hour)
	put(".incoming/old", 25*time.Hour)
	old, young := putAt(t, s, "a", time.Now().Add(-years)), putAt(t, s, "a", time.Now())
	// It is the folder's date that counts, whatever is in it and however young.
	put(path.Dir(old)+"/"+path.Base(young), 0)

	var log bytes.Buffer
	sweeper := newSweeper(t, claimcheck.SweeperConfig{Store: s, Days: 30, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	report, err := sweeper.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := paths(report.Deleted); !slices.Equal(got, []string{path.Dir(old)}) || report.Objects != 2 || report.Leftovers != 1 {
		t.Errorf("deleted %q, %d objects and %d leftovers, want 1 day, 2 and 1", got, report.Objects, report.Leftovers)
	}
	slices.Sort(undated)
	if slices.Sort(report.Undated); !slices.Equal(report.Undated, undated) {
		t.Errorf("undated: %q, want %q", report.Undated, undated)
	}
	for _, name := range append(slices.Clone(undated), "notes/tenant=a/dt=2020-01-01", "claims.old/tenant=a/dt=2020-01-01") {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name), "file")); err != nil {
			t.Errorf("it was deleted: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".incoming", "young")); err != nil {
		t.Errorf("a file that is being written was deleted: %v", err)
	}
	if got := keysOf(t, s); !slices.Equal(got, []string{young}) {
		t.Errorf("left %q, want %q", got, young)
	}
	for _, name := range undated {
		if !strings.Contains(log.String(), "path="+name) && !strings.Contains(log.String(), "path=\""+name) {
			t.Errorf("the log does not name %q:\n%s", name, log.String())
		}
	}
	if want := "tenant_id=a day=" + strings.TrimPrefix(path.Base(path.Dir(old)), "dt="); !strings.Contains(log.String(), want) {
		t.Errorf("the log does not have %q:\n%s", want, log.String())
	}
}

func TestSweeperRefuses(t *testing.T) {
	store := new(memstore.Store)
	for _, test := range []struct {
		config claimcheck.SweeperConfig
		want   []string
	}{
		{claimcheck.SweeperConfig{}, []string{"Store is required", "Days is 0, not 1 to"}},
		{claimcheck.SweeperConfig{Store: store}, []string{"Days is 0"}},
		{claimcheck.SweeperConfig{Store: store, Days: -1}, []string{"Days is -1"}},
		{claimcheck.SweeperConfig{Store: store, Days: 36_501}, []string{"Days is 36501"}},
		{claimcheck.SweeperConfig{Store: store, Days: 1, Interval: -1}, []string{"Interval is -1ns"}},
	} {
		s, err := claimcheck.NewSweeper(test.config)
		if s != nil || err == nil {
			t.Errorf("NewSweeper(%+v): %v, %v", test.config, s, err)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("NewSweeper(%+v): %v, want %q", test.config, err, want)
			}
		}
	}
	for _, days := range []int{1, 36_500} {
		if err := (claimcheck.SweeperConfig{Store: store, Days: days}).Validate(); err != nil {
			t.Error(err)
		}
	}
}

// A sweptStore fails some of its operations, and notes them.
type sweptStore struct {
	*memstore.Store
	deletes  []string
	deleteIf func(key string) error

	mu      sync.Mutex
	lists   []string // the prefixes
	listErr error
}

// sweeps returns how many lists there were.
func (s *sweptStore) sweeps() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lists)
}

func (s *sweptStore) failLists(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listErr = err
}

func (s *sweptStore) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists = append(s.lists, prefix)
	listErr := s.listErr
	return func(yield func(string, error) bool) {
		for key, err := range s.Store.List(ctx, prefix) {
			if !yield(key, err) {
				return
			}
		}
		if listErr != nil {
			yield("", listErr)
		}
	}
}

func (s *sweptStore) Delete(ctx context.Context, key string) error {
	s.deletes = append(s.deletes, key)
	if s.deleteIf != nil {
		if err := s.deleteIf(key); err != nil {
			return err
		}
	}
	return s.Store.Delete(context.WithoutCancel(ctx), key)
}

func TestSweepFails(t *testing.T) {
	down := &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "delete"}
	locked := &claimcheck.Error{Code: claimcheck.CodeForbidden, Op: "delete"}
	old := time.Now().AddDate(0, 0, -10)
	fill := func(t *testing.T) *sweptStore {
		s := &sweptStore{Store: new(memstore.Store)}
		for range 20 {
			putAt(t, s, "a", old)
			putAt(t, s, "b", old)
		}
		return s
	}
	sweep := func(ctx context.Context, s *sweptStore) (claimcheck.SweepReport, error) {
		return newSweeper(t, claimcheck.SweeperConfig{Store: s, Days: 3}).Sweep(ctx)
	}

	t.Run("one object", func(t *testing.T) {
		s := fill(t)
		failed := false
		s.deleteIf = func(string) error {
			if !failed {
				failed = true
				return locked
			}
			return nil
		}
		report, err := sweep(t.Context(), s)
		if !errors.Is(err, claimcheck.ErrForbidden) || report.Objects != 39 || len(report.Deleted) != 2 || len(keysOf(t, s)) != 1 {
			t.Errorf("deleted %d of %d days, left %d: %v", report.Objects, len(report.Deleted), len(keysOf(t, s)), err)
		}
		if !slices.Equal(s.lists[:1], []string{"claims/"}) {
			t.Errorf("listed %q", s.lists)
		}
	})
	t.Run("every object", func(t *testing.T) {
		s := fill(t)
		s.deleteIf = func(string) error { return down }
		report, err := sweep(t.Context(), s)
		if !errors.Is(err, claimcheck.ErrUnavailable) || report.Objects != 0 || len(report.Deleted) != 0 || len(s.deletes) != 10 {
			t.Errorf("reported %d, tried %d times, want 10: %v", report.Objects, len(s.deletes), err)
		}
	})
	t.Run("the list", func(t *testing.T) {
		s := fill(t)
		s.failLists(down)
		report, err := sweep(t.Context(), s)
		if !errors.Is(err, claimcheck.ErrUnavailable) || report.Objects != 40 {
			t.Errorf("reported %d: %v", report.Objects, err)
		}
	})
	t.Run("the context", func(t *testing.T) {
		s := fill(t)
		ctx, cancel := context.WithCancel(t.Context())
		s.deleteIf = func(string) error {
			cancel()
			return nil
		}
		report, err := sweep(ctx, s)
		if !errors.Is(err, context.Canceled) || report.Objects != 1 || len(report.Deleted) != 1 || len(s.deletes) != 1 {
			t.Errorf("reported %d, tried %d times, want 1: %v", report.Objects, len(s.deletes), err)
		}
	})
}

// lines are those of a log.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func TestSweeperRun(t *testing.T) {
	for _, test := range []struct{ interval, want time.Duration }{{0, time.Hour}, {5 * time.Minute, 5 * time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			s := &sweptStore{Store: new(memstore.Store)}
			for d := range 10 {
				putAt(t, s, "a", time.Now().AddDate(0, 0, -d))
			}
			log := make(lines, 1000)
			sweeper := newSweeper(t, claimcheck.SweeperConfig{Store: s, Days: 3, Interval: test.interval, Logger: slog.New(slog.NewTextHandler(log, nil))})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- sweeper.Run(ctx) }()

			synctest.Wait()
			if s.sweeps() != 1 || len(keysOf(t, s.Store)) != 4 {
				t.Errorf("at the start: %d sweeps, %d keys left, want 1 and 4", s.sweeps(), len(keysOf(t, s.Store)))
			}
			s.failLists(errors.New("down"))
			time.Sleep(test.want - 1)
			synctest.Wait()
			if s.sweeps() != 1 {
				t.Errorf("%d sweeps before the interval has passed", s.sweeps())
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if s.sweeps() != 2 || len(log) != 7 { // 6 days were deleted
				t.Errorf("after %v: %d sweeps and %d lines, want 2 and 7", test.want, s.sweeps(), len(log))
			}
			var last string
			for len(log) > 0 {
				last = <-log
			}
			if !strings.Contains(last, "level=ERROR") || !strings.Contains(last, "error=down") {
				t.Errorf("the last line is %q, want one with the error", last)
			}
			s.failLists(nil)
			time.Sleep(48 * time.Hour)
			synctest.Wait()
			if want := 2 + int(48*time.Hour/test.want); s.sweeps() != want || len(keysOf(t, s.Store)) != 2 {
				t.Errorf("two days later: %d sweeps, %d keys left, want %d and 2", s.sweeps(), len(keysOf(t, s.Store)), want)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
		})
	}
}
