package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"
)

// setWriteDeadline gives the client StallTimeout to take what is written next. Where the
// writer has no deadlines, the server's own have to do.
func (g *Gateway) setWriteDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(g.config.StallTimeout))
}

// refuse answers with a code.
func refuse(w http.ResponseWriter, r *http.Request, code Code) {
	h := w.Header()
	switch code {
	case CodeUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case CodeMethodNotAllowed:
		h.Set("Allow", "GET, HEAD")
	}
	if s := code.retryAfter(); s != "" {
		h.Set("Retry-After", s)
	}
	answer(w, r, code.status(), `{"error":"`+string(code)+`"}`)
}

// answer sends JSON, which nobody is to keep: what is not found may be found a moment later.
func answer(w http.ResponseWriter, r *http.Request, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(text))
	}
}

// log writes the line of a request. Those for the health of the gateway have none.
func (g *Gateway) log(r *http.Request, x *exchange, took time.Duration) {
	if r.URL.EscapedPath() == healthPath {
		return
	}
	level := slog.LevelInfo
	switch {
	case x.code == codeCut && r.Context().Err() == nil, x.status >= 500 && x.code != CodeOverloaded:
		level = slog.LevelError
	case x.code != "":
		level = slog.LevelWarn
	}
	ctx := context.WithoutCancel(r.Context())
	if !g.config.Logger.Enabled(ctx, level) {
		return
	}
	method := r.Method
	if method != http.MethodGet && method != http.MethodHead {
		method = "other" // it may be anything
	}
	attrs := []slog.Attr{
		slog.String("method", method),
		slog.Int("status", x.status), // 0 where there was none
		slog.Int64("bytes", x.sent),
		slog.Duration("took", took),
		slog.String("remote", r.RemoteAddr),
	}
	if x.code != "" {
		attrs = append(attrs, slog.String("code", string(x.code)))
	}
	if tenant := x.ref.Tenant(); tenant != "" {
		attrs = append(attrs, slog.String("tenant_id", tenant), slog.String("claim", x.ref.String()))
	}
	if x.err != nil {
		// The text of a function's own error is not ours to vouch for.
		if x.code != CodeUnauthorized && x.code != CodeForbiddenTenant && x.code != CodeUnavailable && x.code != CodeBadSignature {
			attrs = append(attrs, slog.String("error", x.err.Error()))
		}
		if p := (*panicError)(nil); errors.As(x.err, &p) {
			attrs = append(attrs, slog.String("stack", string(p.stack)))
		}
	}
	g.config.Logger.LogAttrs(ctx, level, "claim requested", attrs...)
}

// A panicError is a panic in code that was called. Its text has the type of the value and
// not the value, which may be anything.
type panicError struct {
	value string
	stack []byte
}

func panicked(v any) error { return &panicError{fmt.Sprintf("%T", v), debug.Stack()} }

func (e *panicError) Error() string { return "gateway: panic with a value of type " + e.value }
