package claimcheck_test

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
)

// pruneStore is a memstore with faults, and with keys in its lists that should not be there.
type pruneStore struct {
	memstore.Store
	stray    []string
	listErr  error
	deleteOf map[string]error
	prefixes []string
	deletes  []string
}

func (s *pruneStore) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	s.prefixes = append(s.prefixes, prefix)
	return func(yield func(string, error) bool) {
		for _, key := range s.stray {
			if !yield(key, nil) {
				return
			}
		}
		for key, err := range s.Store.List(ctx, prefix) {
			if !yield(key, err) {
				return
			}
		}
		if s.listErr != nil {
			yield("", s.listErr)
		}
	}
}

func (s *pruneStore) Delete(ctx context.Context, key string) error {
	s.deletes = append(s.deletes, key)
	if err := s.deleteOf[key]; err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

// keys returns what is in the store, sorted.
func (s *pruneStore) keys(t testing.TB) []string {
	t.Helper()
	var keys []string
	for key, err := range s.Store.List(context.Background(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// packAt stores a pack of a tenant that was made at a time, and returns its key.
func packAt(t testing.TB, s claimcheck.Store, tenant string, at time.Time) string {
	t.Helper()
	first, err := claimcheck.NewPackRef(tenant, at)
	if err != nil {
		t.Fatal(err)
	}
	p, err := claimcheck.NewPack(first, []claimcheck.Body{{Tenant: tenant, Data: []byte("body")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(context.Background(), p.Key(), p.Object()); err != nil {
		t.Fatal(err)
	}
	return p.Key()
}

// eraseTime is before when the packs of these tests are erased.
var eraseTime = time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)

// erasable is a store with packs around eraseTime, of acme and of tenants whose names are
// like it.
func erasable(t testing.TB) (s *pruneStore, old, young, others []string) {
	t.Helper()
	s = &pruneStore{}
	for _, at := range []time.Time{time.UnixMilli(0), eraseTime.AddDate(0, 0, -1), eraseTime.Add(-time.Millisecond)} {
		old = append(old, packAt(t, s, "acme", at))
	}
	for _, at := range []time.Time{eraseTime, eraseTime.Add(time.Hour), eraseTime.AddDate(1, 0, 0)} {
		young = append(young, packAt(t, s, "acme", at))
	}
	for _, tenant := range []string{"acm", "acme2", "acme-", "ACME", "_"} {
		others = append(others, packAt(t, s, tenant, eraseTime.AddDate(0, 0, -1)))
	}
	return s, old, young, others
}

func sorted(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return all
}

func TestErase(t *testing.T) {
	stray := []string{
		"claims/tenant=acme/dt=2026-08-01/notes.txt",
		"claims/tenant=acme/dt=2020-01-01/01M39VMD8RA3C5HR4RBV67Y000", // of another day
		"claims/tenant=acme/01M39VMD8RA3C5HR4RBV67Y000",
		"claims/tenant=acme2/dt=2026-09-24/01M39VMD8RA3C5HR4RBV67Y000", // of another tenant
		"claims/tenant=acme/../tenant=acme2/dt=2026-09-24/01M39VMD8RA3C5HR4RBV67Y000",
		"",
	}
	for _, tt := range []struct {
		name   string
		before time.Time
		o      claimcheck.EraseOptions
		all    bool // of acme
	}{
		{"before a time", eraseTime, claimcheck.EraseOptions{}, false},
		{"before a time of another zone", eraseTime.In(time.FixedZone("", 9*3600)), claimcheck.EraseOptions{}, false},
		{"before a time, dry", eraseTime, claimcheck.EraseOptions{DryRun: true}, false},
		{"all", time.Time{}, claimcheck.EraseOptions{All: true}, true},
		{"all, dry", time.Time{}, claimcheck.EraseOptions{All: true, DryRun: true}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, old, young, others := erasable(t)
			s.stray = stray
			var told []string
			tt.o.Deleted = func(key string) { told = append(told, key) }
			got, err := claimcheck.Erase(context.Background(), s, "acme", tt.before, tt.o)
			if err != nil {
				t.Fatal(err)
			}
			gone, kept := old, young
			if tt.all {
				gone, kept = sorted(old, young), nil
			}
			if want := (claimcheck.Erasure{Deleted: len(gone), Kept: len(kept), Undated: stray}); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
			if !slices.Equal(sorted(told), sorted(gone)) {
				t.Errorf("told of %q, want %q", told, gone)
			}
			want := sorted(kept, others)
			if tt.o.DryRun {
				want = sorted(old, young, others)
			}
			if keys := s.keys(t); !slices.Equal(keys, want) {
				t.Errorf("left are %q, want %q", keys, want)
			}
			if !slices.Equal(s.prefixes, []string{"claims/tenant=acme/"}) {
				t.Errorf("listed %q", s.prefixes)
			}
		})
	}
}

// Nothing is listed or deleted for what is no tenant, or when the time does not go with All.
func TestEraseRefuses(t *testing.T) {
	for _, tt := range []struct {
		tenant string
		before time.Time
		o      claimcheck.EraseOptions
		is     error
	}{
		{"", eraseTime, claimcheck.EraseOptions{}, claimcheck.ErrInvalidTenant},
		{"", time.Time{}, claimcheck.EraseOptions{All: true}, claimcheck.ErrInvalidTenant},
		{"a/b", eraseTime, claimcheck.EraseOptions{}, claimcheck.ErrInvalidTenant},
		{"..", eraseTime, claimcheck.EraseOptions{}, claimcheck.ErrInvalidTenant},
		{"*", eraseTime, claimcheck.EraseOptions{}, claimcheck.ErrInvalidTenant},
		{"acme/", eraseTime, claimcheck.EraseOptions{}, claimcheck.ErrInvalidTenant},
		{strings.Repeat("a", 65), eraseTime, claimcheck.EraseOptions{}, claimcheck.ErrInvalidTenant},
		{"acme", time.Time{}, claimcheck.EraseOptions{}, nil},
		{"acme", eraseTime, claimcheck.EraseOptions{All: true}, nil},
	} {
		s, old, young, others := erasable(t)
		got, err := claimcheck.Erase(context.Background(), s, tt.tenant, tt.before, tt.o)
		if !envelope.IsPermanent(err) || tt.is != nil && !errors.Is(err, tt.is) || !reflect.DeepEqual(got, claimcheck.Erasure{}) {
			t.Errorf("%q, %v: %+v, %v", tt.tenant, tt.before, got, err)
		}
		if len(s.prefixes) != 0 || !slices.Equal(s.keys(t), sorted(old, young, others)) {
			t.Errorf("%q, %v: listed %q", tt.tenant, tt.before, s.prefixes)
		}
	}
}

// What the store refuses to delete is passed over; anything else ends the run, which can be
// repeated.
func TestEraseFails(t *testing.T) {
	outage := &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "delete"}
	locked := &claimcheck.Error{Code: claimcheck.CodeForbidden, Op: "delete"}

	s, old, young, others := erasable(t)
	s.deleteOf = map[string]error{old[0]: locked, old[2]: locked}
	got, err := claimcheck.Erase(context.Background(), s, "acme", eraseTime, claimcheck.EraseOptions{})
	slices.Sort(got.Forbidden)
	if want := (claimcheck.Erasure{Deleted: 1, Kept: 3, Forbidden: sorted([]string{old[0], old[2]})}); !reflect.DeepEqual(got, want) || !errors.Is(err, claimcheck.ErrForbidden) {
		t.Errorf("locked: %+v, %v, want %+v", got, err, want)
	}
	if keys, want := s.keys(t), sorted([]string{old[0], old[2]}, young, others); !slices.Equal(keys, want) {
		t.Errorf("locked: left are %q, want %q", keys, want)
	}

	s, old, _, _ = erasable(t)
	s.deleteOf = map[string]error{old[1]: outage}
	got, err = claimcheck.Erase(context.Background(), s, "acme", eraseTime, claimcheck.EraseOptions{})
	if last := s.deletes[len(s.deletes)-1]; last != old[1] || len(got.Forbidden) > 0 {
		t.Errorf("outage: goes on to %s, %+v", last, got)
	}
	if got.Deleted > 2 || !errors.Is(err, claimcheck.ErrUnavailable) || !slices.Contains(s.keys(t), old[1]) {
		t.Errorf("outage: %+v, %v", got, err)
	}
	s.deleteOf = nil
	again, err := claimcheck.Erase(context.Background(), s, "acme", eraseTime, claimcheck.EraseOptions{})
	if got.Deleted+again.Deleted != 3 || err != nil {
		t.Errorf("again: %+v, %v after %+v", again, err, got)
	}

	s, _, _, _ = erasable(t)
	s.listErr = outage
	if _, err = claimcheck.Erase(context.Background(), s, "acme", eraseTime, claimcheck.EraseOptions{}); !envelope.IsTransient(err) {
		t.Errorf("a list that ends early: %v", err)
	}

	s, old, young, others = erasable(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err = claimcheck.Erase(ctx, s, "acme", eraseTime, claimcheck.EraseOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is done: %v", err)
	}
	if !slices.Equal(s.keys(t), sorted(old, young, others)) {
		t.Error("a context that is done: something was deleted")
	}
}

// In every store of ours what is erased is gone, for all who hold a reference, and what is not
// is there.
func TestEraseInStores(t *testing.T) {
	folder, err := filestore.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	for name, s := range map[string]claimcheck.PrunableStore{"memstore": &memstore.Store{}, "filestore": folder} {
		c, err := claimcheck.New(claimcheck.Config{Store: s})
		if err != nil {
			t.Fatal(err)
		}
		old := packAt(t, s, "acme", eraseTime.AddDate(0, 0, -1))
		claims := c.CheckIn(context.Background(), []claimcheck.Body{{Tenant: "acme", Data: []byte("a")}, {Tenant: "acme2", Data: []byte("b")}})
		for _, tt := range []struct {
			before time.Time
			o      claimcheck.EraseOptions
			want   claimcheck.Erasure
		}{
			{eraseTime, claimcheck.EraseOptions{DryRun: true}, claimcheck.Erasure{Deleted: 1, Kept: 1}},
			{eraseTime, claimcheck.EraseOptions{}, claimcheck.Erasure{Deleted: 1, Kept: 1}},
			{eraseTime, claimcheck.EraseOptions{}, claimcheck.Erasure{Kept: 1}},
			{time.Time{}, claimcheck.EraseOptions{All: true}, claimcheck.Erasure{Deleted: 1}},
			{time.Time{}, claimcheck.EraseOptions{All: true}, claimcheck.Erasure{}},
		} {
			got, err := claimcheck.Erase(context.Background(), s, "acme", tt.before, tt.o)
			if !reflect.DeepEqual(got, tt.want) || err != nil {
				t.Errorf("%s: %+v, %v, want %+v", name, got, err, tt.want)
			}
		}
		if _, err := s.Get(context.Background(), old, 0, 1); !errors.Is(err, claimcheck.ErrNotFound) {
			t.Errorf("%s: what was erased is there: %v", name, err)
		}
		if _, err := c.Redeem(context.Background(), claims[0].Ref.String(), claims[0].SHA256, 1); !errors.Is(err, claimcheck.ErrNotFound) {
			t.Errorf("%s: what was erased is redeemed: %v", name, err)
		}
		if body, err := c.Redeem(context.Background(), claims[1].Ref.String(), claims[1].SHA256, 1); string(body) != "b" || err != nil {
			t.Errorf("%s: another tenant's body: %q, %v", name, body, err)
		}
	}
}
