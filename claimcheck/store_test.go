package claimcheck_test

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// A testStore keeps objects in memory, counts its calls, and fails as a test tells it to.
type testStore struct {
	// put and get, when they are set, are asked in place of the store, which they may ask.
	put func(ctx context.Context, key string, obj *io.SectionReader) error
	get func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)

	mu      sync.Mutex
	objects map[string][]byte
	puts    int
	gets    []span
	open    int // readers that have not been closed
}

// A span is what a Get asked for.
type span struct{ off, n int64 }

func (s *testStore) Put(ctx context.Context, key string, obj *io.SectionReader) error {
	s.mu.Lock()
	s.puts++
	s.mu.Unlock()
	if s.put != nil {
		return s.put(ctx, key, obj)
	}
	return s.store(ctx, key, obj)
}

func (s *testStore) store(ctx context.Context, key string, obj *io.SectionReader) error {
	if err := ctx.Err(); err != nil {
		return &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "put", Key: key, Err: err}
	}
	data, err := io.ReadAll(obj)
	if err != nil {
		return &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "put", Key: key, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[key] != nil {
		return &claimcheck.Error{Code: claimcheck.CodeExists, Op: "put", Key: key}
	}
	if s.objects == nil {
		s.objects = make(map[string][]byte)
	}
	s.objects[key] = data
	return nil
}

func (s *testStore) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	s.mu.Lock()
	s.gets = append(s.gets, span{off, n})
	s.mu.Unlock()
	if s.get != nil {
		return s.get(ctx, key, off, n)
	}
	return s.load(ctx, key, off, n)
}

func (s *testStore) load(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "get", Key: key, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	object, ok := s.objects[key]
	if !ok {
		return nil, &claimcheck.Error{Code: claimcheck.CodeNotFound, Op: "get", Key: key}
	}
	return s.reader(io.NewSectionReader(bytes.NewReader(object), off, n)), nil
}

// reader is a reader that a Get gives; s.mu is held.
func (s *testStore) reader(r io.Reader) io.ReadCloser {
	s.open++
	return &testReader{Reader: r, store: s}
}

type testReader struct {
	io.Reader
	store *testStore
}

func (r *testReader) Close() error {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	r.store.open--
	return nil
}

// newChecker returns a Checker of a store, with defaults.
func newChecker(t testing.TB, store claimcheck.Store) *claimcheck.Checker {
	t.Helper()
	c, err := claimcheck.New(claimcheck.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// checkIn checks in bodies that are to be fine.
func checkIn(t testing.TB, c *claimcheck.Checker, bodies ...claimcheck.Body) []claimcheck.Claim {
	t.Helper()
	claims := c.CheckIn(t.Context(), bodies)
	if len(claims) != len(bodies) {
		t.Fatalf("%d answers for %d bodies", len(claims), len(bodies))
	}
	for i, claim := range claims {
		if claim.Err != nil {
			t.Fatalf("body %d: %v", i, claim.Err)
		}
	}
	return claims
}

// pattern returns n bytes that differ from those of other seeds, and do not repeat soon.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}
