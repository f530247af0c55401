package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
)

// A broken store is one in memory with some methods replaced.
type broken struct {
	*memstore.Store
	put    func(ctx context.Context, key string, obj *io.SectionReader) error
	get    func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)
	list   func(ctx context.Context, prefix string) iter.Seq2[string, error]
	remove func(ctx context.Context, key string) error
}

func (b *broken) Put(ctx context.Context, key string, obj *io.SectionReader) error {
	if b.put != nil {
		return b.put(ctx, key, obj)
	}
	return b.Store.Put(ctx, key, obj)
}

func (b *broken) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if b.get != nil {
		return b.get(ctx, key, off, n)
	}
	return b.Store.Get(ctx, key, off, n)
}

func (b *broken) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if b.list != nil {
		return b.list(ctx, prefix)
	}
	return b.Store.List(ctx, prefix)
}

func (b *broken) Delete(ctx context.Context, key string) error {
	if b.remove != nil {
		return b.remove(ctx, key)
	}
	return b.Store.Delete(ctx, key)
}

// A failing store fails every operation in the same way.
type failing struct{ err error }

func (f failing) fail(op, key string) error {
	var e *claimcheck.Error
	if !errors.As(f.err, &e) {
		return f.err
	}
	err := failure(op, e.Code, key)
	if _, ok := f.err.(marked); ok {
		err = marked{err}
	}
	return err
}

// marked is an error that says that it is permanent.
type marked struct{ error }

func (m marked) Unwrap() error { return m.error }
func (marked) Permanent() bool { return true }

func (f failing) Put(_ context.Context, key string, _ *io.SectionReader) error {
	return f.fail("put", key)
}

func (f failing) Get(_ context.Context, key string, _, _ int64) (io.ReadCloser, error) {
	return nil, f.fail("get", key)
}

func (f failing) Delete(_ context.Context, key string) error { return f.fail("delete", key) }

func (f failing) List(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) { yield("", f.fail("list", prefix)) }
}

func failure(op string, code claimcheck.Code, key string) error {
	return &claimcheck.Error{Code: code, Op: op, Key: key}
}

// content is obj, read in the right way.
func content(obj *io.SectionReader) ([]byte, error) {
	data := make([]byte, obj.Size())
	n, err := obj.ReadAt(data, 0)
	if n == len(data) {
		err = nil
	}
	return data[:n], err
}

func object(data []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
}

// A changing reader replaces the data of a range, and what Read does.
type changing struct {
	io.Reader
	close func() error
}

func (c changing) Close() error { return c.close() }

// mapped returns a Get that gives what change makes of the whole object.
func mapped(b *broken, change func(data []byte, off, n int64) ([]byte, error)) func(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
		r, err := b.Store.Get(ctx, key, 0, 1<<40)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		if err == nil {
			data, err = change(data, off, n)
		}
		if err != nil {
			r.Close()
			return nil, failure("get", claimcheck.CodeUnavailable, key)
		}
		return changing{whileAlive{ctx, key, bytes.NewReader(data)}, r.Close}, nil
	}
}

// whileAlive reads while its context lasts.
type whileAlive struct {
	ctx context.Context
	key string
	io.Reader
}

func (w whileAlive) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "get", Key: w.key, Err: err}
	}
	return w.Reader.Read(p)
}

// part is the range of data that Get gives.
func part(data []byte, off, n int64) []byte {
	off = min(off, int64(len(data)))
	return data[off : off+min(n, int64(len(data))-off)]
}

// listed returns the keys of a store.
func listed(ctx context.Context, b *broken, prefix string) (keys []string, err error) {
	for key, err := range b.Store.List(ctx, prefix) {
		if err != nil {
			return keys, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// relisted returns a List of what change makes of the keys of a prefix.
func relisted(b *broken, change func(keys []string) []string) func(context.Context, string) iter.Seq2[string, error] {
	return func(ctx context.Context, prefix string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			keys, err := listed(ctx, b, prefix)
			if err != nil {
				yield("", err)
				return
			}
			for _, key := range change(keys) {
				if err := ctx.Err(); err != nil {
					yield("", &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "list", Err: err})
					return
				}
				if !yield(key, nil) {
					return
				}
			}
		}
	}
}

// renamed returns a store that keeps everything under other keys.
func renamed(b *broken, rename func(key string) string) {
	b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
		return rekeyed(b.Store.Put(ctx, rename(key), obj), key)
	}
	b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
		r, err := b.Store.Get(ctx, rename(key), off, n)
		if err != nil {
			return nil, rekeyed(err, key)
		}
		return changing{renamedReader{r, key}, r.Close}, nil
	}
	b.remove = func(ctx context.Context, key string) error {
		return rekeyed(b.Store.Delete(ctx, rename(key)), key)
	}
}

type renamedReader struct {
	io.Reader
	key string
}

func (r renamedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == io.EOF {
		return n, err
	}
	return n, rekeyed(err, r.key)
}

func rekeyed(err error, key string) error {
	var e *claimcheck.Error
	if !errors.As(err, &e) {
		return err
	}
	return &claimcheck.Error{Code: e.Code, Op: e.Op, Key: key, Err: e.Err}
}

// A counter counts, with a limit.
type counter struct {
	mu       sync.Mutex
	n, limit int
}

func (c *counter) add(n int) (within bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
	return c.n <= c.limit
}

func tenantOf(key string) string {
	tenant, _, _ := strings.Cut(strings.TrimPrefix(key, "claims/tenant="), "/")
	return tenant
}
