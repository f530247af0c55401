package webhook_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/webhook"
)

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
			defer close(leave)
			statuses := make(chan int, 4)
			publish := func() {
				go func() { statuses <- post(srv.Client(), srv.URL, body).status }()
				select {
				case <-entered:
				case status := <-statuses:
					t.Fatalf("answered %d, want it published", status)
				}
			}
			for range 2 {
				publish()
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
				publish()
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

// The default of MaxBytesInFlight has room for any body that is accepted.
func TestReceiverTakesLargeBodies(t *testing.T) {
	c := plainConfig(&store{})
	c.Request.MaxBodyBytes = 34 << 20
	c.BodyTimeout = patience
	srv := serve(t, c)
	if got := post(srv.Client(), srv.URL, strings.Repeat("x", 34<<20)); got.status != 202 {
		t.Errorf("answered %d %s, want 202", got.status, got.text)
	}
}

// A Publish that does not come back is not waited for, and is still counted.
func TestReceiverPublishTimeout(t *testing.T) {
	block := make(chan struct{})
	unblock := sync.OnceFunc(func() { close(block) })
	defer unblock()
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
	unblock()
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
