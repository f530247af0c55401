package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"

	"gocloud.dev/blob"
)

// A source is the body of a put. When it fails it cancels the upload: a driver that only sees
// that there is no more to read would keep what it has.
type source struct {
	ctx    context.Context
	cancel context.CancelFunc
	obj    *io.SectionReader
	left   int64
	err    error // why the upload was cancelled
}

// Read fails once the context has ended, also with the last bytes in hand: without them
// nothing is stored, whatever the driver does then.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.obj.Read(p)
	s.left -= int64(n)
	if ended := s.ctx.Err(); ended != nil {
		n, err = 0, ended
	}
	if errors.Is(err, io.EOF) {
		if s.left == 0 {
			return n, io.EOF
		}
		err = fmt.Errorf("the object ends %d bytes early", s.left)
	}
	if err != nil {
		s.err = err
		s.cancel()
	}
	return n, err
}

// A reader streams a range whose length is known.
type reader struct {
	ctx  context.Context
	key  string
	body *blob.Reader
	left int64 // bytes that must still come
}

// Read tells a connection that broke from the end: bytes that are missing are not a shorter
// object.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, failure(r.ctx, "get", r.key, err) // also when more has arrived already
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.body.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	switch {
	case r.left == 0 || err == nil:
		return n, nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF): // which a caller must not find
		err = fmt.Errorf("the answer ended %d bytes early", r.left)
	}
	return n, failure(r.ctx, "get", r.key, err)
}

func (r *reader) Close() error { return r.body.Close() }
