package storetest_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
)

var listDefects = []defect{
	{
		name: "compares a prefix by folders",
		break_: func(b *broken) {
			b.list = func(ctx context.Context, prefix string) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) {
					for key, err := range b.Store.List(ctx, prefix) {
						if err == nil && prefix != "" && !strings.HasSuffix(prefix, "/") && !strings.HasPrefix(key, prefix+"/") {
							continue
						}
						if !yield(key, err) {
							return
						}
					}
				}
			}
		},
		fails: []string{"list-prefix"},
	},
	{
		name: "cleans a prefix",
		break_: func(b *broken) {
			b.list = func(ctx context.Context, prefix string) iter.Seq2[string, error] {
				if clean := path.Clean(prefix); strings.HasPrefix(clean, "claims") {
					slash := prefix[len(prefix)-1:]
					if slash != "/" {
						slash = ""
					}
					prefix = clean + slash
				}
				return b.Store.List(ctx, prefix)
			}
		},
		fails: []string{"list-prefix"},
	},
	{
		name: "fails a list of nothing",
		break_: func(b *broken) {
			b.list = func(ctx context.Context, prefix string) iter.Seq2[string, error] {
				if keys, err := listed(ctx, b, prefix); err == nil && len(keys) == 0 {
					return failing{failure("", claimcheck.CodeNotFound, "")}.List(ctx, prefix)
				}
				return b.Store.List(ctx, prefix)
			}
		},
		fails: []string{
			"list-prefix", "delete",
			// They look for what must not be there, where nothing is.
			"put-half", "put-source-fails", "put-source-short", "get-missing", "context-before-put", "context-during-put", "key-tenants",
		},
	},
	{
		name: "has only one answer of the list",
		break_: func(b *broken) {
			b.list = relisted(b, func(keys []string) []string { return keys[:min(len(keys), 1000)] })
		},
		fails: []string{"list-many", "list-delete"},
	},
	{
		name: "has a key of every answer twice",
		break_: func(b *broken) {
			b.list = relisted(b, func(keys []string) []string {
				if len(keys) > 1000 {
					keys = slices.Insert(keys, 1000, keys[999])
				}
				return keys
			})
		},
		fails: []string{"list-many", "list-delete"},
	},
	{
		name: "goes on after the caller has stopped",
		break_: func(b *broken) {
			b.list = func(ctx context.Context, prefix string) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) {
					for key, err := range b.Store.List(ctx, prefix) {
						yield(key, err)
					}
				}
			}
		},
		fails: []string{"list-many"},
	},
	{
		name: "lists once",
		break_: func(b *broken) {
			b.list = func(ctx context.Context, prefix string) iter.Seq2[string, error] {
				list, read := b.Store.List(ctx, prefix), false
				return func(yield func(string, error) bool) {
					if !read {
						read = true
						list(yield)
					}
				}
			}
		},
		fails: []string{"list-many"},
	},
	{
		name: "counts from the start for every answer",
		break_: func(b *broken) {
			b.list = func(ctx context.Context, prefix string) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) {
					for from := 0; ; from += 1000 {
						keys, err := listed(ctx, b, prefix)
						if err != nil {
							yield("", err)
							return
						}
						slices.Sort(keys)
						if from >= len(keys) {
							return
						}
						for _, key := range keys[from:min(from+1000, len(keys))] {
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
		},
		fails: []string{"list-delete"},
	},
	{
		name: "deletes nothing",
		break_: func(b *broken) {
			b.remove = func(ctx context.Context, key string) error {
				_, err := b.Store.Get(ctx, key, 0, 1)
				if errors.Is(err, claimcheck.ErrNotFound) {
					return nil
				}
				var e *claimcheck.Error
				if errors.As(err, &e) {
					return &claimcheck.Error{Code: e.Code, Op: "delete", Key: key, Err: e.Err}
				}
				return err
			}
		},
		fails: []string{"list-delete", "delete"},
	},
	{
		name: "fails to delete what is not there",
		break_: func(b *broken) {
			b.remove = func(ctx context.Context, key string) error {
				if _, err := b.Store.Get(ctx, key, 0, 1); errors.Is(err, claimcheck.ErrNotFound) {
					return err
				}
				return b.Store.Delete(ctx, key)
			}
		},
		fails: []string{"delete"},
	},
	{
		name: "deletes the day",
		break_: func(b *broken) {
			b.remove = func(ctx context.Context, key string) error {
				if err := b.Store.Delete(ctx, key); err != nil || tenantOf(key) != "a" {
					return err
				}
				keys, err := listed(ctx, b, path.Dir(key))
				for _, key := range keys {
					err = errors.Join(err, b.Store.Delete(ctx, key))
				}
				return err
			}
		},
		fails: []string{"delete"},
	},
}

var errorDefects = []defect{
	{
		name:      "says that it is down when it refuses us",
		forbidden: unavailable,
		fails:     []string{"forbidden"},
	},
	{
		name:        "says that it refuses us when it is down",
		unavailable: forbidden,
		fails:       []string{"unavailable"},
	},
	{
		name:        "has nothing when it is down",
		unavailable: failing{failure("", claimcheck.CodeNotFound, "")},
		fails:       []string{"unavailable"},
	},
	{
		name:        "is as good as ever when it is down",
		unavailable: &broken{Store: new(memstore.Store)},
		fails:       []string{"unavailable"},
	},
	{
		name:        "returns bare errors",
		forbidden:   failing{claimcheck.ErrForbidden},
		unavailable: failing{claimcheck.ErrUnavailable},
		fails:       []string{"forbidden", "unavailable"},
	},
	{
		name: "returns errors without a key",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				return rekeyed(b.Store.Put(ctx, key, obj), "")
			}
		},
		fails: []string{"put-exists", "put-concurrent-equal", "put-source-fails", "put-source-short", "context-before-put", "context-during-put", "key-hostile"},
	},
	{
		name: "returns errors without an operation",
		break_: func(b *broken) {
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				r, err := b.Store.Get(ctx, key, off, n)
				var e *claimcheck.Error
				if errors.As(err, &e) {
					return nil, &claimcheck.Error{Code: e.Code, Key: e.Key, Err: e.Err}
				}
				return r, err
			}
		},
		fails: []string{
			"put-half", "put-source-fails", "put-source-short", "get-missing", "context-before-put", "context-before-get", "context-during-put",
			"key-hostile", "key-tenants", "key-case", "delete",
		},
	},
	{
		name:        "calls an outage permanent",
		unavailable: failing{marked{failure("", claimcheck.CodeUnavailable, "")}},
		fails:       []string{"unavailable"},
	},
	{
		name: "panics",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				if strings.Contains(key, "/dt=1970-") {
					panic("before my time")
				}
				return b.Store.Put(ctx, key, obj)
			}
		},
		fails: []string{"key-days"},
	},
}
