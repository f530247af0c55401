package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
)

var (
	errStalled = errors.New("gateway: the store gave nothing for the stall timeout")
	errShort   = errors.New("gateway: the object ends before the claim")
)

// A body is the part of an object that is still to be sent.
type body struct {
	store     claimcheck.Store
	key       string
	off, left int64
	from      io.ReadCloser // nil until the first byte is needed
	watch     *time.Timer   // cancels the context of a read that takes longer than stall
	stall     time.Duration
}

// next fills buf, or what of it is left. It returns nothing at the end of the body, and an
// error when the object ends before it.
func (b *body) next(ctx context.Context, buf []byte) ([]byte, error) {
	if b.left == 0 {
		return nil, nil
	}
	b.watch.Reset(b.stall)
	defer b.watch.Stop()
	if b.from == nil {
		from, err := b.store.Get(ctx, b.key, b.off, b.left)
		if err != nil {
			return nil, cause(ctx, err)
		}
		b.from = from
	}
	buf = buf[:min(int64(len(buf)), b.left)]
	for n := 0; n < len(buf); {
		b.watch.Reset(b.stall)
		m, err := b.from.Read(buf[n:])
		n += m
		switch {
		case n == len(buf):
		case err == io.EOF:
			return nil, &claimcheck.Error{Code: claimcheck.CodeNotFound, Op: "get", Key: b.key, Err: errShort}
		case err != nil: // io.ErrUnexpectedEOF too: a connection that broke
			return nil, cause(ctx, err)
		}
	}
	b.left -= int64(len(buf))
	return buf, nil
}

func (b *body) close() {
	if b.from != nil {
		b.from.Close()
	}
}

// cause says why a context ended that the gateway itself has ended.
func cause(ctx context.Context, err error) error {
	if context.Cause(ctx) == errStalled { //nolint:errorlint // the very value
		return &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "get", Err: errStalled}
	}
	return err
}

// storeCode returns the code of the answer for a store's error.
func storeCode(r *http.Request, err error) Code {
	switch {
	case r.Context().Err() != nil:
		return codeCut // the client has gone: there is nobody to answer
	case envelope.IsPermanent(err): // not there, or not a pack
		return CodeNotFound
	case errors.Is(err, claimcheck.ErrForbidden):
		return CodeStoreForbidden
	}
	return CodeStoreUnavailable
}
