package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"runtime"
	"strings"

	"github.com/watermill-envelope/envelope/claimcheck"
)

var getDefects = []defect{
	{
		name: "takes a missing object for an empty one",
		break_: func(b *broken) {
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				r, err := b.Store.Get(ctx, key, off, n)
				if errors.Is(err, claimcheck.ErrNotFound) {
					return io.NopCloser(strings.NewReader("")), nil
				}
				return r, err
			}
		},
		fails: []string{
			"put-half", "put-source-fails", "put-source-short", "get-missing", "context-before-put", "context-during-put",
			"key-tenants", "key-case", "delete",
		},
	},
	{
		name: "says with the first Read that the object is missing",
		break_: func(b *broken) {
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				r, err := b.Store.Get(ctx, key, off, n)
				if errors.Is(err, claimcheck.ErrNotFound) {
					return changing{readerFunc(func([]byte) (int, error) { return 0, err }), func() error { return nil }}, nil
				}
				return r, err
			}
		},
		fails: []string{"get-missing"},
	},
	{
		name: "finds the neighbour of a missing object",
		break_: func(b *broken) {
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				r, err := b.Store.Get(ctx, key, off, n)
				if errors.Is(err, claimcheck.ErrNotFound) && tenantOf(key) == "missing" {
					if keys, _ := listed(ctx, b, path.Dir(key)); len(keys) > 0 {
						return b.Store.Get(ctx, keys[0], off, n)
					}
				}
				return r, err
			}
		},
		fails: []string{"get-missing"},
	},
	{
		name: "fails a range past the end",
		break_: func(b *broken) {
			b.get = mapped(b, func(data []byte, off, n int64) ([]byte, error) {
				if off > 0 && off >= int64(len(data)) {
					return nil, errors.New("416")
				}
				return part(data, off, n), nil
			})
		},
		fails: []string{"get-range", "get-empty", "get-reader"},
	},
	{
		name: "fills a range up",
		break_: func(b *broken) {
			b.get = mapped(b, func(data []byte, off, n int64) ([]byte, error) {
				if end := off + n; off > 0 && end <= 1<<20 {
					data = append(data, make([]byte, max(0, end-int64(len(data))))...)
				}
				return part(data, off, n), nil
			})
		},
		fails: []string{"get-range", "get-empty", "get-reader", "pack-short"},
	},
	{
		name: "reads one byte too many",
		break_: func(b *broken) {
			b.get = mapped(b, func(data []byte, off, n int64) ([]byte, error) { return part(data, off, n+1), nil })
		},
		fails: []string{"get-range", "get-reader", "get-concurrent"},
	},
	{
		name: "takes an empty object for a missing one",
		break_: func(b *broken) {
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				r, err := b.Store.Get(ctx, key, 0, 1)
				if err != nil {
					return nil, err
				}
				if data, _ := io.ReadAll(r); len(data) == 0 {
					return nil, failure("get", claimcheck.CodeNotFound, key)
				}
				return b.Store.Get(ctx, key, off, n)
			}
		},
		fails: []string{"put-get", "put-exists", "get-empty"},
	},
	{
		name: "does not stay at the end",
		break_: func(b *broken) {
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				r, err := b.Store.Get(ctx, key, off, n)
				if err != nil {
					return nil, err
				}
				ended := false
				return changing{readerFunc(func(p []byte) (int, error) {
					if ended {
						return 0, failure("get", claimcheck.CodeUnavailable, key)
					}
					n, err := r.Read(p)
					ended = err == io.EOF
					return n, err
				}), r.Close}, nil
			}
		},
		fails: []string{"get-reader"},
	},
	{
		name: "keeps what a reader held that was closed early",
		break_: func(b *broken) {
			connections := &counter{limit: 250}
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				r, err := b.Store.Get(ctx, key, off, n)
				if err != nil {
					return nil, err
				}
				if !connections.add(1) {
					return nil, failure("get", claimcheck.CodeUnavailable, key)
				}
				ended := false
				return changing{readerFunc(func(p []byte) (int, error) {
					n, err := r.Read(p)
					if err == io.EOF && !ended {
						ended = true
						connections.add(-1)
					}
					return n, err
				}), r.Close}, nil
			}
		},
		fails: []string{"get-close-early"},
	},
	{
		name: "has too few readers",
		break_: func(b *broken) {
			readers := &counter{limit: 4}
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				if !readers.add(1) {
					readers.add(-1)
					return nil, failure("get", claimcheck.CodeUnavailable, key)
				}
				for range 100 {
					runtime.Gosched()
				}
				r, err := b.Store.Get(ctx, key, off, n)
				if err != nil {
					readers.add(-1)
					return nil, err
				}
				return changing{r, func() error {
					readers.add(-1)
					return r.Close()
				}}, nil
			}
		},
		fails: []string{"get-concurrent"},
	},
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

var packDefects = []defect{
	{
		name: "looks into ZIP files",
		break_: func(b *broken) {
			b.get = mapped(b, func(data []byte, off, n int64) ([]byte, error) {
				if bytes.HasPrefix(data, []byte("PK\x03\x04\x14")) {
					data[0] = 'p'
				}
				return part(data, off, n), nil
			})
		},
		fails: []string{"pack-bodies", "pack-65000", "pack-short", "pack-index", "pack-size", "pack-damaged"},
	},
	{
		name: "does not reach far into an object",
		break_: func(b *broken) {
			b.get = mapped(b, func(data []byte, off, n int64) ([]byte, error) {
				if off > 4<<20 {
					return nil, nil
				}
				return part(data, off, n), nil
			})
		},
		fails: []string{"pack-65000"},
	},
}
