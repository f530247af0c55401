// Package memstore keeps the objects of a claim check in memory, for tests and demos: they
// end with the process.
package memstore

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// A Store is a [claimcheck.PrunableStore] in memory. The zero Store is empty and ready. Any
// number of goroutines may use it. It must not be copied after first use.
//
// Unlike other stores it holds a copy of every object, with no limit but the memory's.
type Store struct {
	mu      sync.RWMutex
	objects map[string][]byte // what is in it is never changed
}

var _ claimcheck.PrunableStore = (*Store)(nil)

// Put stores a copy of obj under key. See [claimcheck.Store].
func (s *Store) Put(ctx context.Context, key string, obj *io.SectionReader) error {
	if err := check(ctx, "put", key); err != nil {
		return err
	}
	if s.has(key) {
		return failure("put", claimcheck.CodeExists, key, nil)
	}
	data := make([]byte, obj.Size())
	// Not by obj's own position, and without the lock: the source may be slow.
	if n, err := obj.ReadAt(data, 0); n < len(data) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return failure("put", claimcheck.CodeUnavailable, key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := check(ctx, "put", key); err != nil {
		return err
	}
	if _, taken := s.objects[key]; taken {
		return failure("put", claimcheck.CodeExists, key, nil)
	}
	if s.objects == nil {
		s.objects = make(map[string][]byte)
	}
	s.objects[strings.Clone(key)] = data
	return nil
}

// Get returns the bytes [off, off+n) of the object. See [claimcheck.Store].
func (s *Store) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := check(ctx, "get", key); err != nil {
		return nil, err
	}
	if off < 0 || n < 0 {
		return nil, failure("get", claimcheck.CodeUnavailable, key, errors.New("negative range"))
	}
	s.mu.RLock()
	data, ok := s.objects[key]
	s.mu.RUnlock()
	if !ok {
		return nil, failure("get", claimcheck.CodeNotFound, key, nil)
	}
	size := int64(len(data))
	off = min(off, size)
	return &reader{ctx: ctx, key: key, rest: data[off : off+min(n, size-off)]}, nil
}

// List returns the keys that begin with prefix, as they were at one moment. See
// [claimcheck.PrunableStore].
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, key := range s.keys(prefix) {
			if err := ctx.Err(); err != nil {
				yield("", failure("list", claimcheck.CodeUnavailable, prefix, err))
				return
			}
			if !yield(key, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield("", failure("list", claimcheck.CodeUnavailable, prefix, err))
		}
	}
}

// Delete removes the object. See [claimcheck.PrunableStore].
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := check(ctx, "delete", key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	return nil
}

func (s *Store) has(key string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.objects[key]
	return ok
}

func (s *Store) keys(prefix string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var keys []string
	for key := range s.objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys
}

// A reader gives the rest of a range while its context lasts.
type reader struct {
	ctx  context.Context
	key  string
	rest []byte
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, failure("get", claimcheck.CodeUnavailable, r.key, err)
	}
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *reader) Close() error {
	r.rest = nil
	return nil
}

// check refuses a key that is none and a context that is done.
func check(ctx context.Context, op, key string) error {
	if _, err := claimcheck.ParseKey(key); err != nil {
		return failure(op, claimcheck.CodeInvalidRef, key, errors.Unwrap(err))
	}
	if err := ctx.Err(); err != nil {
		return failure(op, claimcheck.CodeUnavailable, key, err)
	}
	return nil
}

func failure(op string, code claimcheck.Code, key string, err error) error {
	return &claimcheck.Error{Code: code, Op: op, Key: key, Err: err}
}
