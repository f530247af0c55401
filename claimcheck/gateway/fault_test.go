package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/gateway"
)

var errBroken = errors.New("connection reset by peer")

// failing gives text, and then err.
func failing(text string, err error) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(text), errReader{err}))
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// What fails before the first byte of a body has a status of its own.
func TestStoreFailsBeforeTheAnswer(t *testing.T) {
	big := strings.Repeat("b", 200_000)
	type answer func(n int64) (io.ReadCloser, error)
	fails := func(code claimcheck.Code) answer {
		return func(int64) (io.ReadCloser, error) { return nil, storeError(code) }
	}
	gives := func(text string, err error) answer {
		return func(int64) (io.ReadCloser, error) { return failing(text, err), nil }
	}
	const unavailable, forbidden, notFound = "503 store_unavailable 1", "503 store_forbidden 60", "404 not_found "
	for _, tt := range []struct {
		name string
		call int // which of the two calls it happens to: the index, the body
		answer
		want string
	}{
		{"no object", 1, fails(claimcheck.CodeNotFound), notFound},
		{"store forbids the index", 1, fails(claimcheck.CodeForbidden), forbidden},
		{"store down at the index", 1, fails(claimcheck.CodeUnavailable), unavailable},
		{"an error that the store did not translate", 1, func(int64) (io.ReadCloser, error) { return nil, errBroken }, unavailable},
		{"index cut off", 1, gives("PK\x03\x04", errBroken), unavailable},
		{"empty object", 1, gives("", io.EOF), notFound},
		{"object ends in the index", 1, gives("PK\x03\x04", io.EOF), notFound},
		{"object is no pack", 1, gives(strings.Repeat("x", 1000), io.EOF), notFound},
		{"object deleted since", 2, fails(claimcheck.CodeNotFound), notFound},
		{"store forbids the body", 2, fails(claimcheck.CodeForbidden), forbidden},
		{"store down at the body", 2, fails(claimcheck.CodeUnavailable), unavailable},
		{"body cut off at once", 2, gives("", errBroken), unavailable},
		{"body cut off within the first read", 2, gives(big[:65_000], errBroken), unavailable},
		{"connection of the body ends early", 2, gives(big[:100], io.ErrUnexpectedEOF), unavailable},
		{"object ends before the body", 2, gives("", io.EOF), notFound},
		{"object ends within the first read", 2, gives(big[:65_000], io.EOF), notFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newShelf(t, big)
			s.get = func(_ context.Context, call int, _ string, _, n int64) (io.ReadCloser, error) {
				if call == tt.call {
					return tt.answer(n)
				}
				return nil, nil
			}
			g := newGateway(t, gateway.Config{Store: s})
			w := do(g, http.MethodGet, claimPath(0))
			code := strings.TrimSuffix(strings.TrimPrefix(w.Body.String(), `{"error":"`), `"}`)
			if got := fmt.Sprintf("%d %s %s", w.Code, code, w.Header().Get("Retry-After")); got != tt.want {
				t.Errorf("answered %s, want %s", got, tt.want)
			}
			for _, name := range []string{"Accept-Ranges", "Content-Range"} {
				if v := w.Header().Get(name); v != "" {
					t.Errorf("%s: %s", name, v)
				}
			}
			if got := w.Header().Get("Cache-Control"); got != "no-store" {
				t.Errorf("Cache-Control: %s", got)
			}
			s.take(t)
			s.get = nil
			if w := do(g, http.MethodGet, claimPath(0)); w.Code != 200 || w.Body.String() != big {
				t.Errorf("after it: %d, %d bytes", w.Code, w.Body.Len())
			}
		})
	}
}

// What fails after the first byte cuts the connection, so that no client takes what it got
// for the body.
func TestStoreFailsDuringTheAnswer(t *testing.T) {
	big := strings.Repeat("b", 200_000)
	for _, tt := range []struct {
		name string
		body func() io.ReadCloser
	}{
		{"connection to the store breaks", func() io.ReadCloser { return failing(big[:150_000], errBroken) }},
		{"one byte before the end", func() io.ReadCloser { return failing(big[:199_999], errBroken) }},
		{"object ends before the claim", func() io.ReadCloser { return failing(big[:199_999], io.EOF) }},
		{"store panics", func() io.ReadCloser {
			return io.NopCloser(io.MultiReader(strings.NewReader(big[:150_000]), panicReader{}))
		}},
	} {
		for _, proto := range []string{"HTTP/1.0", "HTTP/1.1", "HTTP/2.0"} {
			t.Run(tt.name+" "+proto, func(t *testing.T) {
				s := newShelf(t, big)
				s.get = func(_ context.Context, call int, _ string, _, _ int64) (io.ReadCloser, error) {
					if call == 2 {
						return tt.body(), nil
					}
					return nil, nil
				}
				g := newGateway(t, gateway.Config{Store: s})
				var status, n int
				var length string
				var err error
				if proto == "HTTP/2.0" {
					srv := httptest.NewUnstartedServer(nil)
					srv.Config = g.Server("")
					srv.EnableHTTP2 = true
					srv.StartTLS()
					defer srv.Close()
					resp, e := srv.Client().Get(srv.URL + claimPath(0))
					if e != nil {
						t.Fatal(e)
					}
					defer resp.Body.Close()
					if resp.Proto != proto {
						t.Fatalf("speaks %s", resp.Proto)
					}
					status, length = resp.StatusCode, resp.Header.Get("Content-Length")
					var text []byte
					text, err = io.ReadAll(resp.Body)
					n = len(text)
				} else {
					conn := dial(t, serve(t, g))
					fmt.Fprintf(conn, "GET %s %s\r\nHost: gateway\r\n\r\n", claimPath(0), proto)
					var h http.Header
					var text string
					status, h, text, err = answerOf(t, conn, http.MethodGet)
					length, n = h.Get("Content-Length"), len(text)
				}
				if status != 200 || length != "200000" || err == nil || n >= 200_000 {
					t.Errorf("%d, Content-Length %s, then %d bytes and %v: want an error before 200000", status, length, n, err)
				}
				s.take(t)
			})
		}
	}
}

type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("secret") }

// A store that hangs is not waited for longer than StallTimeout, wherever it hangs.
func TestStoreHangs(t *testing.T) {
	big := strings.Repeat("b", 200_000)
	type get func(ctx context.Context) (io.ReadCloser, error)
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "get", Err: ctx.Err()}
	}
	call := func(ctx context.Context) (io.ReadCloser, error) { return nil, hang(ctx) }
	read := func(text string) get {
		return func(ctx context.Context) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader(text), readFunc(func([]byte) (int, error) { return 0, hang(ctx) }))), nil
		}
	}
	for _, tt := range []struct {
		name string
		call int
		get
		status int // 0 for a cut connection
	}{
		{"at the index", 1, call, 503},
		{"within the index", 1, read("PK"), 503},
		{"at the body", 2, call, 503},
		{"within the first read", 2, read("b"), 503},
		{"within the body", 2, read(big[:150_000]), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newShelf(t, big)
			s.get = func(ctx context.Context, call int, _ string, _, _ int64) (io.ReadCloser, error) {
				if call == tt.call {
					return tt.get(ctx)
				}
				return nil, nil
			}
			var log bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				g := newGateway(t, gateway.Config{Store: s, MaxInFlight: 1, Logger: textLogger(&log)})
				start := time.Now()
				w, cut := recorded(g, claimPath(0))
				if took := time.Since(start); took != gateway.DefaultStallTimeout {
					t.Errorf("took %v", took)
				}
				if tt.status == 0 {
					if w.Code != 200 || !cut || w.Body.Len() >= len(big) {
						t.Errorf("%d, cut %t after %d bytes", w.Code, cut, w.Body.Len())
					}
				} else if w.Code != tt.status || w.Body.String() != `{"error":"store_unavailable"}` || cut {
					t.Errorf("%d %s, cut %t", w.Code, w.Body, cut)
				}
				s.get = nil
				if w := do(g, http.MethodGet, claimPath(0)); w.Code != 200 {
					t.Errorf("the only slot is not free: %d", w.Code)
				}
			})
			s.take(t)
			if !strings.Contains(log.String(), "the store gave nothing for the stall timeout") {
				t.Errorf("the log does not say why:\n%s", &log)
			}
		})
	}
}

// recorded asks g without a server, and reports whether it cut the connection.
func recorded(g http.Handler, path string) (w *httptest.ResponseRecorder, cut bool) {
	w = httptest.NewRecorder()
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			cut = true
		default:
			panic(v)
		}
	}()
	g.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w, false
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// endless gives zeros for as long as they are read.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// hugeShelf has one claim of size bytes, which are not in memory.
func hugeShelf(t testing.TB, size uint32) *shelf {
	s := newShelf(t, strings.Repeat("b", 100_000))
	object := s.objects[packKey]
	row := object[39:47]
	copy(row[4:], []byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)})
	s.get = func(_ context.Context, _ int, _ string, off, n int64) (io.ReadCloser, error) {
		if off == 0 {
			return nil, nil
		}
		return io.NopCloser(io.LimitReader(endless{}, n)), nil
	}
	return s
}

// A client that takes nothing does not hold its slot for longer than StallTimeout.
func TestClientStalls(t *testing.T) {
	s := hugeShelf(t, 1<<30)
	srv := serve(t, newGateway(t, gateway.Config{Store: s, StallTimeout: 50 * time.Millisecond, MaxInFlight: 1}))
	conn := dial(t, srv)
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: gateway\r\n\r\n", claimPath(0))
	head := make([]byte, 1)
	if _, err := conn.Read(head); err != nil { // the slot is taken
		t.Fatal(err)
	}
	await(t, "the slot is free", func() bool {
		return strings.HasPrefix(wire(t, srv, "HEAD "+claimPath(0)), "HTTP/1.1 200 OK")
	})
	s.take(t)
}

// A client that leaves frees its slot, and the store's reader.
func TestClientLeaves(t *testing.T) {
	for _, where := range []string{"during the index", "during the body"} {
		t.Run(where, func(t *testing.T) {
			s := newShelf(t, strings.Repeat("b", 200_000))
			reached := make(chan struct{})
			s.get = func(ctx context.Context, call int, _ string, _, _ int64) (io.ReadCloser, error) {
				if call == 1 && where == "during the body" || call > 2 {
					return nil, nil
				}
				close(reached)
				<-ctx.Done()
				return nil, &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "get", Err: ctx.Err()}
			}
			var log bytes.Buffer
			srv := serve(t, newGateway(t, gateway.Config{Store: s, StallTimeout: time.Hour, MaxInFlight: 1, Logger: textLogger(&log)}))
			conn := dial(t, srv)
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: gateway\r\n\r\n", claimPath(0))
			<-reached
			conn.Close()
			if err := srv.Config.Shutdown(context.Background()); err != nil { // waits for what is being served
				t.Fatal(err)
			}
			if want := "level=WARN msg=\"claim requested\" method=GET status=0 bytes=0 took="; !strings.HasPrefix(log.String(), want) {
				t.Errorf("logged %s\nwant %s...", &log, want)
			}
			s.take(t)
		})
	}
}

// A body may take any time in all, as long as it makes progress: the deadline of what is
// written is moved for every part.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parts = 100
		s := hugeShelf(t, parts<<16)
		s.get = func(ctx context.Context, _ int, _ string, off, n int64) (io.ReadCloser, error) {
			if off == 0 {
				return nil, nil
			}
			return io.NopCloser(io.LimitReader(readFunc(func(p []byte) (int, error) {
				if ctx.Err() != nil {
					return 0, ctx.Err()
				}
				time.Sleep(9 * time.Second)
				p = p[:min(len(p), 20_000)] // less than a part
				clear(p)
				return len(p), nil
			}), n)), nil
		}
		w := &deadlines{discard: discard{h: make(http.Header)}, t: t}
		newGateway(t, gateway.Config{Store: s}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, claimPath(0), nil))
		if w.status != 200 || w.n != parts<<16 || w.writes < parts {
			t.Errorf("%d, %d bytes, %d times", w.status, w.n, w.writes)
		}
	})
}

// deadlines is a ResponseWriter that wants a deadline of 10 seconds for whatever is written,
// and takes 9.
type deadlines struct {
	discard
	t        *testing.T
	deadline time.Time
	writes   int
}

func (d *deadlines) SetWriteDeadline(at time.Time) error { d.deadline = at; return nil }

func (d *deadlines) Write(p []byte) (int, error) {
	if left := time.Until(d.deadline); left != gateway.DefaultStallTimeout {
		d.t.Errorf("write %d has %v", d.writes, left)
	}
	d.writes++
	time.Sleep(9 * time.Second)
	return d.discard.Write(p)
}

// Over MaxInFlight the answer is 503 at once; health is not counted.
func TestMaxInFlight(t *testing.T) {
	s := newShelf(t, "body")
	reached, release := make(chan struct{}), make(chan struct{})
	s.get = func(_ context.Context, call int, _ string, _, _ int64) (io.ReadCloser, error) {
		if call <= 2 {
			reached <- struct{}{}
			<-release
		}
		return nil, nil
	}
	g := newGateway(t, gateway.Config{Store: s, MaxInFlight: 2})
	done := make(chan int)
	for range 2 {
		go func() { done <- do(g, http.MethodHead, claimPath(0)).Code }()
		<-reached
	}
	w := do(g, http.MethodGet, claimPath(0))
	if w.Code != 503 || w.Body.String() != `{"error":"overloaded"}` || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s, Retry-After %q", w.Code, w.Body, w.Header().Get("Retry-After"))
	}
	if w := do(g, http.MethodGet, "/health"); w.Code != 200 {
		t.Errorf("health is answered %d", w.Code)
	}
	close(release)
	for range 2 {
		if status := <-done; status != 200 {
			t.Errorf("answered %d", status)
		}
	}
	if w := do(g, http.MethodGet, claimPath(0)); w.Code != 200 {
		t.Errorf("after it: %d", w.Code)
	}
}

// discard is a ResponseWriter that keeps nothing.
type discard struct {
	h      http.Header
	status int
	n      int64
}

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { d.n += int64(len(p)); return len(p), nil }

// A body of any size takes less than 2 MiB, counted as everything that is ever allocated.
func TestMemory(t *testing.T) {
	const size = 256 << 20
	g := newGateway(t, gateway.Config{Store: hugeShelf(t, size)})
	r := httptest.NewRequest(http.MethodGet, claimPath(0), nil)
	w := &discard{h: make(http.Header)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	g.ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	if w.status != 200 || w.n != size {
		t.Fatalf("%d, %d bytes", w.status, w.n)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got >= 2<<20 {
		t.Errorf("allocates %d bytes for a body of %d", got, size)
	}
}

// await polls until ok.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", patience, what)
		}
		runtime.Gosched()
	}
}
