package claimcheck_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
)

func TestCheckIn(t *testing.T) {
	bodies := []claimcheck.Body{
		{Tenant: "a", ID: "0", Data: []byte("zero"), ContentType: "text/plain"},
		{Tenant: "b", ID: "1", Data: []byte("one")},
		{Tenant: "", ID: "2", Data: []byte("two")},
		{Tenant: "a", ID: "3", Data: []byte("three"), SHA256: digestOf([]byte("three"))},
		{Tenant: "a/../b", ID: "4", Data: []byte("four")},
		{Tenant: "b", ID: "5"},
		{Tenant: "a", ID: "6", Data: []byte("six"), SHA256: "6"},
		{Tenant: "a", ID: "7", Data: []byte("seven")},
	}
	before := slices.Clone(bodies)
	store := &testStore{}
	c := newChecker(t, store)
	claims := c.CheckIn(t.Context(), bodies)
	if !reflect.DeepEqual(bodies, before) {
		t.Errorf("the bodies became %v", bodies)
	}
	if len(claims) != len(bodies) || store.puts != 2 {
		t.Fatalf("%d answers, %d calls of Put", len(claims), store.puts)
	}
	for i, want := range []error{2: claimcheck.ErrInvalidTenant, 4: claimcheck.ErrInvalidTenant, 6: claimcheck.ErrInvalidRef, 7: nil} {
		claim, b := claims[i], bodies[i]
		if want != nil {
			var e *claimcheck.Error
			if !errors.Is(claim.Err, want) || !envelope.IsPermanent(claim.Err) || claim.Ref != (claimcheck.Ref{}) ||
				!errors.As(claim.Err, &e) || e.Tenant != b.Tenant {
				t.Errorf("body %d: %+v, want %v", i, claim, want)
			}
			continue
		}
		if claim.Err != nil || claim.Ref.Tenant() != b.Tenant || claim.SHA256 != digestOf(b.Data) || claim.Size != int64(len(b.Data)) {
			t.Errorf("body %d: %+v", i, claim)
		}
		got, err := c.Redeem(t.Context(), claim.Ref.String(), claim.SHA256, claim.Size)
		if err != nil || string(got) != string(b.Data) {
			t.Errorf("body %d: got %q, %v", i, got, err)
		}
	}
	for _, pack := range [][]int{{0, 3, 7}, {1, 5}} {
		for i, body := range pack {
			if r := claims[body].Ref; r.Index() != i || r.Key() != claims[pack[0]].Ref.Key() {
				t.Errorf("body %d is %v, not claim %d of the first's pack", body, r, i)
			}
		}
	}
	if got := c.CheckIn(t.Context(), nil); len(got) != 0 || store.puts != 2 {
		t.Errorf("no bodies: %v, %d calls of Put", got, store.puts)
	}
	again := checkIn(t, c, bodies[0])
	if again[0].Ref == claims[0].Ref || again[0].SHA256 != claims[0].SHA256 {
		t.Errorf("checked in again: %v after %v", again[0], claims[0])
	}
}

func TestCheckInSplits(t *testing.T) {
	const fix = 136 + 200 // what a claim costs beside its texts
	sizes := func(n ...int) (bodies []claimcheck.Body) {
		for i, size := range n {
			bodies = append(bodies, claimcheck.Body{Tenant: "acme", Data: pattern(i, size)})
		}
		return bodies
	}
	texts := sizes(100, 100)
	texts[0].ID, texts[1].ContentType = "12345", "text/x"
	tests := []struct {
		why    string
		limit  int64
		bodies []claimcheck.Body
		want   string // the pack of each
	}{
		{"all of it fits", 2*fix + 200, sizes(100, 100), "aa"},
		{"a byte over the limit", 2*fix + 199, sizes(100, 100), "ab"},
		{"the texts count", 2*fix + 211, texts, "aa"},
		{"the texts count, by a byte", 2*fix + 210, texts, "ab"},
		{"in order, not by what would fit", 1000, sizes(300, 900, 10, 10), "abcc"},
		{"one that is larger has its own, between", 1000, sizes(10, 5000, 10), "abc"},
		{"one that is larger has its own, first", 1000, sizes(5000, 10), "ab"},
		{"a limit under everything", 1, sizes(0, 0), "ab"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			store := &testStore{}
			c, err := claimcheck.New(claimcheck.Config{Store: store, PackMaxBytes: tt.limit})
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			var packs []string
			for i, claim := range checkIn(t, c, tt.bodies...) {
				key := claim.Ref.Key()
				if !slices.Contains(packs, key) {
					packs = append(packs, key)
				}
				got.WriteByte('a' + byte(slices.Index(packs, key)))
				if body, err := c.Redeem(t.Context(), claim.Ref.String(), claim.SHA256, claim.Size); err != nil || digestOf(body) != digestOf(tt.bodies[i].Data) {
					t.Errorf("body %d: %d bytes, %v", i, len(body), err)
				}
			}
			if got.String() != tt.want || store.puts != len(packs) {
				t.Errorf("the packs are %s, %d calls of Put; want %s", &got, store.puts, tt.want)
			}
		})
	}
}

func TestCheckInOf65001(t *testing.T) {
	bodies := make([]claimcheck.Body, claimcheck.MaxPackClaims+1)
	for i := range bodies {
		bodies[i].Tenant = "acme"
	}
	store := &testStore{}
	c, err := claimcheck.New(claimcheck.Config{Store: store, PackMaxBytes: claimcheck.MaxPackBytes})
	if err != nil {
		t.Fatal(err)
	}
	claims := checkIn(t, c, bodies...)
	if last := claims[len(claims)-1].Ref; store.puts != 2 || last.Index() != 0 || claims[len(claims)-2].Ref.Index() != 64_999 {
		t.Errorf("%d calls of Put, the last claim is %v", store.puts, last)
	}
}

// TestCheckInOf4GiB has bodies whose cost is that of one pack, but whose manifest is not.
func TestCheckInOf4GiB(t *testing.T) {
	id := strings.Repeat("\x01", 1000) // 6,000 characters of JSON
	body := claimcheck.Body{Tenant: "acme", ID: id, Data: make([]byte, 64<<20-136-200-1000), SHA256: digestOf(nil)}
	store := &testStore{put: func(context.Context, string, *io.SectionReader) error { return nil }}
	c, err := claimcheck.New(claimcheck.Config{Store: store, PackMaxBytes: claimcheck.MaxPackBytes})
	if err != nil {
		t.Fatal(err)
	}
	claims := checkIn(t, c, slices.Repeat([]claimcheck.Body{body}, 64)...)
	if store.puts != 2 || claims[63].Ref.Index() != 0 {
		t.Errorf("%d calls of Put, the last is claim %d", store.puts, claims[63].Ref.Index())
	}
}

// TestPutFails lets the Put of one pack fail: its bodies fail, the others do not.
func TestPutFails(t *testing.T) {
	errClient := errors.New("a client's error")
	tests := []struct {
		why       string
		err       error
		want      error
		permanent bool
	}{
		{"down", &claimcheck.Error{Code: claimcheck.CodeUnavailable, Status: 503, Err: errClient}, claimcheck.ErrUnavailable, false},
		{"forbidden", &claimcheck.Error{Code: claimcheck.CodeForbidden, Status: 503, Err: errClient}, claimcheck.ErrForbidden, false},
		{"too large for this store", &claimcheck.Error{Code: claimcheck.CodeTooLarge, Status: 503, Err: errClient}, claimcheck.ErrTooLarge, true},
		{"an error that nobody translated", errClient, claimcheck.ErrUnavailable, false},
		{"cancelled", &claimcheck.Error{Code: claimcheck.CodeUnavailable, Err: errors.Join(context.Canceled, errClient)}, context.Canceled, false},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			store := &testStore{}
			store.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				if strings.Contains(key, "tenant=b/") {
					return tt.err
				}
				return store.store(ctx, key, obj)
			}
			c := newChecker(t, store)
			claims := c.CheckIn(t.Context(), []claimcheck.Body{{Tenant: "a"}, {Tenant: "b"}, {Tenant: "c"}, {Tenant: "b"}})
			for i, claim := range claims {
				if i%2 == 0 {
					if claim.Err != nil {
						t.Errorf("body %d: %v", i, claim.Err)
					}
					continue
				}
				var e *claimcheck.Error
				if !errors.Is(claim.Err, tt.want) || !errors.Is(claim.Err, errClient) || !errors.As(claim.Err, &e) || e.Tenant != "b" {
					t.Errorf("body %d: %v, want %v", i, claim.Err, tt.want)
				}
				if envelope.IsPermanent(claim.Err) != tt.permanent || envelope.IsTransient(claim.Err) == tt.permanent {
					t.Errorf("body %d: %v is permanent: %t", i, claim.Err, envelope.IsPermanent(claim.Err))
				}
				if claim.Ref != (claimcheck.Ref{}) || claim.SHA256 != "" {
					t.Errorf("body %d has a claim: %v", i, claim)
				}
			}
			if store.puts != 3 {
				t.Errorf("%d calls of Put", store.puts)
			}
		})
	}
}

// TestKeyTaken is for a Put whose answer was lost on the way, and which the store tried again.
func TestKeyTaken(t *testing.T) {
	exists := &claimcheck.Error{Code: claimcheck.CodeExists, Op: "put"}
	var keys []string
	store := &testStore{}
	taken := 1
	store.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
		keys = append(keys, key)
		if len(keys) <= taken {
			return errors.Join(exists, store.store(ctx, key, obj)) // it is there all the same
		}
		return store.store(ctx, key, obj)
	}
	c := newChecker(t, store)
	body := []byte("hello")
	claim := checkIn(t, c, claimcheck.Body{Tenant: "acme", ID: "id", Data: body})[0]
	if len(keys) != 2 || keys[0] == keys[1] || claim.Ref.Key() != keys[1] {
		t.Errorf("put under %q, claimed %v", keys, claim.Ref)
	}
	if got, err := c.Redeem(t.Context(), claim.Ref.String(), claim.SHA256, claim.Size); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}

	keys, taken = nil, 1000
	claim = c.CheckIn(t.Context(), []claimcheck.Body{{Tenant: "acme", Data: body}})[0]
	if len(keys) != 2 || !errors.Is(claim.Err, claimcheck.ErrUnavailable) || !envelope.IsTransient(claim.Err) {
		t.Errorf("put under %q: %v", keys, claim.Err)
	}
}

// TestPutsInFlight counts the calls of Put at the same time over several calls of CheckIn.
func TestPutsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		store := &testStore{}
		store.put = func(context.Context, string, *io.SectionReader) error {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Second) // of the bubble: until everybody waits
			now.Add(-1)
			return nil
		}
		c, err := claimcheck.New(claimcheck.Config{Store: store, PackMaxBytes: 1, MaxInFlight: 5})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		done := make(chan []claimcheck.Claim)
		for range 4 {
			go func() { done <- c.CheckIn(t.Context(), slices.Repeat([]claimcheck.Body{{Tenant: "acme"}}, 10)) }()
		}
		for range 4 {
			for i, claim := range <-done {
				if claim.Err != nil {
					t.Errorf("body %d: %v", i, claim.Err)
				}
			}
		}
		if most.Load() != 5 || store.puts != 40 || time.Since(begin) != 8*time.Second {
			t.Errorf("%d of %d calls at the same time, for %v", most.Load(), store.puts, time.Since(begin))
		}
	})
}

// TestCheckInCancelled cancels while one Put runs and others wait for its place.
func TestCheckInCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &testStore{put: func(ctx context.Context, key string, _ *io.SectionReader) error {
			<-ctx.Done()
			return &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "put", Key: key, Err: ctx.Err()}
		}}
		c, err := claimcheck.New(claimcheck.Config{Store: store, MaxInFlight: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan []claimcheck.Claim)
		go func() {
			done <- c.CheckIn(ctx, []claimcheck.Body{{Tenant: "a"}, {Tenant: "b"}, {Tenant: ""}, {Tenant: "a"}})
		}()
		synctest.Wait()
		cancel()
		check := func(claims []claimcheck.Claim, puts int) {
			for i, claim := range claims {
				if i == 2 {
					if !errors.Is(claim.Err, claimcheck.ErrInvalidTenant) {
						t.Errorf("body %d: %v", i, claim.Err)
					}
				} else if !errors.Is(claim.Err, context.Canceled) || !errors.Is(claim.Err, claimcheck.ErrUnavailable) || !envelope.IsTransient(claim.Err) {
					t.Errorf("body %d: %v", i, claim.Err)
				}
			}
			if store.puts != puts {
				t.Errorf("%d calls of Put, want %d", store.puts, puts)
			}
		}
		check(<-done, 1)
		check(c.CheckIn(ctx, []claimcheck.Body{{Tenant: "a"}, {Tenant: "b"}, {Tenant: "a/b"}}), 1)
	})
}

// TestStorePanics: what a Store throws comes out where the caller can catch it, and leaves no
// place taken.
func TestStorePanics(t *testing.T) {
	store := &testStore{}
	store.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
		if strings.Contains(key, "tenant=b/") {
			panic("a bug")
		}
		return store.store(ctx, key, obj)
	}
	c, err := claimcheck.New(claimcheck.Config{Store: store, MaxInFlight: 1})
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if v := fmt.Sprint(recover()); !strings.Contains(v, "a bug") || !strings.Contains(v, "checkin_test.go") {
				t.Errorf("recovered %s", v)
			}
		}()
		claims := c.CheckIn(t.Context(), []claimcheck.Body{{Tenant: "a"}, {Tenant: "b"}, {Tenant: "c"}, {Tenant: "b"}})
		t.Errorf("got %v", claims)
	}()
	checkIn(t, c, claimcheck.Body{Tenant: "a"})
}

// TestGivenDigest: a digest that is given is taken for true, and not computed again.
func TestGivenDigest(t *testing.T) {
	store := &testStore{}
	c := newChecker(t, store)
	wrong := digestOf([]byte("something else"))
	claim := checkIn(t, c, claimcheck.Body{Tenant: "acme", Data: []byte("hello"), SHA256: wrong})[0]
	if claim.SHA256 != wrong {
		t.Errorf("the digest became %s", claim.SHA256)
	}
	if _, err := c.Redeem(t.Context(), claim.Ref.String(), claim.SHA256, claim.Size); !errors.Is(err, claimcheck.ErrIntegrity) {
		t.Errorf("redeemed with %v", err)
	}
}

// TestRoundTrips checks in and redeems bodies of all sizes and tenants at the same time.
func TestRoundTrips(t *testing.T) {
	store := &testStore{}
	c, err := claimcheck.New(claimcheck.Config{Store: store, PackMaxBytes: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	for g := range 8 {
		t.Run(fmt.Sprint(g), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, uint64(g)))
			for range 20 {
				bodies := make([]claimcheck.Body, random.IntN(30))
				for i := range bodies {
					size := min(random.IntN(300), random.IntN(300)) * random.IntN(1000)
					bodies[i] = claimcheck.Body{Tenant: string(rune('a' + random.IntN(3))), Data: pattern(i, size)}
				}
				for i, claim := range checkIn(t, c, bodies...) {
					for name, redeem := range ways {
						got, err := redeem(c, t.Context(), claim.Ref.String(), claim.SHA256, claim.Size)
						if err != nil || string(got) != string(bodies[i].Data) {
							t.Fatalf("%s: body %d of %d: %d bytes of %d, %v", name, i, len(bodies), len(got), len(bodies[i].Data), err)
						}
					}
				}
			}
		})
	}
	t.Cleanup(func() { store.inspect(t) })
}
