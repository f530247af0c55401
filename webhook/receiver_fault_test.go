package webhook_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"reflect"
	"slices"
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

func TestReceiverBoundsWhatIsInFlight(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*webhook.ReceiverConfig)
	}{
		{"requests", func(c *webhook.ReceiverConfig) { c.MaxConcurrent = 2 }},
		{"bytes", func(c *webhook.ReceiverConfig) { c.MaxBytesInFlight = 2002 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entered, leave := make(chan struct{}), make(chan error)
			pub := &store{publish: func(*message.Message) error {
				select {
				case entered <- struct{}{}:
					return <-leave
				case <-time.After(patience):
					return errors.New("one too many is published")
				}
			}}
			c := plainConfig(pub)
			c.Request.MaxBodyBytes = 1000
			tt.change(&c)
			srv := serve(t, c)
			body := strings.Repeat("x", 900)
			statuses := make(chan int)
			publish := func() { statuses <- post(srv.Client(), srv.URL, body).status }
			for range 2 {
				go publish()
				<-entered
			}
			for range 3 {
				got := send(t, srv, http.MethodPost, "/", body, nil)
				if got.status != 503 || got.text != `{"error":"overloaded"}` || got.header.Get("Retry-After") != "5" {
					t.Errorf("answered %d %s, want 503", got.status, got.text)
				}
			}
			leave <- nil
			leave <- errors.New("down")
			if got := []int{<-statuses, <-statuses}; !slices.Contains(got, 202) || !slices.Contains(got, 503) {
				t.Errorf("the two in flight are answered %v, want 202 and 503", got)
			}
			// What the three took, and the two, has been given back.
			for range 2 {
				go publish()
				<-entered
			}
			leave <- nil
			leave <- nil
			if got := []int{<-statuses, <-statuses}; got[0] != 202 || got[1] != 202 {
				t.Errorf("the next two are answered %v", got)
			}
			if stored, _ := pub.take(t); len(stored) != 3 {
				t.Errorf("stored %d, want 3", len(stored))
			}
		})
	}
}

// A body that has arrived counts once, whatever it grew through.
func TestReceiverGivesBackWhatBodiesOutgrew(t *testing.T) {
	const size = 1 << 20
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	pub := &store{publish: func(*message.Message) error {
		entered <- struct{}{}
		<-leave
		return nil
	}}
	c := plainConfig(pub)
	c.Request.MaxBodyBytes = size
	c.MaxBytesInFlight = 2*size + 2
	srv := serve(t, c)
	answers := make(chan int, 2)
	published := 0
	for _, n := range []int{size, size / 3} {
		go func() { answers <- post(srv.Client(), srv.URL, strings.Repeat("x", n)).status }()
		select {
		case <-entered:
			published++
		case status := <-answers:
			t.Errorf("a body of %d bytes is answered %d", n, status)
		}
	}
	close(leave)
	for range published {
		if status := <-answers; status != 202 {
			t.Errorf("answered %d, want 202", status)
		}
	}
}

// A Publish that does not come back is not waited for, and is still counted.
func TestReceiverPublishTimeout(t *testing.T) {
	block := make(chan struct{})
	contexts := make(chan context.Context, 1)
	pub := &store{publish: func(msg *message.Message) error {
		select {
		case contexts <- msg.Context():
			<-block
		default: // the second one
		}
		return nil
	}}
	c := plainConfig(pub)
	c.PublishTimeout = 20 * time.Millisecond
	c.MaxConcurrent = 1
	srv := serve(t, c)
	if got := send(t, srv, http.MethodPost, "/", "slow", nil); got.status != 503 || got.text != `{"error":"publish_failed"}` {
		t.Errorf("answered %d %s, want 503", got.status, got.text)
	}
	if err := (<-contexts).Err(); err != context.DeadlineExceeded {
		t.Errorf("the message's context says %v", err)
	}
	if got := send(t, srv, http.MethodPost, "/", "next", nil); got.status != 503 || got.text != `{"error":"overloaded"}` {
		t.Errorf("while it hangs the next is answered %d %s, want 503", got.status, got.text)
	}
	contexts <- context.Background() // full: the next one does not block
	close(block)
	for deadline := time.Now().Add(patience); ; { // its slot comes back soon after
		got := send(t, srv, http.MethodPost, "/", "next", nil)
		if got.status == 202 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("answered %d %s for ever", got.status, got.text)
		}
	}
	if stored, _ := pub.take(t); !reflect.DeepEqual(stored, []string{"hooks: slow", "hooks: next"}) {
		t.Errorf("stored %q: what was late is not lost, and not answered 202", stored)
	}
}

// A client that leaves while its hook is published changes nothing.
func TestReceiverClientLeaves(t *testing.T) {
	entered, gone, stored := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	pub := &store{publish: func(msg *message.Message) error {
		close(entered)
		<-gone
		stored <- msg.Context().Err()
		return msg.Context().Err()
	}}
	rcv, err := webhook.NewReceiver(plainConfig(pub))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		go func() {
			<-r.Context().Done()
			close(gone)
		}()
		rcv.ServeHTTP(w, r)
	}))
	defer srv.Close()
	conn := dial(t, srv)
	write(t, conn, raw("body"))
	<-entered
	conn.Close()
	select {
	case err := <-stored:
		if err != nil {
			t.Errorf("the message's context says %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the request's context does not end with the client")
	}
	srv.Close() // waits for the handler
	if stored, _ := pub.take(t); !reflect.DeepEqual(stored, []string{"hooks: body"}) {
		t.Errorf("stored %q", stored)
	}
}

func TestReceiverShutdown(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	pub := &store{publish: func(*message.Message) error { close(entered); <-leave; return nil }}
	srv := serve(t, plainConfig(pub))
	conn := dial(t, srv)
	write(t, conn, raw("body"))
	<-entered
	down := make(chan error)
	srv.Config.RegisterOnShutdown(func() { close(leave) }) // only once it has begun
	go func() { down <- srv.Config.Shutdown(context.Background()) }()
	if status, text := answerOf(t, bufio.NewReader(conn)); status != 202 {
		t.Errorf("answered %d %s", status, text)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// 1,000 requests at once while the broker is down, and comes up: whoever is answered 202 is
// stored, once and exactly; whoever is answered 503 is not, and is in the end when it is
// sent again.
func TestReceiverOutage(t *testing.T) {
	const clients, slots = 1000, 100
	var calls atomic.Int64
	refused := make(chan struct{}) // closed once those without a slot have been turned away
	pub := &store{publish: func(*message.Message) error {
		n := calls.Add(1)
		if n <= slots {
			<-refused
		}
		if n <= slots/2 || n > slots && n%7 == 0 {
			return errors.New("down")
		}
		return nil
	}}
	c := plainConfig(pub)
	c.MaxConcurrent = slots
	c.BodyTimeout = patience
	srv := serve(t, c)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()

	type result struct {
		body string
		answer
	}
	pending := make([]string, clients)
	for i := range pending {
		pending[i] = fmt.Sprintf("%d \x00\xff %s", i, strings.Repeat("x", i))
	}
	accepted := map[string]string{} // bodies by the answer
	for round := 0; len(pending) > 0; round++ {
		results := make(chan result)
		start := make(chan struct{})
		for _, body := range pending {
			go func() {
				<-start
				results <- result{body, post(client, srv.URL, body)}
			}()
		}
		close(start)
		var again []string
		codes := map[string]int{}
		for i := range pending {
			switch r := <-results; r.status {
			case 202:
				codes["202"]++
				accepted[r.text] = r.body
			case 503:
				codes[r.text]++
				again = append(again, r.body)
			default:
				t.Fatalf("answered %d %s", r.status, r.text)
			}
			if round == 0 && i+1 == clients-slots {
				close(refused)
			}
		}
		want := map[string]int{`{"error":"overloaded"}`: clients - slots, `{"error":"publish_failed"}`: slots / 2, "202": slots / 2}
		if round == 0 && !reflect.DeepEqual(codes, want) {
			t.Errorf("the first round is answered %v, want %v", codes, want)
		}
		pending = again
	}
	stored := map[string]string{}
	for _, msg := range pub.kept {
		stored[`{"id":"`+msg.UUID+`"}`] = string(msg.Payload)
	}
	if len(pub.kept) != clients || !reflect.DeepEqual(stored, accepted) {
		t.Errorf("stored %d messages, %d of them different, and answered 202 to %d: want the same %d", len(pub.kept), len(stored), len(accepted), clients)
	}
}
