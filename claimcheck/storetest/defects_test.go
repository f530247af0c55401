package storetest_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// A defect is one thing that a store does wrong.
type defect struct {
	name                   string
	break_                 func(*broken)
	forbidden, unavailable claimcheck.Store
	fails                  []string
}

var defects = slices.Concat(putDefects, getDefects, contextDefects, keyDefects, packDefects, listDefects, errorDefects)

// without returns ctx without its end.
func without(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

var contextDefects = []defect{
	{
		name: "puts although the context is done",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				if obj.Size() < 1<<20 {
					ctx = without(ctx)
				}
				return b.Store.Put(ctx, key, obj)
			}
		},
		fails: []string{"context-before-put"},
	},
	{
		name: "looks at the context before it puts only",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				if ctx.Err() == nil {
					ctx = without(ctx)
				}
				return b.Store.Put(ctx, key, obj)
			}
		},
		fails: []string{"context-during-put"},
	},
	{
		name: "stores although it says that the context has ended",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				err := b.Store.Put(ctx, key, obj)
				if err != nil && ctx.Err() != nil {
					_ = b.Store.Put(without(ctx), key, obj)
				}
				return err
			}
		},
		fails: []string{"context-before-put", "context-during-put"},
	},
	{
		name: "gets although the context is done",
		break_: func(b *broken) {
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				if ctx.Err() != nil {
					ctx = without(ctx)
				}
				return b.Store.Get(ctx, key, off, n)
			}
		},
		fails: []string{"context-before-get"},
	},
	{
		name: "looks at the context before it gets only",
		break_: func(b *broken) {
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				if ctx.Err() == nil {
					ctx = without(ctx)
				}
				return b.Store.Get(ctx, key, off, n)
			}
		},
		fails: []string{"context-during-get"},
	},
	{
		name: "ends the object with the context",
		break_: func(b *broken) {
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				r, err := b.Store.Get(ctx, key, off, n)
				if err != nil {
					return nil, err
				}
				return changing{readerFunc(func(p []byte) (int, error) {
					n, err := r.Read(p)
					if ctx.Err() != nil {
						err = io.EOF
					}
					return n, err
				}), r.Close}, nil
			}
		},
		fails: []string{"context-during-get"},
	},
	{
		name: "forgets why",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				err := b.Store.Put(ctx, key, obj)
				if ctx.Err() != nil {
					return failure("put", claimcheck.CodeUnavailable, key)
				}
				return err
			}
		},
		fails: []string{"context-before-put", "context-during-put"},
	},
	{
		name: "takes the end of a context for a missing object",
		break_: func(b *broken) {
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				if err := ctx.Err(); err != nil {
					return nil, &claimcheck.Error{Code: claimcheck.CodeNotFound, Op: "get", Key: key, Err: err}
				}
				return b.Store.Get(ctx, key, off, n)
			}
		},
		fails: []string{"context-before-get"},
	},
	{
		name: "undoes a Put whose context ends afterwards",
		break_: func(b *broken) {
			var contexts sync.Map
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				err := b.Store.Put(ctx, key, obj)
				if err == nil {
					contexts.Store(key, ctx)
				}
				return err
			}
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				if put, ok := contexts.Load(key); ok && put.(context.Context).Err() != nil {
					_ = b.Store.Delete(ctx, key)
				}
				return b.Store.Get(ctx, key, off, n)
			}
		},
		fails: []string{"context-after"},
	},
	{
		name: "lists although the context is done",
		break_: func(b *broken) {
			b.list = func(ctx context.Context, prefix string) iter.Seq2[string, error] {
				return b.Store.List(without(ctx), prefix)
			}
		},
		fails: []string{"list-many", "list-context"},
	},
	{
		name: "ends the list with the context",
		break_: func(b *broken) {
			b.list = func(ctx context.Context, prefix string) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) {
					for key, err := range b.Store.List(ctx, prefix) {
						if err != nil || !yield(key, nil) {
							return
						}
					}
				}
			}
		},
		fails: []string{"list-many", "list-context"},
	},
	{
		name: "deletes although the context is done",
		break_: func(b *broken) {
			b.remove = func(ctx context.Context, key string) error { return b.Store.Delete(without(ctx), key) }
		},
		fails: []string{"delete-context"},
	},
}

var keyDefects = []defect{
	{
		name:   "cleans keys",
		break_: func(b *broken) { renamed(b, path.Clean) },
		fails:  []string{"key-hostile"},
	},
	{
		name: "reads obj before it looks at the key",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				if obj.Size() == 1 {
					_, _ = content(obj)
				}
				return b.Store.Put(ctx, key, obj)
			}
		},
		fails: []string{"key-hostile"},
	},
	{
		name: "does not find a key that is none",
		break_: func(b *broken) {
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				r, err := b.Store.Get(ctx, key, off, n)
				if errors.Is(err, claimcheck.ErrInvalidRef) {
					return nil, failure("get", claimcheck.CodeNotFound, key)
				}
				return r, err
			}
		},
		fails: []string{"key-hostile"},
	},
	{
		name: "deletes a key that is none",
		break_: func(b *broken) {
			b.remove = func(ctx context.Context, key string) error {
				err := b.Store.Delete(ctx, key)
				if errors.Is(err, claimcheck.ErrInvalidRef) {
					return nil
				}
				return err
			}
		},
		fails: []string{"key-hostile"},
	},
	{
		name: "does not tell the case of tenants",
		break_: func(b *broken) {
			renamed(b, func(key string) string {
				tenant := tenantOf(key)
				return strings.Replace(key, "tenant="+tenant+"/", "tenant="+strings.ToLower(tenant)+"/", 1)
			})
		},
		fails: []string{"key-case", "list-prefix"},
	},
	{
		name: "cuts long tenants",
		break_: func(b *broken) {
			renamed(b, func(key string) string {
				long := strings.Repeat("x", 64)
				return strings.Replace(key, "tenant="+long+"/", "tenant="+long[1:]+"/", 1)
			})
		},
		fails: []string{"key-tenants"},
	},
	{
		name: "does not know the last year",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				if strings.Contains(key, "/dt=9999-") {
					return failure("put", claimcheck.CodeInvalidRef, key)
				}
				return b.Store.Put(ctx, key, obj)
			}
		},
		fails: []string{"key-days"},
	},
}
