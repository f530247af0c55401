package marshaler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler"
)

// A source is a subscriber whose deliveries the test makes. Like a transport of the
// unfriendly sort, its Close waits until what it has begun to deliver is taken.
type source struct {
	out      chan *message.Message
	sending  sync.WaitGroup
	closed   int
	closeErr error
	abandons bool // Close leaves the channel open
}

func newSource() *source { return &source{out: make(chan *message.Message)} }

func (s *source) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	return s.out, nil
}

func (s *source) deliver(msg *message.Message) {
	s.sending.Go(func() { s.out <- msg })
}

func (s *source) Close() error {
	s.closed++
	s.sending.Wait()
	if !s.abandons {
		close(s.out)
	}
	return s.closeErr
}

func subscribe(t *testing.T, inner message.Subscriber, o marshaler.Options) (message.Subscriber, <-chan *message.Message) {
	t.Helper()
	sub, err := marshaler.WrapSubscriber(inner, o)
	if err != nil {
		t.Fatal(err)
	}
	out, err := sub.Subscribe(t.Context(), "hooks")
	if err != nil {
		t.Fatal(err)
	}
	return sub, out
}

// closed checks that nothing is left to wait for: the channel is closed already.
func closed(t *testing.T, out <-chan *message.Message) {
	t.Helper()
	select {
	case msg, ok := <-out:
		if ok {
			t.Errorf("the channel is open and delivers %v", msg)
		}
	default:
		t.Error("the channel is open")
	}
}

func mustClose(t *testing.T, c interface{ Close() error }) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// bubble runs f where time stands still and fails when a goroutine that f started is left.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestWrapSubscriber(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type key struct{}
		inner := newSource()
		sub, out := subscribe(t, inner, marshaler.Options{})
		received := hooktest.With(message.NewMessage("outer", []byte(hookJSON)), "user", "u", "ankusa_id", "evil", "content_type", "application/json")
		received.SetContext(context.WithValue(context.Background(), key{}, "kept"))
		before := maps.Clone(received.Metadata)
		inner.deliver(received)

		msg := <-out
		want := hook().Metadata
		want["user"] = "u"
		if msg.UUID != hookID || string(msg.Payload) != "hello" || !maps.Equal(msg.Metadata, want) {
			t.Errorf("got %s %q %v, want %v", msg.UUID, msg.Payload, msg.Metadata, want)
		}
		if msg == received || msg.Context().Value(key{}) != "kept" {
			t.Error("not a new message with the same context")
		}
		clear(msg.Payload)
		clear(msg.Metadata)
		if received.UUID != "outer" || string(received.Payload) != hookJSON || !maps.Equal(received.Metadata, before) {
			t.Errorf("the received message became %s %q %v", received.UUID, received.Payload, received.Metadata)
		}
		mustClose(t, sub)
		closed(t, out)
	})
}

func TestAnswersAreHandedBack(t *testing.T) {
	for name, answer := range map[string]func(*message.Message) bool{
		"ack": (*message.Message).Ack, "nack": (*message.Message).Nack,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				inner := newSource()
				sub, out := subscribe(t, inner, marshaler.Options{})
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var received []*message.Message
				for range 3 { // the later ones do not wait for an answer to the first
					msg := message.NewMessage("outer", []byte(hookJSON))
					msg.SetContext(ctx)
					received = append(received, msg)
					inner.deliver(msg)
					opened := <-out
					defer func() { opened.Nack() }()
					if len(received) == 3 {
						cancel() // as the publisher's context may be, long before the handler is done
						synctest.Wait()
						answer(opened)
					}
				}
				select {
				case <-received[2].Acked():
					if name != "ack" {
						t.Error("acked")
					}
				case <-received[2].Nacked():
					if name != "nack" {
						t.Error("nacked")
					}
				}
				synctest.Wait()
				for _, msg := range received[:2] {
					select {
					case <-msg.Acked():
						t.Error("acked, without an answer")
					case <-msg.Nacked():
						t.Error("nacked, without an answer")
					default:
					}
				}
				mustClose(t, sub)
			})
		})
	}
}

// After a Nack the transport delivers its own copy again, which is opened like the first.
func TestRedelivery(t *testing.T) {
	bubble(t, func(t *testing.T) {
		channel := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
		pub := wrap(t, channel, marshaler.Options{Source: "orders"})
		sub, out := subscribe(t, channel, marshaler.Options{})
		if err := pub.Publish("hooks", message.NewMessage("m-1", []byte("body"))); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			msg := <-out
			if msg.UUID != "m-1" || string(msg.Payload) != "body" || envelope.IsMalformed(msg) {
				t.Errorf("got %s %q %v", msg.UUID, msg.Payload, msg.Metadata)
			}
			msg.Payload = []byte("changed")
			msg.Metadata = nil
			msg.Nack()
		}
		(<-out).Ack()
		mustClose(t, sub)
		mustClose(t, pub)
		closed(t, out)
	})
}

func TestClose(t *testing.T) {
	sealed := func() *message.Message { return message.NewMessage("outer", []byte(hookJSON)) }
	tests := map[string]func(t *testing.T, inner *source, out <-chan *message.Message){
		"nothing came":        func(*testing.T, *source, <-chan *message.Message) {},
		"nobody reads":        func(_ *testing.T, inner *source, _ <-chan *message.Message) { inner.deliver(sealed()) },
		"many wait":           func(_ *testing.T, inner *source, _ <-chan *message.Message) { deliverMany(inner, sealed) },
		"nobody answers":      func(_ *testing.T, inner *source, out <-chan *message.Message) { inner.deliver(sealed()); <-out },
		"one waits behind it": func(_ *testing.T, inner *source, out <-chan *message.Message) { deliverMany(inner, sealed); <-out },
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				inner := newSource()
				sub, out := subscribe(t, inner, marshaler.Options{})
				prepare(t, inner, out)
				synctest.Wait()
				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() { mustClose(t, sub) })
				}
				wg.Wait()
				closed(t, out)
				if inner.closed != 1 {
					t.Errorf("inner closed %d times", inner.closed)
				}
				if out, err := sub.Subscribe(t.Context(), "hooks"); !errors.Is(err, marshaler.ErrClosed) || out != nil {
					t.Errorf("Subscribe after Close: %v", err)
				}
			})
		})
	}
}

func deliverMany(inner *source, sealed func() *message.Message) {
	for range 20 {
		inner.deliver(sealed())
	}
}

// A handler may close the subscriber that it is called by, with its message unanswered.
func TestCloseFromAHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		channel := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
		sub, out := subscribe(t, channel, marshaler.Options{})
		if err := wrap(t, channel, marshaler.Options{}).Publish("hooks", hook(), hook()); err != nil {
			t.Fatal(err)
		}
		<-out
		mustClose(t, sub)
		closed(t, out)
	})
}

// Close ends also when the inner subscriber fails to, and leaves its channels open.
func TestCloseFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := newSource()
		inner.abandons, inner.closeErr = true, errors.New("no broker")
		sub, out := subscribe(t, inner, marshaler.Options{})
		for range 2 {
			if err := sub.Close(); !errors.Is(err, inner.closeErr) {
				t.Errorf("Close: %v", err)
			}
		}
		closed(t, out)
	})
}

func TestSubscriptionContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		channel := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
		sub, err := marshaler.WrapSubscriber(channel, marshaler.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		out, err := sub.Subscribe(ctx, "hooks")
		if err != nil {
			t.Fatal(err)
		}
		if err := wrap(t, channel, marshaler.Options{}).Publish("hooks", hook(), hook()); err != nil {
			t.Fatal(err)
		}
		unanswered := <-out
		synctest.Wait() // the second one waits to be taken, and nobody does
		cancel()
		synctest.Wait()
		closed(t, out)
		if unanswered.Context().Err() == nil {
			t.Error("the context of a message outlives its subscription")
		}
		mustClose(t, sub)
	})
}

func TestSubscribeFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		channel := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
		sub, err := marshaler.WrapSubscriber(channel, marshaler.Options{})
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, channel)
		if out, err := sub.Subscribe(t.Context(), "hooks"); err == nil || out != nil {
			t.Errorf("got %v, %v", out, err)
		}
		mustClose(t, sub)
	})
}

func TestMalformedAndPassThrough(t *testing.T) {
	tests := []struct {
		rule        string
		received    *message.Message
		passThrough bool
		payload     string
		metadata    message.Metadata
		seen        string
	}{
		{
			"without PassThrough anything else is malformed",
			hooktest.With(message.NewMessage("u-1", []byte("hello")), "user", "u"), false, "",
			message.Metadata{
				"ankusa_id": "u-1", "envelope_malformed": "invalid_json", "envelope_raw": "hello", "user": "u",
			},
			"malformed hooks invalid_json",
		},
		{
			"with it, it is delivered as it is, and nothing of ours in it is believed",
			hooktest.With(message.NewMessage("u-1", []byte("hello")), "user", "u", "ankusa_id", "evil", "Envelope_Redeemed", "true"), true, "hello",
			message.Metadata{"envelope_fallback": "true", "user": "u"},
			"fallback hooks",
		},
		{
			"a broken message of ours is malformed all the same",
			hooktest.With(message.NewMessage("u-1", []byte("hello")), "ankusa_message_version", "1"), true, "",
			message.Metadata{
				"ankusa_id": "u-1", "envelope_malformed": "invalid_json", "envelope_raw": "hello", "ankusa_message_version": "1",
			},
			"malformed hooks invalid_json",
		},
		{
			"an empty message has no metadata",
			&message.Message{}, true, "",
			message.Metadata{"envelope_fallback": "true"},
			"fallback hooks",
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				inner, count := newSource(), &counter{}
				sub, out := subscribe(t, inner, marshaler.Options{PassThrough: tt.passThrough, Observer: count})
				before := maps.Clone(tt.received.Metadata)
				payload := string(tt.received.Payload)
				inner.deliver(tt.received)
				msg := <-out
				if string(msg.Payload) != tt.payload || msg.UUID != tt.received.UUID && tt.received.UUID != "" || !maps.Equal(msg.Metadata, tt.metadata) {
					t.Errorf("got %s %q %v, want %q %v", msg.UUID, msg.Payload, msg.Metadata, tt.payload, tt.metadata)
				}
				if got := strings.Join(count.seen, ", "); got != tt.seen {
					t.Errorf("counted %q, want %q", got, tt.seen)
				}
				clear(msg.Payload)
				if string(tt.received.Payload) != payload || !maps.Equal(tt.received.Metadata, before) {
					t.Errorf("the received message became %q %v", tt.received.Payload, tt.received.Metadata)
				}
				mustClose(t, sub)
			})
		})
	}
}

// A live topic of a wrapped transport: stock and sealed messages, in any order.
func TestPassThroughOnALiveTopic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const each = 1000
		channel := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
		sub, out := subscribe(t, channel, marshaler.Options{PassThrough: true})
		pub := wrap(t, channel, marshaler.Options{Source: "orders"})
		go func() {
			for i := range each {
				for j, p := range []message.Publisher{channel, pub} {
					id := fmt.Sprintf("%d-%d", j, i)
					if err := p.Publish("hooks", message.NewMessage(id, []byte(id))); err != nil {
						t.Error(err)
					}
				}
			}
		}()
		for i := range each {
			for j := range 2 {
				msg := <-out
				if id := fmt.Sprintf("%d-%d", j, i); msg.UUID != id || string(msg.Payload) != id {
					t.Errorf("got %s %q, want %s", msg.UUID, msg.Payload, id)
				}
				if stock := msg.Metadata["envelope_fallback"] == "true"; stock != (j == 0) {
					t.Errorf("%s: fallback %v", msg.UUID, stock)
				}
				msg.Ack()
			}
		}
		mustClose(t, sub)
		closed(t, out)
	})
}

// initSource is a source that can be initialized.
type initSource struct {
	*source
	topics []string
	err    error
	panics any
}

func (s *initSource) SubscribeInitialize(topic string) error {
	s.topics = append(s.topics, topic)
	if s.panics != nil {
		panic(s.panics)
	}
	return s.err
}

func TestSubscribeInitialize(t *testing.T) {
	plain, err := marshaler.WrapSubscriber(newSource(), marshaler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := plain.(message.SubscribeInitializer); ok {
		t.Error("has what the inner subscriber has not")
	}
	inner := &initSource{source: newSource(), err: errors.New("no such topic")}
	sub, err := marshaler.WrapSubscriber(inner, marshaler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	init, ok := sub.(message.SubscribeInitializer)
	if !ok {
		t.Fatal("has not what the inner subscriber has")
	}
	if len(inner.topics) != 0 {
		t.Error("initialized without being asked to")
	}
	if err := init.SubscribeInitialize("hooks"); !errors.Is(err, inner.err) || inner.topics[0] != "hooks" {
		t.Errorf("error %v, topics %q", err, inner.topics)
	}
	inner.panics = "nil pointer"
	if err := init.SubscribeInitialize("hooks"); err == nil || !strings.Contains(err.Error(), "nil pointer") {
		t.Errorf("a panic became %v", err)
	}
}
