package claimcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

var errNoProgress = fmt.Errorf("nothing came for the client's timeout: %w", context.DeadlineExceeded)

// A Client redeems through a gateway: one of ours (package gateway), or one of Ankusa. It is a
// [Redeemer], and the only one of signed references, which it sends as they are. Any number of
// goroutines may use it.
//
// It makes one GET for each claim, and no second one: redirects are not followed, and a failure
// is the caller's to repeat. (net/http itself sends it again when a connection that was kept from
// an earlier request turns out to be closed before a byte of an answer, or when the server says,
// in HTTP/2, that it has not begun: that is a part of keeping connections.) It asks for unencoded
// bytes.
//
// # Errors
//
// All are of type [*Error]; an answer that is not a body is in Status.
//
//	invalid_ref   the reference, or the digest, is none; nothing was sent
//	too_large     the body is over MaxBodyBytes; it was not read
//	integrity     200 with other bytes than those of the message: its size or digest differs
//	not_found     404
//	ref_expired   410 ref_expired of a signed reference; also an ErrRejected
//	rejected      any other 4xx, 401, 403 and 400 bad_signature among them: see [RejectedError]
//	unavailable   408, 429, everything else that is not 200, a connection that cannot be made or
//	              ends before the announced length, a timeout, the end of the context; transient
//
// Neither errors nor what fmt prints of a Client show a header, or the signature of a reference.
type Client struct {
	base      string
	header    http.Header
	host      string
	transport http.RoundTripper
	timeout   time.Duration
	max       int64
}

var _ Redeemer = (*Client)(nil)

// NewClient returns a Client, or everything that is wrong with c. It makes no request: see
// [Client.Health].
func NewClient(c ClientConfig) (*Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	base, err := baseURL(c.BaseURL)
	if err != nil {
		return nil, err
	}
	cl := &Client{base: base, header: make(http.Header, len(c.Header)+1), timeout: c.Timeout, max: c.MaxBodyBytes}
	for name, values := range c.Header {
		for _, v := range values {
			cl.header.Add(name, v)
		}
	}
	cl.host = cl.header.Get("Host")
	cl.header.Del("Host")
	cl.header.Set("Accept-Encoding", "identity")
	if cl.timeout == 0 {
		cl.timeout = DefaultClientTimeout
	}
	if cl.max == 0 {
		cl.max = DefaultMaxBodyBytes
	}
	switch {
	case c.HTTPClient == nil:
		cl.transport = newTransport()
	case c.HTTPClient.Transport == nil:
		cl.transport = http.DefaultTransport
	default:
		cl.transport = c.HTTPClient.Transport
	}
	return cl, nil
}

// Redeem implements [Redeemer]. A body over MaxBodyBytes is an ErrTooLarge, and is not read.
func (c *Client) Redeem(ctx context.Context, ref, sha256 string, size int64) ([]byte, error) {
	const op = "redeem"
	r, err := parseClaim(op, ref, sha256)
	if err != nil {
		return nil, err
	}
	if size > c.max {
		return nil, failure(op, r, tooLarge(size, c.max))
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, err := c.get(ctx, op, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.ContentLength > c.max {
		return nil, failure(op, r, tooLarge(resp.ContentLength, c.max))
	}
	body, err := newAnswer(ctx, op, r, sha256, size, resp)
	if err != nil {
		return nil, err
	}
	return c.readAll(body)
}

// Open implements [Redeemer]. Its reader is not limited by MaxBodyBytes.
func (c *Client) Open(ctx context.Context, ref, sha256 string, size int64) (io.ReadCloser, error) {
	const op = "open"
	r, err := parseClaim(op, ref, sha256)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watch := time.AfterFunc(c.timeout, func() { cancel(errNoProgress) })
	resp, err := c.get(ctx, op, r)
	watch.Stop()
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Body = &watchedBody{resp.Body, watch, c.timeout}
	body, err := newAnswer(ctx, op, r, sha256, size, resp)
	if err != nil {
		cancel(nil)
		resp.Body.Close()
		return nil, err
	}
	return &stream{answer: body, cancel: cancel}, nil
}

// Health reports whether the gateway says that it is well: 200 and a JSON object with a string
// "status". Everything else is an ErrUnavailable. It needs no credentials of a gateway of ours,
// and says nothing about its store.
func (c *Client) Health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	fail := func(status int, err error) error {
		return &Error{Code: CodeUnavailable, Op: "health", Status: status, Err: err}
	}
	resp, err := c.send(ctx, "/health", "")
	if err != nil {
		return fail(0, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode != http.StatusOK {
		return fail(resp.StatusCode, nil)
	}
	if err != nil {
		return fail(resp.StatusCode, err)
	}
	var answer map[string]any // by the very name, where a struct would take "Status" as well
	if json.Unmarshal(text, &answer) == nil {
		if _, ok := answer["status"].(string); ok {
			return nil
		}
	}
	return fail(resp.StatusCode, errors.New("not a gateway's answer"))
}

// send makes one request. The error shows nothing of the URL but its host, and not secret.
func (c *Client) send(ctx context.Context, path, secret string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, errors.New("the URL of the gateway cannot be one")
	}
	req.Header = c.header.Clone()
	if c.host != "" {
		req.Host = c.host
	}
	resp, err := c.transport.RoundTrip(req)
	if err == nil && resp == nil {
		err = errors.New("the transport answered nothing")
	}
	if err == nil {
		return resp, nil
	}
	if resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
	return nil, plain(ctx, err, secret)
}

// String shows where the gateway is, and of the headers only how many there are.
func (c *Client) String() string {
	return fmt.Sprintf("claimcheck.Client(%s, %d headers)", c.base, len(c.header)-1) // without Accept-Encoding
}

// Format implements fmt.Formatter: no verb shows more than String.
func (c *Client) Format(f fmt.State, _ rune) { io.WriteString(f, c.String()) }

// LogValue implements [slog.LogValuer].
func (c *Client) LogValue() slog.Value { return slog.StringValue(c.String()) }
