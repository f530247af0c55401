package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/gateway"
)

// patience is how long a test waits for what must come. It is never waited out by a test
// that passes.
const patience = 30 * time.Second

// The pack that most tests read.
const (
	packID  = "01M39VMD8RA3C5HR4RBV67Y000"
	packKey = "claims/tenant=acme/dt=2026-09-24/01M39VMD8RA3C5HR4RBV67Y000"
)

// A shelf is a store that a test looks into.
type shelf struct {
	objects map[string][]byte
	// get, when set, may answer in the place of the shelf.
	get func(ctx context.Context, call int, key string, off, n int64) (io.ReadCloser, error)

	mu    sync.Mutex
	calls []string
	open  int
}

func (s *shelf) Put(context.Context, string, *io.SectionReader) error {
	return errors.New("a gateway puts nothing")
}

func (s *shelf) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	s.mu.Lock()
	s.calls = append(s.calls, fmt.Sprintf("%s [%d,%d)", key, off, off+n))
	call := len(s.calls)
	s.mu.Unlock()
	if s.get != nil {
		if rc, err := s.get(ctx, call, key, off, n); rc != nil || err != nil {
			return s.track(rc), err
		}
	}
	object, ok := s.objects[key]
	if !ok {
		return nil, &claimcheck.Error{Code: claimcheck.CodeNotFound, Op: "get", Key: key}
	}
	size := int64(len(object))
	return s.track(io.NopCloser(bytes.NewReader(object[min(off, size):min(off+n, size)]))), nil
}

func (s *shelf) track(rc io.ReadCloser) io.ReadCloser {
	if rc == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	return &tracked{rc, s}
}

type tracked struct {
	io.ReadCloser
	of *shelf
}

func (t *tracked) Close() error {
	t.of.mu.Lock()
	t.of.open--
	t.of.mu.Unlock()
	return t.ReadCloser.Close()
}

// take returns the calls since the last take, and fails when a reader was left open.
func (s *shelf) take(t testing.TB) []string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != 0 {
		t.Errorf("%d readers are open", s.open)
		s.open = 0
	}
	calls := s.calls
	s.calls = nil
	return calls
}

// newShelf returns a store with one pack of acme's bodies.
func newShelf(t testing.TB, bodies ...string) *shelf {
	t.Helper()
	s := &shelf{objects: make(map[string][]byte)}
	s.add(t, "acme", packID, bodies...)
	return s
}

func (s *shelf) add(t testing.TB, tenant, pack string, bodies ...string) {
	t.Helper()
	first, err := claimcheck.NewRef(tenant, pack)
	if err != nil {
		t.Fatal(err)
	}
	var list []claimcheck.Body
	for _, b := range bodies {
		list = append(list, claimcheck.Body{Tenant: tenant, ID: "h", Data: []byte(b)})
	}
	p, err := claimcheck.NewPack(first, list)
	if err != nil {
		t.Fatal(err)
	}
	object, err := io.ReadAll(p.Object())
	if err != nil {
		t.Fatal(err)
	}
	s.objects[p.Key()] = object
}

// claimPath is the path of a claim of packID.
func claimPath(index int) string {
	return "/v1/claims/acme/" + packID[:23] + fmt.Sprintf("%03d", index) // up to 9, base32 is decimal
}

// newGateway returns a gateway, or ends the test.
func newGateway(t testing.TB, c gateway.Config) *gateway.Gateway {
	t.Helper()
	g, err := gateway.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// serve starts g.Server on a port of its own.
func serve(t testing.TB, g *gateway.Gateway) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = g.Server("")
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// dial opens a connection to srv that no client tidies up.
func dial(t testing.TB, srv *httptest.Server) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// wire sends a request line and headers, and returns the whole answer as it is on the wire,
// without its Date, until the server closes the connection.
func wire(t testing.TB, srv *httptest.Server, request string, headers ...string) string {
	t.Helper()
	conn := dial(t, srv)
	text := request + " HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n"
	for _, h := range headers {
		text += h + "\r\n"
	}
	if _, err := io.WriteString(conn, text+"\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("%s: %v after %q", request, err, answer)
	}
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	var lines []string
	for line := range strings.SplitSeq(head, "\r\n") {
		if !strings.HasPrefix(line, "Date: ") && line != "Connection: close" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n") + "\n\n" + body
}

// answerOf reads one answer; err is how its body ends, when it ends badly.
func answerOf(t testing.TB, conn net.Conn, method string) (status int, h http.Header, body string, err error) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(text), err
}

// do asks g without a server.
func do(g http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

func storeError(code claimcheck.Code) error {
	return &claimcheck.Error{Code: code, Op: "get", Key: packKey}
}

func itoa(n int) string { return strconv.Itoa(n) }

// textLogger logs to w, without times.
func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}
