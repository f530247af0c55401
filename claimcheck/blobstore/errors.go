package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"

	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// failure translates an error of a bucket. It does not say that an object is missing or that
// a key is taken; see Store.missing and Store.taken.
func failure(ctx context.Context, op, key string, err error) *claimcheck.Error {
	e := &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: op, Key: key}
	if g, ok := errors.AsType[*googleapi.Error](err); ok {
		e.Status = g.Code
	}
	code := gcerrors.Code(err)
	text := text(err, code)
	switch ended := ctx.Err(); {
	case ended != nil:
		if !errors.Is(err, ended) {
			err = errors.Join(ended, err)
		}
	case refused(err):
		e.Code = claimcheck.CodeForbidden
	}
	e.Err = &cause{text: text, err: err}
	return e
}

// refused reports whether the service knows us not, or does not let us.
func refused(err error) bool {
	if g, ok := errors.AsType[*googleapi.Error](err); ok && (g.Code == http.StatusUnauthorized || g.Code == http.StatusForbidden) {
		return true
	}
	return gcerrors.Code(err) == gcerrors.PermissionDenied || errors.Is(err, fs.ErrPermission)
}

// A cause is an error of the bucket with a text that can be shown: drivers' own hold URLs and
// whole answers. errors.As finds the rest in it.
type cause struct {
	text string
	err  error
}

func (c *cause) Error() string { return c.text }
func (c *cause) Unwrap() error { return c.err }

func text(err error, code gcerrors.ErrorCode) string {
	if ended, ok := errors.AsType[*net.OpError](err); ok {
		return ended.Error()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns.Error()
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Op + ": " + path.Err.Error()
	}
	switch code {
	case gcerrors.Canceled, gcerrors.DeadlineExceeded:
		for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
			if errors.Is(err, ended) {
				return ended.Error()
			}
		}
	case gcerrors.Unknown:
		if !errors.Is(err, gcerrors.ErrUnknown) {
			return err.Error() // our own, or of the caller's object
		}
	}
	return fmt.Sprintf("the bucket answers %v", code)
}
