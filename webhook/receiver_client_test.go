package webhook_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/webhook"
)

// patience is how long a test waits for what must come. It is never waited out by a test
// that passes.
const patience = 30 * time.Second

// dial opens a connection to srv that no client tidies up.
func dial(t testing.TB, srv *httptest.Server) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

func write(t testing.TB, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// answerOf reads one answer.
func answerOf(t testing.TB, from *bufio.Reader) (status int, text string) {
	t.Helper()
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// plainConfig is the least that a Receiver needs.
func plainConfig(pub message.Publisher) webhook.ReceiverConfig {
	return webhook.ReceiverConfig{Publisher: pub, Topic: "hooks", Request: webhook.RequestOptions{Source: "test"}}
}

func TestReceiverCutsOffClientsThatStall(t *testing.T) {
	for _, tt := range []struct{ name, raw string }{
		{"before the body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"},
		{"within it", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"},
		{"between chunks", chunked("3\r\nabc\r\n")},
		{"within a chunk", chunked("5\r\nabc")},
		{"before the last chunk ends", chunked("3\r\nabc\r\n0\r\n")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pub := &store{}
			c := plainConfig(pub)
			c.BodyTimeout = 20 * time.Millisecond
			c.MaxConcurrent = 1
			srv := serve(t, c)
			conn := dial(t, srv)
			write(t, conn, tt.raw)
			from := bufio.NewReader(conn)
			if status, text := answerOf(t, from); status != 408 || text != `{"error":"body_timeout"}` {
				t.Errorf("answered %d %s, want 408", status, text)
			}
			if _, err := from.ReadByte(); err != io.EOF {
				t.Errorf("then %v, want the end of the connection", err)
			}
			// The only slot is free again.
			next := dial(t, srv)
			write(t, next, raw("next"))
			if status, text := answerOf(t, bufio.NewReader(next)); status != 202 {
				t.Errorf("the next request is answered %d %s", status, text)
			}
			if stored, _ := pub.take(t); !reflect.DeepEqual(stored, []string{"hooks: next"}) {
				t.Errorf("stored %q", stored)
			}
		})
	}
}

// A client that sends a byte now and then never stalls, and is cut off all the same.
func TestReceiverCutsOffClientsThatDrip(t *testing.T) {
	pub := &store{}
	c := plainConfig(pub)
	c.BodyTimeout = 50 * time.Millisecond
	srv := serve(t, c)
	conn := dial(t, srv)
	write(t, conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
	go func() {
		drip := time.NewTicker(time.Millisecond)
		defer drip.Stop()
		for range drip.C {
			if _, err := conn.Write([]byte("x")); err != nil {
				return // cut off, or the test is over
			}
		}
	}()
	if status, text := answerOf(t, bufio.NewReader(conn)); status != 408 {
		t.Errorf("answered %d %s, want 408", status, text)
	}
}

// A stalled body is cut off when it is not even read: the server would wait for it before
// it sends the answer.
func TestReceiverCutsOffClientsThatItRefuses(t *testing.T) {
	block, blocked := make(chan struct{}), make(chan struct{})
	pub := &store{publish: func(*message.Message) error { blocked <- struct{}{}; <-block; return nil }}
	c := plainConfig(pub)
	c.MaxConcurrent = 1
	c.BodyTimeout = 20 * time.Millisecond
	srv := serve(t, c)
	defer close(block)
	go post(srv.Client(), srv.URL, "takes the slot")
	<-blocked
	for _, method := range []string{http.MethodPost, "PUT"} {
		conn := dial(t, srv)
		write(t, conn, method+" / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
		status, text := answerOf(t, bufio.NewReader(conn))
		if want := map[string]int{"POST": 503, "PUT": 405}[method]; status != want {
			t.Errorf("%s: answered %d %s, want %d", method, status, text, want)
		}
	}
}

func TestReceiverCutsOffClientsOfHTTP2(t *testing.T) {
	pub := &store{}
	c := plainConfig(pub)
	c.BodyTimeout = 20 * time.Millisecond
	rcv, err := webhook.NewReceiver(c)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(rcv)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()

	body, w := io.Pipe()
	defer w.Close() // the body does not end before
	resp, err := srv.Client().Post(srv.URL, "", body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout || resp.ProtoMajor != 2 {
		t.Errorf("a stalled body is answered %d by HTTP/%d, want 408 by 2", resp.StatusCode, resp.ProtoMajor)
	}
}

// The deadline of the body is for the body: a publish may take longer, and the connection
// may be used again.
func TestReceiverLiftsTheDeadline(t *testing.T) {
	const timeout = 20 * time.Millisecond
	var ended atomic.Bool
	c := plainConfig(&store{publish: func(msg *message.Message) error {
		<-time.After(3 * timeout)
		return nil
	}})
	c.BodyTimeout = timeout
	rcv, err := webhook.NewReceiver(c)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rcv.ServeHTTP(w, r)
		if r.Context().Err() != nil {
			ended.Store(true)
		}
	}))
	defer srv.Close()
	for i := range 2 {
		reused := false
		trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), http.MethodPost, srv.URL, strings.NewReader("b"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := do(srv.Client(), r)
		if err != nil {
			t.Fatal(err)
		}
		if got.status != 202 || reused != (i == 1) {
			t.Errorf("request %d: %d, on a used connection: %v", i, got.status, reused)
		}
	}
	if ended.Load() {
		t.Error("the deadline of the body ended the request")
	}
}

func TestReceiverAndLyingLengths(t *testing.T) {
	t.Run("more than is sent", func(t *testing.T) {
		pub := &store{}
		conn := dial(t, serve(t, plainConfig(pub)))
		write(t, conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if status, text := answerOf(t, bufio.NewReader(conn)); status != 400 || text != `{"error":"incomplete_body"}` {
			t.Errorf("answered %d %s", status, text)
		}
		if stored, _ := pub.take(t); stored != nil {
			t.Errorf("stored %q", stored)
		}
	})
	t.Run("less than is sent", func(t *testing.T) {
		pub := &store{}
		conn := dial(t, serve(t, plainConfig(pub)))
		write(t, conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcdef\r\n\r\n")
		from := bufio.NewReader(conn)
		if status, text := answerOf(t, from); status != 202 {
			t.Errorf("answered %d %s", status, text)
		}
		if status, _ := answerOf(t, from); status != 400 {
			t.Errorf("what is left is answered %d, want 400: it is no request", status)
		}
		if stored, _ := pub.take(t); !reflect.DeepEqual(stored, []string{"hooks: abc"}) {
			t.Errorf("stored %q", stored)
		}
	})
	t.Run("more than is accepted", func(t *testing.T) {
		pub := &store{}
		conn := dial(t, serve(t, plainConfig(pub)))
		write(t, conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\nabc")
		if status, text := answerOf(t, bufio.NewReader(conn)); status != 413 || text != `{"error":"body_too_large"}` {
			t.Errorf("answered %d %s", status, text)
		}
		if stored, _ := pub.take(t); stored != nil {
			t.Errorf("stored %q", stored)
		}
	})
	t.Run("more than is accepted, and it never comes", func(t *testing.T) {
		c := plainConfig(&store{})
		c.Request.MaxBodyBytes = 4
		c.BodyTimeout = time.Hour // the answer does not wait for the body
		conn := dial(t, serve(t, c))
		write(t, conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
		if status, text := answerOf(t, bufio.NewReader(conn)); status != 413 {
			t.Errorf("answered %d %s, want 413", status, text)
		}
	})
	t.Run("chunks without end", func(t *testing.T) {
		pub := &store{}
		c := plainConfig(pub)
		c.Request.MaxBodyBytes = 100_000
		conn := dial(t, serve(t, c))
		go func() {
			chunk := chunked("")
			for { // until the receiver hangs up
				if _, err := io.WriteString(conn, chunk); err != nil {
					return
				}
				chunk = "1000\r\n" + strings.Repeat("x", 4096) + "\r\n"
			}
		}()
		if status, text := answerOf(t, bufio.NewReader(conn)); status != 413 || text != `{"error":"body_too_large"}` {
			t.Errorf("answered %d %s", status, text)
		}
	})
	t.Run("lengths take no memory", func(t *testing.T) {
		// 20 clients announce 20 MiB, 5 times what may be in memory, and are slow to send it.
		const size = 1 << 20
		pub := &store{}
		c := plainConfig(pub)
		c.Request.MaxBodyBytes = size
		c.MaxBytesInFlight = 4 * size
		c.BodyTimeout = patience
		srv := serve(t, c)
		body := strings.Repeat("x", size)
		var clients []*net.TCPConn
		for range 20 {
			conn := dial(t, srv)
			write(t, conn, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", size, body[:9]))
			clients = append(clients, conn)
		}
		for i, conn := range clients {
			write(t, conn, body[9:])
			if status, text := answerOf(t, bufio.NewReader(conn)); status != 202 {
				t.Errorf("client %d is answered %d %s, want 202", i, status, text)
			}
		}
	})
}
