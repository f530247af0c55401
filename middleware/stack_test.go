package middleware_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// poisonTopic is the publisher of the poison topic. It refuses the first down publishes, as
// a broker does that is away.
type poisonTopic struct {
	mu      sync.Mutex
	down    int
	refused int
	got     []*message.Message
}

func (p *poisonTopic) Publish(_ string, messages ...*message.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down > 0 {
		p.down--
		p.refused++
		return errors.New("connection refused")
	}
	for _, m := range messages {
		p.got = append(p.got, m.Copy())
	}
	return nil
}

func (p *poisonTopic) Close() error { return nil }

// A stack is a router over a GoChannel topic with the middlewares of the package
// documentation around one handler.
type stack struct {
	t        *testing.T
	topic    *gochannel.GoChannel
	router   *message.Router
	poison   *poisonTopic
	attempts []string      // UUID of each call of what is inside Retry
	handled  chan string   // UUIDs that the handler returned nil for
	failed   chan struct{} // one value for each error that Retry sees, when not nil
}

const maxRetries = 2

func newStack(t *testing.T, retryInterval time.Duration, h message.NoPublishHandlerFunc) *stack {
	t.Helper()
	log := watermill.NewSlogLogger(slog.New(slog.DiscardHandler))
	s := &stack{
		t:       t,
		topic:   gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, log),
		poison:  new(poisonTopic),
		handled: make(chan string, 16),
		failed:  make(chan struct{}, 64),
	}
	var err error
	if s.router, err = message.NewRouter(message.RouterConfig{}, log); err != nil {
		t.Fatal(err)
	}
	poison, err := wmmw.PoisonQueueWithFilter(s.poison, "orders.poison", hookmw.ShouldPoison)
	if err != nil {
		t.Fatal(err)
	}
	observe := func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			s.attempts = append(s.attempts, msg.UUID)
			out, err := h(msg)
			if err != nil {
				s.failed <- struct{}{}
			}
			return out, err
		}
	}
	s.router.AddMiddleware(
		poison,
		wmmw.Retry{MaxRetries: maxRetries, InitialInterval: retryInterval, ShouldRetry: hookmw.ShouldRetry}.Middleware,
		observe,
		hookmw.Malformed{}.Middleware,
	)
	s.router.AddConsumerHandler("orders", "orders", s.topic, func(msg *message.Message) error {
		err := h(msg)
		if err == nil {
			s.handled <- msg.UUID
		}
		return err
	})
	done := make(chan error, 1)
	go func() { done <- s.router.Run(context.Background()) }()
	<-s.router.Running()
	t.Cleanup(func() {
		if err := errors.Join(s.router.Close(), <-done, s.topic.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// publish returns once msg was acked.
func (s *stack) publish(msg *message.Message) {
	s.t.Helper()
	if err := s.topic.Publish("orders", msg); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stack) wantAttempts(uuid string, want int) {
	s.t.Helper()
	got := 0
	for _, u := range s.attempts {
		if u == uuid {
			got++
		}
	}
	if got != want {
		s.t.Errorf("%s was tried %d times, want %d", uuid, got, want)
	}
}

// wantPoisoned checks that the poison topic holds one message, with this reason.
func (s *stack) wantPoisoned(uuid, reason string) *message.Message {
	s.t.Helper()
	if len(s.poison.got) != 1 {
		s.t.Fatalf("the poison topic holds %d messages, want 1", len(s.poison.got))
	}
	msg := s.poison.got[0]
	if msg.UUID != uuid || msg.Metadata[wmmw.ReasonForPoisonedKey] != reason {
		s.t.Errorf("poisoned %s because of %q, want %s because of %q",
			msg.UUID, msg.Metadata[wmmw.ReasonForPoisonedKey], uuid, reason)
	}
	if topic := msg.Metadata[wmmw.PoisonedTopicKey]; topic != "orders" {
		s.t.Errorf("poisoned topic %q, want orders", topic)
	}
	return msg
}

func (s *stack) wantHandled(uuid string) {
	s.t.Helper()
	select {
	case got := <-s.handled:
		if got != uuid {
			s.t.Errorf("handled %s, want %s", got, uuid)
		}
	default:
		s.t.Errorf("%s was not handled", uuid)
	}
}

func named(uuid, payload string) *message.Message { return message.NewMessage(uuid, []byte(payload)) }

func TestStackPoisonsMalformedOnceAndGoesOn(t *testing.T) {
	s := newStack(t, time.Nanosecond, func(*message.Message) error { return nil })
	bad := named("bad", "")
	bad.Metadata[envelope.MetadataMalformed] = "invalid_field:size"
	bad.Metadata[envelope.MetadataRaw] = `{"v":1,"size":-1}`
	bad.Metadata[envelope.MetadataKey] = "acme/stripe"
	s.publish(bad)
	s.publish(named("next", "{}"))

	s.wantAttempts("bad", 1)
	got := s.wantPoisoned("bad", `envelope: invalid_field "size"`)
	if len(got.Payload) != 0 || got.Metadata[envelope.MetadataRaw] != `{"v":1,"size":-1}` ||
		got.Metadata[envelope.MetadataKey] != "acme/stripe" {
		t.Error("the poisoned message is not what was received")
	}
	s.wantHandled("next")
}

func TestStackPoisonsPermanentErrorsAtOnce(t *testing.T) {
	s := newStack(t, time.Nanosecond, func(*message.Message) error {
		return envelope.Permanent(errors.New("no such order"))
	})
	s.publish(named("a", "{}"))
	s.wantAttempts("a", 1)
	s.wantPoisoned("a", "no such order")
}

func TestStackPoisonsTheHandlersErrorAfterItsRetries(t *testing.T) {
	s := newStack(t, time.Nanosecond, func(msg *message.Message) error {
		if msg.UUID == "a" {
			return errors.New("out of stock")
		}
		return nil
	})
	s.publish(named("a", "{}"))
	s.publish(named("next", "{}"))
	s.wantAttempts("a", 1+maxRetries)
	s.wantPoisoned("a", "out of stock")
	s.wantHandled("next")
}

func TestStackWaitsForAnOutageToEnd(t *testing.T) {
	const deliveries = 3
	away := deliveries * (1 + maxRetries)
	s := newStack(t, time.Nanosecond, func(*message.Message) error {
		if away--; away >= 0 {
			return envelope.Transient(errors.New("no connection to the inventory"))
		}
		return nil
	})
	s.publish(named("a", "{}"))
	s.wantAttempts("a", deliveries*(1+maxRetries)+1)
	s.wantHandled("a")
	if n := len(s.poison.got); n != 0 {
		t.Errorf("an outage sent %d messages to the poison topic", n)
	}
}

func TestStackLosesNothingWhileThePoisonBrokerIsAway(t *testing.T) {
	s := newStack(t, time.Nanosecond, func(*message.Message) error { return nil })
	s.poison.down = 3
	bad := named("bad", "")
	bad.Metadata[envelope.MetadataMalformed] = "invalid_json"
	s.publish(bad)
	s.publish(named("next", "{}"))

	if s.poison.refused != 3 {
		t.Errorf("the poison broker refused %d publishes, want 3", s.poison.refused)
	}
	s.wantAttempts("bad", 4) // one for each delivery
	s.wantPoisoned("bad", "envelope: invalid_json")
	s.wantHandled("next")
}

func TestStackDoesNotPoisonWhatAShutdownInterrupts(t *testing.T) {
	s := newStack(t, time.Hour, func(*message.Message) error { return errors.New("out of stock") })
	published := make(chan struct{})
	go func() {
		defer close(published)
		_ = s.topic.Publish("orders", named("a", "{}")) // returns when the topic closes
	}()
	<-s.failed // Retry waits an hour now, unless the subscriber closes
	if err := s.router.Close(); err != nil {
		t.Fatal(err)
	}
	<-published
	s.wantAttempts("a", 1)
	if n := len(s.poison.got); n != 0 {
		t.Errorf("a shutdown sent %d messages to the poison topic: %q", n,
			s.poison.got[0].Metadata[wmmw.ReasonForPoisonedKey])
	}
}
