package claimcheck_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// rawServer answers the requests of every connection with f, until f does not keep it.
func rawServer(t testing.TB, f func(conn net.Conn, request int) (keep bool)) (base string, accepted *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { l.Close(); cancel(); wg.Wait() })
	accepted = new(atomic.Int64)
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			wg.Go(func() {
				defer conn.Close()
				stop := context.AfterFunc(ctx, func() { conn.Close() }) // the client may keep it
				defer stop()
				from := bufio.NewReader(conn)
				for i := 0; ; i++ {
					if _, err := http.ReadRequest(from); err != nil {
						return
					}
					if !f(conn, i) {
						return
					}
				}
			})
		}
	})
	return "http://" + l.Addr().String(), accepted
}

// What becomes of a 200 whose body is not the message's.
func TestClientBody(t *testing.T) {
	const body = "Hello, World!"
	const good, bad, broken = claimcheck.Code(""), claimcheck.CodeIntegrity, claimcheck.CodeUnavailable
	const page = "<html>Service temporarily not quite available</html>"
	length := func(n int, text string, more ...string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s", n, strings.Join(more, ""), text)
	}
	chunks := func(text string) string { return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + text }
	old := func(text string) string { return "HTTP/1.0 200 OK\r\n\r\n" + text }
	for _, tt := range []struct {
		name, body, answer string
		known, unknown     claimcheck.Code // with the size of the message, and without
	}{
		{"with its length", body, length(13, body), good, good},
		{"in chunks", body, chunks("5\r\nHello\r\n8\r\n, World!\r\n0\r\n\r\n"), good, good},
		{"until the end of the connection", body, old(body), good, good},
		{"empty", "", length(0, ""), good, good},
		{"empty, in chunks", "", chunks("0\r\n\r\n"), good, good},
		{"empty, until the end", "", old(""), good, good},
		{"of another type", body, length(13, body, "Content-Type: text/html\r\n"), good, good},
		{"with an interim answer", body, "HTTP/1.1 103 Early Hints\r\n\r\n" + length(13, body), good, good},
		{"called encoded, and is not", body, length(13, body, "Content-Encoding: gzip\r\n"), good, good},

		{"another digest", body, length(13, "Hello, world!"), bad, bad},
		{"another digest, in chunks", body, chunks("d\r\nHello, world!\r\n0\r\n\r\n"), bad, bad},
		{"a complete one that is empty", body, length(0, ""), bad, bad},
		{"a complete one that is shorter", body, length(5, "Hello"), bad, bad},
		{"a complete one that is longer", body, length(14, body+"!"), bad, bad},
		{"shorter, in chunks", body, chunks("5\r\nHello\r\n0\r\n\r\n"), bad, bad},
		{"longer, in chunks", body, chunks("e\r\nHello, World!!\r\n0\r\n\r\n"), bad, bad},
		{"longer, in a chunk of its own", body, chunks("d\r\nHello, World!\r\n1\r\n!\r\n0\r\n\r\n"), bad, bad},
		{"shorter, until the end", body, old("Hello"), bad, bad},
		{"a page", body, length(len(page), page, "Content-Type: text/html\r\n"), bad, bad},
		{"something where there is nothing", "", length(1, "x"), bad, bad},
		{"something where there is nothing, in chunks", "", chunks("1\r\nx\r\n0\r\n\r\n"), bad, bad},
		{"encoded unasked", body, length(4, "\x1f\x8b\x08\x00", "Content-Encoding: gzip\r\n"), bad, bad},

		{"ends before its length", body, length(13, "Hello"), broken, broken},
		{"ends before its first byte", body, length(13, ""), broken, broken},
		{"ends within a chunk", body, chunks("d\r\nHello"), broken, broken},
		{"ends before the last chunk", body, chunks("d\r\nHello, World!\r\n"), broken, broken},
		{"ends within the headers", body, "HTTP/1.1 200 OK\r\nContent-Le", broken, broken},
		{"nothing", body, "", broken, broken},
		{"not HTTP", body, "220 ready\r\n", broken, broken},
		{"two lengths", body, length(13, body, "Content-Length: 12\r\n"), broken, broken},
		{"a negative length", body, length(-1, body), broken, broken},
		{"a bad chunk", body, chunks("zz\r\n"), broken, broken},
		{"headers without end", body, "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 200_000), broken, broken},
		{"another protocol", body, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", broken, broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base, accepted := rawServer(t, func(conn net.Conn, _ int) bool { io.WriteString(conn, tt.answer); return false })
			for _, open := range []bool{false, true} {
				for size, want := range map[int64]claimcheck.Code{int64(len(tt.body)): tt.known, -1: tt.unknown} {
					accepted.Store(0)
					got, err := fetch(newClient(t, base), open, clientRef, textDigest(tt.body), size)
					what := fmt.Sprintf("open %t, size %d", open, size)
					if want != good {
						checkError(t, what, err, want)
						if strings.Contains(err.Error(), "html") {
							t.Errorf("%v shows the answer", err)
						}
						if !open && got != "" || open && size >= 0 && len(got) >= max(1, int(size)) {
							t.Errorf("%s: gave %q", what, got)
						}
					} else if got != tt.body || err != nil {
						t.Errorf("%s: %q, %v", what, got, err)
					}
					if n := accepted.Load(); n != 1 {
						t.Errorf("%s: %d connections", what, n)
					}
				}
			}
		})
	}
}

// An error says that a body came encoded, since that is what there is to repair.
func TestClientSaysEncoded(t *testing.T) {
	_, srv := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		io.WriteString(w, "....")
	})
	for _, size := range []int64{-1, 4, 5} {
		_, err := fetch(newClient(t, srv.URL), false, clientRef, textDigest("body"), size)
		checkError(t, fmt.Sprint(size), err, claimcheck.CodeIntegrity)
		if !strings.Contains(err.Error(), "encoded the body, unasked") {
			t.Errorf("size %d: %v", size, err)
		}
	}
}

// Who reads exactly the size of a body learns that it is another all the same.
func TestClientOpenExactly(t *testing.T) {
	for _, answer := range []string{"bodx", "body!"} {
		_, srv := listen(t, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, answer[:2])
			w.(http.Flusher).Flush() // in chunks
			io.WriteString(w, answer[2:])
		})
		from, err := newClient(t, srv.URL).Open(context.Background(), clientRef, textDigest("body"), 4)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.ReadFull(from, make([]byte, 4))
		checkError(t, answer, err, claimcheck.CodeIntegrity)
		if _, again := from.Read(make([]byte, 1)); again != err || n == 4 {
			t.Errorf("%q: %d bytes, then %v", answer, n, again)
		}
		for range 2 {
			if err := from.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := from.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// A transport whose answers are made up: of size bytes, which are not in memory.
type madeUp struct {
	length int64 // announced, or -1
	size   int64
	pause  time.Duration // of each Read
	read   atomic.Int64
	closed atomic.Bool
}

func (m *madeUp) RoundTrip(r *http.Request) (*http.Response, error) {
	m.read.Store(0)
	m.closed.Store(false)
	return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: m.length, Body: &madeUpBody{m, r.Context(), m.size}, Request: r}, nil
}

type madeUpBody struct {
	m    *madeUp
	ctx  context.Context
	left int64
}

func (b *madeUpBody) Read(p []byte) (int, error) {
	time.Sleep(b.m.pause) // in a bubble of time
	if b.ctx.Err() != nil {
		return 0, b.ctx.Err()
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), b.left, 32<<10)
	clear(p[:n])
	b.left -= n
	b.m.read.Add(n)
	return int(n), nil
}

func (b *madeUpBody) Close() error { b.m.closed.Store(true); return nil }

func (m *madeUp) config(c *claimcheck.ClientConfig) { c.HTTPClient = &http.Client{Transport: m} }

// A gateway that sends 10 GB is not read to the end.
func TestClientTooLarge(t *testing.T) {
	const limit = 1 << 20
	for _, tt := range []struct {
		name         string
		size, length int64
		most         int64 // of bytes that may be read
		code         claimcheck.Code
	}{
		{"announced", -1, 10 << 30, 0, claimcheck.CodeTooLarge},
		{"announced, of another size than the message's", 100, 10 << 30, 0, claimcheck.CodeTooLarge},
		{"in chunks", -1, -1, limit + 64<<10, claimcheck.CodeTooLarge},
		{"in chunks, of a message that knows better", 100, -1, 64 << 10, claimcheck.CodeIntegrity},
		{"one byte over", -1, limit + 1, 0, claimcheck.CodeTooLarge},
	} {
		m := &madeUp{length: tt.length, size: 10 << 30}
		c := newClient(t, "http://gateway", m.config, func(c *claimcheck.ClientConfig) { c.MaxBodyBytes = limit })
		_, err := fetch(c, false, clientRef, textDigest("body"), tt.size)
		checkError(t, tt.name, err, tt.code)
		if n := m.read.Load(); n > tt.most || !m.closed.Load() {
			t.Errorf("%s: read %d bytes, closed %t", tt.name, n, m.closed.Load())
		}
	}
	for _, length := range []int64{limit, -1} { // is not over
		m := &madeUp{length: length, size: limit}
		c := newClient(t, "http://gateway", m.config, func(c *claimcheck.ClientConfig) { c.MaxBodyBytes = limit })
		if body, err := fetch(c, false, clientRef, textDigest(string(make([]byte, limit))), -1); err != nil || len(body) != limit {
			t.Errorf("length %d: %d bytes, %v", length, len(body), err)
		}
	}
}

// Redeem needs the body and little more; Open needs little, whatever the size.
func TestClientMemory(t *testing.T) {
	const size = 64 << 20
	digest := textDigest(string(make([]byte, size)))
	for _, tt := range []struct {
		name  string
		most  uint64
		fetch func(*claimcheck.Client) (int64, error)
	}{
		{"Redeem", size*11/10 + 1<<20, func(c *claimcheck.Client) (int64, error) {
			body, err := c.Redeem(context.Background(), clientRef, digest, size)
			return int64(len(body)), err
		}},
		{"Open", 2 << 20, func(c *claimcheck.Client) (int64, error) {
			from, err := c.Open(context.Background(), clientRef, digest, size)
			if err != nil {
				return 0, err
			}
			defer from.Close()
			return io.Copy(io.Discard, from)
		}},
	} {
		c := newClient(t, "http://gateway", (&madeUp{length: size, size: size}).config)
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, err := tt.fetch(c)
		runtime.ReadMemStats(&after)
		if n != size || err != nil {
			t.Errorf("%s: %d bytes, %v", tt.name, n, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > tt.most {
			t.Errorf("%s allocates %d bytes for a body of %d, want at most %d", tt.name, got, size, tt.most)
		}
	}
}

// pipes is a transport to a server in the same bubble of time, which answers with text and
// then hangs.
func pipes(t testing.TB, text string) *http.Client {
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			if _, err := http.ReadRequest(bufio.NewReader(server)); err == nil {
				io.WriteString(server, text)
			}
			_, _ = server.Read(make([]byte, 1)) // until the client gives up
		}()
		return client, nil
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// Memory grows with what comes, not with what a message says that would.
func TestClientMemoryOfALie(t *testing.T) {
	m := &madeUp{length: -1, size: 4}
	c := newClient(t, "http://gateway", m.config)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := c.Redeem(context.Background(), clientRef, textDigest("body"), 64<<20)
	runtime.ReadMemStats(&after)
	checkError(t, "redeem", err, claimcheck.CodeIntegrity)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("allocates %d bytes for a body of 4", got)
	}
}

// A gateway that hangs is waited for no longer than Timeout, wherever it hangs.
func TestClientTimeout(t *testing.T) {
	for name, answer := range map[string]string{
		"before the answer":  "",
		"within the headers": "HTTP/1.1 200 OK\r\nContent-",
		"before the body":    "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n",
		"within the body":    "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbod",
		"at the end":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n",
		"in a page of 404":   "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\n",
		"in a page of 400":   "HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\n",
	} {
		want := claimcheck.CodeUnavailable
		switch name {
		case "in a page of 404":
			want = claimcheck.CodeNotFound
		case "in a page of 400":
			want = claimcheck.CodeRejected
		}
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", open ", open), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newClient(t, "http://gateway", func(c *claimcheck.ClientConfig) { c.HTTPClient = pipes(t, answer) })
					start := time.Now()
					_, err := fetch(c, open, clientSignedRef, textDigest("body"), 4)
					checkError(t, "fetch", err, want)
					if want == claimcheck.CodeUnavailable && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v is not about a deadline", err)
					}
					if took := time.Since(start); took != claimcheck.DefaultClientTimeout {
						t.Errorf("took %v", took)
					}
				})
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, "http://gateway", func(c *claimcheck.ClientConfig) { c.HTTPClient, c.Timeout = pipes(t, ""), time.Minute })
		start := time.Now()
		checkError(t, "health", c.Health(context.Background()), claimcheck.CodeUnavailable)
		if took := time.Since(start); took != time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

// A stream may take any time, as long as each Read is answered in time. What its reader does
// between two of them does not count.
func TestClientOpenSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &madeUp{length: -1, size: 1 << 20, pause: 9 * time.Second}
		from, err := newClient(t, "http://gateway", m.config).Open(context.Background(), clientRef, textDigest(string(make([]byte, 1<<20))), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		n, buf := 0, make([]byte, 64<<10)
		for err == nil {
			time.Sleep(time.Hour)
			var m int
			m, err = from.Read(buf)
			n += m
		}
		if n != 1<<20 || err != io.EOF {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}
