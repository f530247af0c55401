package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
)

// A Gateway is an http.Handler that serves the bodies of a store. Any number of goroutines
// may use it. Its paths are the whole path of a request: mount it at the root of a server, or
// under a prefix with [http.StripPrefix].
//
// # Answers
//
// A body is 200, or 206 for one range of it, as application/octet-stream with its
// Content-Length, never compressed. It may be cached for ever, by its reader only: a claim
// never changes. One Range of bytes a-b, a- or -n is served; several of them, other units and
// a request with If-Range are answered with the whole. HEAD has the status and the headers of
// GET, and reads the index of the pack but not the body.
//
// Everything else is JSON, {"error": code}, with a [Code] and its status. It repeats nothing
// of the request.
//
// # Bodies that fail half way
//
// When the store fails, or holds less than its index says, after the first bytes have been
// sent, the connection is cut, so that the client sees a body that is shorter than announced
// and never a complete wrong one. The same happens to a client that takes nothing for
// StallTimeout.
type Gateway struct {
	config  Config
	slots   chan struct{}
	buffers sync.Pool // of *[chunk]byte
}

// chunk is how much of a body is in memory.
const chunk = 64 << 10

// New returns a Gateway, or everything that is wrong with c.
func New(c Config) (*Gateway, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = DefaultMaxInFlight
	}
	if c.StallTimeout == 0 {
		c.StallTimeout = DefaultStallTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Gateway{
		config:  c,
		slots:   make(chan struct{}, c.MaxInFlight),
		buffers: sync.Pool{New: func() any { return new([chunk]byte) }},
	}, nil
}

// Server returns a server of g at a TCP address ("host:port") with all of its time-outs set:
// 5 seconds for the headers of a request, 10 for the whole of it, 2 minutes between two
// requests, 16 KiB of headers. Where it is to speak TLS, set TLSConfig or call
// ListenAndServeTLS. It has no handler around it: what it adds to g is bounds.
//
// A server of your own that g is the handler of needs the same; its WriteTimeout, if any, is
// moved forward by g while a body makes progress. A middleware around g must have its
// ResponseWriter unwrapped by [http.ResponseController] for that.
func (g *Gateway) Server(addr string) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           g,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		// From the end of a request's headers to the first byte: a few store calls.
		WriteTimeout:   4*g.config.StallTimeout + 10*time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
		// OPTIONS * is no request for a claim either.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(g.config.Logger.Handler(), slog.LevelDebug),
	}
}

// An exchange is one request on its way, and what is known of it for the log.
type exchange struct {
	ref    claimcheck.Ref
	status int
	code   Code
	sent   int64
	err    error // of the store or a function of the Config
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	g.setWriteDeadline(w)
	x := &exchange{}
	x.code = g.handle(w, r, x)
	if x.code != "" && x.code != codeCut {
		x.status = x.code.status()
		g.setWriteDeadline(w)
		refuse(w, r, x.code)
	}
	g.log(r, x, time.Since(start))
	if x.code == codeCut {
		panic(http.ErrAbortHandler)
	}
}

// handle answers the request, or returns why there is no body. It sets x.status once the
// answer has begun.
func (g *Gateway) handle(w http.ResponseWriter, r *http.Request, x *exchange) (code Code) {
	defer func() {
		if v := recover(); v != nil {
			x.err = panicked(v)
			code = CodeInternal
			if x.status != 0 {
				code = codeCut
			}
		}
	}()
	path := r.URL.EscapedPath()
	health := path == healthPath
	ref, code := parsePath(path)
	if code == CodeNotFound && !health {
		return code
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return CodeMethodNotAllowed
	}
	if health {
		x.status = http.StatusOK
		answer(w, r, x.status, `{"status":"ok"}`)
		return ""
	}
	if code != "" {
		return code
	}
	x.ref = ref

	select {
	case g.slots <- struct{}{}:
	default:
		return CodeOverloaded
	}
	defer func() { <-g.slots }()
	if code := g.admit(r, x); code != "" {
		return code
	}
	return g.serve(w, r, x)
}

// admit decides whether the request may have the body of x.ref.
func (g *Gateway) admit(r *http.Request, x *exchange) Code {
	if g.config.Authorize != nil {
		x.err = g.config.Authorize(r, x.ref.Tenant())
		switch {
		case x.err == nil:
		case errors.Is(x.err, ErrUnauthorized):
			return CodeUnauthorized
		case envelope.IsTransient(x.err):
			return CodeUnavailable
		default:
			return CodeForbiddenTenant
		}
	}
	signature, expires, signed, ok := parseQuery(x.ref, r.URL.RawQuery)
	if !signed {
		return ""
	}
	if !ok || g.config.VerifySignature == nil {
		return CodeBadSignature
	}
	x.err = g.config.VerifySignature(signature)
	switch {
	case envelope.IsTransient(x.err):
		return CodeUnavailable
	case x.err != nil:
		return CodeBadSignature
	case !time.Now().Before(expires):
		return CodeRefExpired
	}
	return ""
}

// serve sends the body, or the part of it that is asked for.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, x *exchange) Code {
	ctx, cancel := context.WithCancelCause(r.Context())
	watch := time.AfterFunc(g.config.StallTimeout, func() { cancel(errStalled) })
	defer cancel(nil)
	defer watch.Stop()

	at, err := claimcheck.Locate(ctx, g.config.Store, x.ref)
	if err != nil {
		x.err = cause(ctx, err)
		return storeCode(r, err)
	}
	size := at.Length
	asked := r.Header["Range"]
	if r.Header["If-Range"] != nil {
		asked = nil
	}
	off, n, whole := parseRange(asked, size)
	h := w.Header()
	if !whole && n == 0 {
		h.Set("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
		return CodeRange
	}

	// The first bytes come before the headers: most of what can fail has failed by then, and
	// has a status.
	b := &body{store: g.config.Store, key: at.Key, off: at.Offset + off, left: n, watch: watch, stall: g.config.StallTimeout}
	buf := g.buffers.Get().(*[chunk]byte)
	defer g.buffers.Put(buf)
	defer b.close()
	var first []byte
	if r.Method == http.MethodGet {
		if first, err = b.next(ctx, buf[:]); err != nil {
			x.err = err
			return storeCode(r, err)
		}
	}

	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Length", strconv.FormatInt(n, 10))
	x.status = http.StatusOK
	if !whole {
		x.status = http.StatusPartialContent
		h.Set("Content-Range", "bytes "+strconv.FormatInt(off, 10)+"-"+strconv.FormatInt(off+n-1, 10)+"/"+strconv.FormatInt(size, 10))
	}
	g.setWriteDeadline(w)
	w.WriteHeader(x.status)
	for part := first; len(part) > 0; {
		g.setWriteDeadline(w)
		n, err := w.Write(part)
		x.sent += int64(n)
		if err == nil {
			part, err = b.next(ctx, buf[:])
		}
		if err != nil {
			x.err = err
			return codeCut
		}
	}
	return ""
}
