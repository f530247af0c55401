package middleware

import (
	"context"
	"fmt"
	"io"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// A guard makes an error of a store's panic, so that its message is named, its class is known,
// and the value, which may be anything, goes nowhere.
type guard struct{ claimcheck.Store }

func (g guard) Put(ctx context.Context, key string, obj *io.SectionReader) (err error) {
	defer recovered("put", key, &err)
	return g.Store.Put(ctx, key, obj)
}

func (g guard) Get(ctx context.Context, key string, off, n int64) (r io.ReadCloser, err error) {
	defer recovered("get", key, &err)
	if r, err = g.Store.Get(ctx, key, off, n); err != nil {
		return nil, err
	}
	return guardedReader{r, key}, nil
}

type guardedReader struct {
	io.ReadCloser
	key string
}

func (r guardedReader) Read(p []byte) (n int, err error) {
	defer recovered("get", r.key, &err)
	return r.ReadCloser.Read(p)
}

func (r guardedReader) Close() (err error) {
	defer recovered("get", r.key, &err)
	return r.ReadCloser.Close()
}

// recovered is to be deferred. Of what was panicked with it tells the type, since the value may
// be anything.
func recovered(op, key string, err *error) {
	if v := recover(); v != nil {
		*err = &claimcheck.Error{
			Code: claimcheck.CodeUnavailable, Op: op, Key: key, Err: fmt.Errorf("panic with a value of type %T", v),
		}
	}
}
