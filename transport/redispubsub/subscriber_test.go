package redispubsub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/transport/redispubsub"
)

// patience is for what must happen.
const patience = 30 * time.Second

// book is what was logged.
type book struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *book) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.b.String(), text)
}

func newSubscriber(t testing.TB, s *server, c redispubsub.SubscriberConfig) (*redispubsub.Subscriber, *book) {
	t.Helper()
	log := &book{}
	c.Client, c.Unmarshaler, c.Logger = s.client(t), plain{}, slog.New(slog.NewTextHandler(log, nil))
	if c.RetryDelay == 0 {
		c.RetryDelay = time.Millisecond
	}
	sub, err := redispubsub.NewSubscriber(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sub.Close() })
	return sub, log
}

func subscribe(t testing.TB, sub *redispubsub.Subscriber) <-chan *message.Message {
	t.Helper()
	ch, err := sub.Subscribe(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func next(t testing.TB, ch <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, ok := <-ch:
		if !ok {
			t.Fatal("the subscription has ended")
		}
		return msg
	case <-time.After(patience):
		t.Fatal("no message")
		return nil
	}
}

func want(t testing.TB, ch <-chan *message.Message, payload string) *message.Message {
	t.Helper()
	msg := next(t, ch)
	if string(msg.Payload) != payload {
		t.Fatalf("got %q, want %q", msg.Payload, payload)
	}
	return msg
}

func TestSubscribe(t *testing.T) {
	s := newServer(t)
	sub, _ := newSubscriber(t, s, redispubsub.SubscriberConfig{})
	type key struct{}
	ch, err := sub.Subscribe(context.WithValue(t.Context(), key{}, "value"), "c")
	if err != nil {
		t.Fatal(err)
	}
	// It is confirmed, so nothing that is published from now on is missed.
	if n := s.send("c", "0", "1", "2"); n != 1 {
		t.Fatalf("%d subscribers", n)
	}
	for i := range 3 {
		msg := want(t, ch, fmt.Sprint(i))
		if msg.Context().Value(key{}) != "value" || msg.Context().Err() != nil {
			t.Errorf("context %v", msg.Context())
		}
		select {
		case other := <-ch:
			t.Errorf("%q is handed out before %d is acked", other.Payload, i)
		default:
		}
		msg.Ack()
		<-msg.Context().Done()
	}
}

func TestNack(t *testing.T) {
	s := newServer(t)
	sub, log := newSubscriber(t, s, redispubsub.SubscriberConfig{MaxAttempts: 3})
	ch := subscribe(t, sub)
	s.send("c", "a", "b", "c")
	first := want(t, ch, "a")
	first.Metadata.Set("changed", "yes")
	first.Nack()
	again := want(t, ch, "a")
	if again == first || again.Metadata.Get("changed") != "" || again.UUID != first.UUID {
		t.Errorf("the handler's own copy comes again: %v", again)
	}
	again.Ack()
	for range 3 {
		want(t, ch, "b").Nack()
	}
	want(t, ch, "c").Ack()
	if n := log.count("a message was nacked and is dropped"); n != 1 || log.count("message_id=id-b attempts=3") != 1 {
		t.Errorf("logged %q", log.b.String())
	}
}

// What the unmarshaler refuses is dropped, and its text, which may quote the payload, is not
// logged.
func TestUnreadable(t *testing.T) {
	s := newServer(t)
	sub, log := newSubscriber(t, s, redispubsub.SubscriberConfig{})
	ch := subscribe(t, sub)
	s.send("c", "unreadable", "panics", "none", "good")
	want(t, ch, "good").Ack()
	if log.count("cannot be unmarshaled") != 3 || log.count("index out of range") != 0 || log.count(errRefused.Error()) != 0 {
		t.Errorf("logged %q", log.b.String())
	}
}

func TestBackpressure(t *testing.T) {
	s := newServer(t)
	sub, _ := newSubscriber(t, s, redispubsub.SubscriberConfig{Buffer: 2})
	ch := subscribe(t, sub)
	const n = 1000
	var payloads []string
	for i := range n {
		payloads = append(payloads, fmt.Sprint(i))
	}
	s.send("c", payloads...)
	for _, p := range payloads {
		want(t, ch, p).Ack()
	}
}

// A subscription comes back by itself, and from then on everything arrives.
func TestReconnect(t *testing.T) {
	s := newServer(t)
	sub, log := newSubscriber(t, s, redispubsub.SubscriberConfig{})
	ch := subscribe(t, sub)
	for i := range 3 {
		s.send("c", "before")
		want(t, ch, "before").Ack()
		s.disconnect()
		await(t, "it is subscribed again", func() bool { return s.send("c", "after") > 0 })
		want(t, ch, "after").Ack()
		await(t, "it says so", func() bool { return log.count("subscribed again") == i+1 })
	}
	if n := log.count("was interrupted"); n != 3 {
		t.Errorf("logged %q", log.b.String())
	}
}

// A refusal after an outage, such as a right that is taken away, is not the end either.
func TestReconnectAfterARefusal(t *testing.T) {
	s := newServer(t)
	sub, log := newSubscriber(t, s, redispubsub.SubscriberConfig{})
	ch := subscribe(t, sub)
	s.set(func(s *server) { s.refuse = "-NOPERM no permissions\r\n" })
	s.disconnect()
	await(t, "the outage is logged", func() bool { return log.count("was interrupted") == 1 })
	s.set(func(s *server) { s.refuse = "" })
	await(t, "it is subscribed again", func() bool { return s.send("c", "after") > 0 })
	want(t, ch, "after").Ack()
}

// A Redis that hangs keeps its connections open: pings without an answer tell.
func TestMuteServer(t *testing.T) {
	s := newServer(t)
	sub, log := newSubscriber(t, s, redispubsub.SubscriberConfig{PingInterval: 20 * time.Millisecond})
	ch := subscribe(t, sub)
	s.set(func(s *server) { s.silent, s.conns = true, without(s.conns) })
	await(t, "the silence is noticed", func() bool { return log.count("does not answer") > 0 })
	s.set(func(s *server) { s.silent = false })
	await(t, "it is subscribed again", func() bool { return s.send("c", "after") > 0 })
	want(t, ch, "after").Ack()
}

func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-again.C:
		case <-deadline:
			t.Fatal("not in time: " + what)
		}
	}
}

func TestSubscribeErrors(t *testing.T) {
	s := newServer(t)
	s.refuse = "-NOPERM no permissions\r\n"
	sub, _ := newSubscriber(t, s, redispubsub.SubscriberConfig{})
	var e *redispubsub.Error
	if _, err := sub.Subscribe(t.Context(), "c"); !errors.As(err, &e) || e.Channel != "c" || !strings.Contains(err.Error(), "NOPERM") || !envelope.IsTransient(err) {
		t.Errorf("refused: %v", err)
	}
	s.set(func(s *server) {
		if s.asked != 1 {
			t.Errorf("asked %d times, though a refusal does not pass by itself", s.asked)
		}
	})
	if _, err := sub.Subscribe(t.Context(), ""); err == nil {
		t.Error("a channel without a name")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sub.Subscribe(ctx, "c"); !errors.As(err, &e) {
		t.Errorf("a context that is done: %v", err)
	}
	sub.Close()
	if _, err := sub.Subscribe(t.Context(), "c"); !errors.Is(err, redispubsub.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// Close ends a Subscribe that waits for Redis.
func TestCloseWhileSubscribing(t *testing.T) {
	s := newServer(t)
	s.refuse = none
	sub, _ := newSubscriber(t, s, redispubsub.SubscriberConfig{})
	failed := make(chan error, 1)
	go func() {
		_, err := sub.Subscribe(t.Context(), "c")
		failed <- err
	}()
	await(t, "it connects", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) > 0 })
	sub.Close()
	if err := <-failed; !errors.Is(err, redispubsub.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

func TestClose(t *testing.T) {
	s := newServer(t)
	sub, log := newSubscriber(t, s, redispubsub.SubscriberConfig{})
	ch := subscribe(t, sub)
	s.send("c", "a", "b", "c")
	msg := want(t, ch, "a")
	var closing sync.WaitGroup
	for range 3 {
		closing.Go(func() { sub.Close() })
	}
	await(t, "it unsubscribes", func() bool { return s.send("c") == 0 })
	if msg.Context().Err() != nil {
		t.Error("the context of a message ended while its handler was waited for")
	}
	msg.Ack()
	closing.Wait()
	if _, ok := <-ch; ok {
		t.Error("a message comes after Close")
	}
	if log.count("not finished in time") != 0 {
		t.Errorf("logged %q", log.b.String())
	}
}

// The end of the context ends one subscription, with the handler's patience, and not others.
func TestEndOfContext(t *testing.T) {
	s := newServer(t)
	sub, log := newSubscriber(t, s, redispubsub.SubscriberConfig{CloseTimeout: time.Millisecond})
	other, err := sub.Subscribe(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := sub.Subscribe(ctx, "c")
	if err != nil {
		t.Fatal(err)
	}
	s.send("c", "a")
	msg := want(t, ch, "a")
	cancel()
	<-msg.Context().Done()
	if _, ok := <-ch; ok {
		t.Error("a message comes after the end")
	}
	if log.count("not finished in time") != 1 {
		t.Errorf("logged %q", log.b.String())
	}
	s.send("other", "b")
	want(t, other, "b").Ack()
}
