package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A source is the body of a put. The client seeks in it for each attempt, so obj is not the
// caller's own.
type source struct {
	ctx context.Context
	obj *io.SectionReader
}

// Read fails once the context has ended, also with the last bytes in hand: without them
// nothing is stored, whatever the client does then. It fails where obj ends before its size: the
// client would sign what there is, and a server that does not count stores that.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.obj.Read(p)
	if err == io.EOF {
		if at, _ := s.obj.Seek(0, io.SeekCurrent); at < s.obj.Size() {
			err = io.ErrUnexpectedEOF
		}
	}
	if ended := s.ctx.Err(); ended != nil {
		return 0, ended
	}
	return n, err
}

func (s *source) Seek(offset int64, whence int) (int64, error) { return s.obj.Seek(offset, whence) }

// A reader streams the body of an answer whose length was announced.
type reader struct {
	ctx  context.Context
	key  string
	body io.ReadCloser
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
	case errors.Is(err, io.EOF): // which a caller must not find in the error
		err = fmt.Errorf("the answer ended %d bytes early", r.left)
	}
	return n, failure(r.ctx, "get", r.key, err)
}

func (r *reader) Close() error { return r.body.Close() }

// rangeLength returns how many bytes an answer with this Content-Range has, if it is one to a
// request of [off, off+n) and lacks only what is behind the end of the object.
func rangeLength(contentRange string, off, n int64) (int64, error) {
	if contentRange == "" {
		// A page of something in between, or a server that would send the whole object.
		return 0, errors.New("answer without the range that was asked for")
	}
	text, ok := strings.CutPrefix(contentRange, "bytes ")
	text, size, ok1 := strings.Cut(text, "/")
	first, last, ok2 := strings.Cut(text, "-")
	a, ok3 := number(first)
	b, ok4 := number(last)
	if !ok || !ok1 || !ok2 || !ok3 || !ok4 || a != off || b < a || b-a >= n {
		return 0, fmt.Errorf("answer with another range than was asked for: %.64q", contentRange)
	}
	if total, ok := number(size); b-a+1 < n && (!ok || b+1 != total) {
		return 0, fmt.Errorf("answer with a part of the range that was asked for: %.64q", contentRange)
	}
	return b - a + 1, nil
}

// number reads decimal digits and nothing else.
func number(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err == nil
}
