package claimcheck

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer is how much of an answer that is not a body is read.
const maxAnswer = 64 << 10

var (
	errHidden  = errors.New("the request failed, with a text that shows the signature")
	errEncoded = errors.New("the gateway encoded the body, unasked")
)

// A RejectedError is the cause of an [Error] with CodeRejected or CodeRefExpired: a gateway, or
// what is before it, will not serve this request, now or later. errors.As finds it.
type RejectedError struct {
	Status int
	// Body is what the answer says: decoded, when it is JSON whatever its type is called,
	// else its text, with U+FFFD for bytes that are none. At most 64 KiB of it were read.
	Body any
}

// Error shows the code of the body, if it has the form of a gateway's, {"error": code}, and
// nothing else of it.
func (r *RejectedError) Error() string {
	if code := r.code(); code != "" {
		return "the gateway says " + code
	}
	return "the gateway refuses the request"
}

// Is reports that every RejectedError is an [ErrRejected].
func (r *RejectedError) Is(target error) bool { return target == ErrRejected }

// code returns the code of the body if it may be shown: 1 to 40 characters of a-z 0-9 and _.
func (r *RejectedError) code() string {
	m, _ := r.Body.(map[string]any)
	code, _ := m["error"].(string)
	if code == "" || len(code) > 40 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return ""
	}
	return code
}

// get asks for a body. The answer is a 200.
func (c *Client) get(ctx context.Context, op string, ref Ref) (*http.Response, error) {
	e := &Error{Code: CodeUnavailable, Op: op, Ref: ref.Masked()}
	resp, err := c.send(ctx, ref.Path(), ref.signature)
	if err != nil {
		e.Err = err
		return nil, e
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	e.Status = resp.StatusCode
	switch s := resp.StatusCode; {
	case s == http.StatusRequestTimeout, s == http.StatusTooManyRequests, s < 400, s > 499:
	case s == http.StatusNotFound:
		e.Code = CodeNotFound
	default:
		r := rejected(resp)
		e.Code, e.Err = CodeRejected, r
		if s == http.StatusGone && ref.Signed() && r.code() == "ref_expired" {
			e.Code = CodeRefExpired
		}
		return nil, e
	}
	if resp.ContentLength <= maxAnswer {
		_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // so that the connection can be used again
	}
	return nil, e
}

func rejected(resp *http.Response) *RejectedError {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	r := &RejectedError{Status: resp.StatusCode}
	if json.Unmarshal(text, &r.Body) != nil {
		r.Body = string([]rune(string(text))) // a byte that is no text becomes U+FFFD
	}
	return r
}

// plain returns a transport's error without the URL that it may quote, and with the reason for
// which the context ended.
func plain(ctx context.Context, err error, secret string) error {
	for u := (*url.Error)(nil); errors.As(err, &u) && u.Err != nil; {
		err = u.Err
	}
	if context.Cause(ctx) == errNoProgress { //nolint:errorlint // the very value
		return errNoProgress
	} else if ctx.Err() != nil {
		return ctx.Err()
	}
	if secret != "" && strings.Contains(err.Error(), secret) {
		return errHidden
	}
	return err
}

// An answer is the body of a 200. It is verified while it is read.
type answer struct {
	op      string
	ctx     context.Context
	ref     Ref
	digest  string
	size    int64 // or less than 0: not known
	body    io.ReadCloser
	length  int64 // as the gateway announces it, or less than 0
	encoded bool  // for the error's text: it was not asked for

	hash hash.Hash
	read int64
	err  error // of the next Read
}

// newAnswer returns the answer to a request for a body, unless it announces another size.
func newAnswer(ctx context.Context, op string, ref Ref, digest string, size int64, resp *http.Response) (*answer, error) {
	a := &answer{
		op: op, ctx: ctx, ref: ref, digest: digest, size: size, body: resp.Body, length: resp.ContentLength,
		hash: sha256.New(), encoded: resp.Header.Get("Content-Encoding") != "",
	}
	if n := resp.ContentLength; size >= 0 && n >= 0 && n != size {
		return nil, a.differs(fmt.Errorf("the message says %d bytes, the gateway %d", size, n))
	} else if size < 0 {
		a.size = n
	}
	return a, nil
}

// Read keeps back the last bytes of a body that is not the message's, so that who reads exactly
// its size learns of it too.
func (a *answer) Read(p []byte) (n int, err error) {
	if a.err != nil || len(p) == 0 {
		return 0, a.err
	}
	n, err = a.body.Read(p)
	a.hash.Write(p[:n])
	a.read += int64(n)
	for err == nil && a.read == a.size { // see that it ends
		var next [1]byte
		var m int
		m, err = a.body.Read(next[:])
		a.read += int64(m)
	}
	switch {
	case a.size >= 0 && a.read > a.size:
		a.err = a.differs(fmt.Errorf("the message says %d bytes, there are more", a.size))
		return 0, a.err
	case err == io.EOF && a.size >= 0 && a.read < a.size:
		a.err = a.differs(fmt.Errorf("the message says %d bytes, there are %d", a.size, a.read))
		return 0, a.err
	case err == io.EOF && hex.EncodeToString(a.hash.Sum(nil)) != a.digest:
		a.err = a.differs(errDigest)
		return 0, a.err
	case err == io.EOF:
		if a.err = io.EOF; n > 0 {
			err = nil
		}
	case err != nil:
		if a.read == a.size {
			n = 0
		}
		err = &Error{Code: CodeUnavailable, Op: a.op, Ref: a.ref.Masked(), Err: plain(a.ctx, err, a.ref.signature)}
		a.err = err
	}
	return n, err
}

func (a *answer) differs(err error) error {
	if a.encoded {
		err = fmt.Errorf("%w; %w", err, errEncoded)
	}
	return &Error{Code: CodeIntegrity, Op: a.op, Ref: a.ref.Masked(), Status: http.StatusOK, Err: err}
}

// readAll returns the bytes of an answer whose announced length, if there is one, is not over the
// limit. Without one memory grows with what comes, not with what the message says.
func (c *Client) readAll(a *answer) ([]byte, error) {
	if a.length < 0 {
		body, err := io.ReadAll(io.LimitReader(a, c.max+1))
		if err == nil && int64(len(body)) > c.max {
			err = failure(a.op, a.ref, &Error{Code: CodeTooLarge, Err: fmt.Errorf("over %d bytes", c.max)})
		}
		if err != nil {
			return nil, err
		}
		return body, nil
	}
	body := make([]byte, a.length)
	if _, err := io.ReadFull(a, body); err != nil {
		return nil, err
	}
	var end [1]byte
	if _, err := a.Read(end[:]); err != io.EOF { //nolint:errorlint // the very value, which ends a reader
		return nil, err
	}
	return body, nil
}

// A stream is an answer as Open returns it.
type stream struct {
	*answer
	cancel context.CancelCauseFunc
	closed bool
}

// Close implements io.Closer. Another Close does nothing.
func (s *stream) Close() error {
	if s.closed {
		return nil
	}
	s.closed, s.err = true, errClosed
	err := s.body.Close()
	s.cancel(nil)
	return err
}

// A watchedBody ends the context of a Read that takes longer than timeout: whoever reads may
// take their time, the gateway not.
type watchedBody struct {
	io.ReadCloser
	watch   *time.Timer
	timeout time.Duration
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.watch.Reset(b.timeout)
	defer b.watch.Stop()
	return b.ReadCloser.Read(p)
}
