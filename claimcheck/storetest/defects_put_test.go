package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
)

var putDefects = []defect{
	{
		name: "changes line ends",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				if tenantOf(key) == "round" {
					data, _ := content(obj)
					obj = object(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")))
				}
				return b.Store.Put(ctx, key, obj)
			}
		},
		fails: []string{"put-get"},
	},
	{
		name: "reads obj from where it stands",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				if at, _ := obj.Seek(0, io.SeekCurrent); at > 0 {
					data, _ := io.ReadAll(obj)
					obj = object(data)
				}
				return b.Store.Put(ctx, key, obj)
			}
		},
		fails: []string{"put-section"},
	},
	{
		name: "reads what is below obj",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				below, _, _ := obj.Outer()
				return b.Store.Put(ctx, key, io.NewSectionReader(below, 0, obj.Size()))
			}
		},
		fails: []string{"put-section"},
	},
	{
		name: "keeps obj",
		break_: func(b *broken) {
			var kept sync.Map
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				err := b.Store.Put(ctx, key, obj)
				if err == nil {
					kept.Store(key, obj)
				}
				return err
			}
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				if obj, ok := kept.Load(key); ok {
					// The bytes are its own, the reading is not in time.
					data, _ := content(obj.(*io.SectionReader))
					other := &broken{Store: new(memstore.Store)}
					if err := other.Store.Put(ctx, key, object(data)); err != nil {
						return nil, err
					}
					if _, err := b.Store.Get(ctx, key, 0, 1); err == nil {
						return other.Store.Get(ctx, key, off, n)
					}
				}
				return b.Store.Get(ctx, key, off, n)
			}
		},
		fails: []string{"put-copies"},
	},
	{
		name: "overwrites",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				// Whole, so that it is nothing but an overwrite.
				other := new(memstore.Store)
				if err := other.Put(ctx, key, obj); err != nil {
					return err
				}
				data, _ := content(obj)
				for {
					if err := b.Store.Delete(ctx, key); err != nil {
						return err
					}
					if err := b.Store.Put(ctx, key, object(data)); !errors.Is(err, claimcheck.ErrExists) {
						return err
					}
				}
			}
		},
		fails: []string{"put-exists", "put-concurrent-equal"},
	},
	{
		name: "is content with the same bytes",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				err := b.Store.Put(ctx, key, obj)
				if errors.Is(err, claimcheck.ErrExists) {
					r, _ := b.Store.Get(ctx, key, 0, 1<<40)
					there, _ := io.ReadAll(r)
					if data, _ := content(obj); bytes.Equal(there, data) {
						return nil
					}
				}
				return err
			}
		},
		fails: []string{"put-exists"},
	},
	{
		name: "looks before it puts",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				if _, err := b.Store.Get(ctx, key, 0, 1); err == nil {
					return failure("put", claimcheck.CodeExists, key)
				}
				err := new(memstore.Store).Put(ctx, key, obj)
				if err != nil {
					return err
				}
				if err = b.Store.Put(ctx, key, obj); errors.Is(err, claimcheck.ErrExists) {
					return nil // would have replaced it
				}
				return err
			}
		},
		fails: []string{"put-concurrent-equal"},
	},
	{
		name: "belongs to one goroutine",
		break_: func(b *broken) {
			var owner sync.Map
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				stack := make([]byte, 64)
				id := string(bytes.Fields(stack[:runtime.Stack(stack, false)])[1]) // goroutine 7 [running]:
				if _, taken := owner.LoadOrStore("", id); taken {
					if first, _ := owner.Load(""); first != id {
						return failure("put", claimcheck.CodeUnavailable, key)
					}
				}
				return b.Store.Put(ctx, key, obj)
			}
		},
		fails: []string{"put-concurrent", "put-concurrent-equal", "pack-bodies", "list-many", "list-delete"},
	},
	{
		name: "shows what grows",
		break_: func(b *broken) {
			var growing sync.Map
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				if obj.Size() > 1<<20 {
					growing.Store(key, true)
					defer growing.Delete(key)
				}
				return b.Store.Put(ctx, key, obj)
			}
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				if _, ok := growing.Load(key); ok {
					return io.NopCloser(strings.NewReader("")), nil
				}
				return b.Store.Get(ctx, key, off, n)
			}
		},
		fails: []string{"put-half"},
	},
	{
		name: "locks readers out while it puts",
		break_: func(b *broken) {
			var mu sync.RWMutex
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				mu.Lock()
				defer mu.Unlock()
				return b.Store.Put(ctx, key, obj)
			}
			b.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				if !mu.TryRLock() {
					return nil, failure("get", claimcheck.CodeUnavailable, key)
				}
				defer mu.RUnlock()
				return b.Store.Get(ctx, key, off, n)
			}
		},
		fails: []string{"put-half"},
	},
	{
		name: "returns before it has read",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				if obj.Size() != 6<<20 || strings.Contains(key, "during") {
					return b.Store.Put(ctx, key, obj)
				}
				go func() { _ = b.Store.Put(ctx, key, obj) }()
				return nil
			}
		},
		fails: []string{"put-half"},
	},
	{
		name: "stores what it could read",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				err := b.Store.Put(ctx, key, obj)
				if errors.Is(err, claimcheck.ErrUnavailable) && ctx.Err() == nil {
					_ = b.Store.Put(ctx, key, object(nil))
				}
				return err
			}
		},
		fails: []string{"put-source-fails", "put-source-short"},
	},
	{
		name: "takes the end of the source for the end of obj",
		break_: func(b *broken) {
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				err := b.Store.Put(ctx, key, obj)
				if errors.Is(err, io.ErrUnexpectedEOF) {
					data, _ := content(obj)
					return b.Store.Put(ctx, key, object(data))
				}
				return err
			}
		},
		fails: []string{"put-source-short"},
	},
	{
		name: "keeps the key of a Put that failed",
		break_: func(b *broken) {
			var kept sync.Map
			b.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				if _, ok := kept.Load(key); ok {
					return failure("put", claimcheck.CodeExists, key)
				}
				err := b.Store.Put(ctx, key, obj)
				if errors.Is(err, claimcheck.ErrUnavailable) {
					kept.Store(key, true)
				}
				return err
			}
		},
		fails: []string{"put-source-fails", "context-before-put", "context-during-put"},
	},
}
