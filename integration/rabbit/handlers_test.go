package rabbit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/bus/amqpwire"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// serve runs a handler of the queue in a router until the test ends.
func serve(t *testing.T, sub message.Subscriber, queue string, handler message.NoPublishHandlerFunc) {
	t.Helper()
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: suite.Timeout}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(rabbitmq.Middleware)
	router.AddConsumerHandler("handler", queue, sub, handler)
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		if err := errors.Join(router.Close(), <-ended); err != nil {
			t.Error(err)
		}
	})
	<-router.Running()
}

// What a handler does with the message of this name, and how many attempts it gets. The
// message after it is always handled.
func TestHandlersThatFail(t *testing.T) {
	for _, tt := range []struct {
		name     string
		handler  func(msg *message.Message, released <-chan struct{}) error
		timeout  time.Duration
		attempts int64
	}{
		{
			"fails for ever",
			func(*message.Message, <-chan struct{}) error { return errHandler },
			0, 3,
		},
		{
			"panics",
			func(*message.Message, <-chan struct{}) error { panic("out of range") },
			0, 3,
		},
		{
			"blocks past its context",
			func(msg *message.Message, released <-chan struct{}) error {
				<-msg.Context().Done()
				<-released
				return nil
			},
			50 * time.Millisecond, 3,
		},
		{
			"knows no such type",
			bus0(bus.Mux{}),
			0, 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := suite.Context(t)
			q := queue(t)
			dead := q + ".dead"
			released := make(chan struct{})
			sub := subscriber(t, rabbitmq.SubscriberConfig{
				MaxAttempts: 3, DeadLetterQueue: dead, HandlerTimeout: tt.timeout, Unmarshaler: amqpwire.Marshaler{},
			})
			handled := make(chan string, 10)
			serve(t, sub, q, func(msg *message.Message) error {
				if string(msg.Payload) == "good" {
					handled <- msg.UUID
					return nil
				}
				return tt.handler(msg, released)
			})
			t.Cleanup(func() { close(released) }) // before the router is closed
			channel := suite.AMQPChannel(t, server.URL())
			for _, body := range []string{"bad", "good"} {
				suite.AMQPPublish(ctx, t, channel, "", q, amqp.Publishing{
					MessageId: bus.NewID().String(), Type: "orders.placed", Body: []byte(body),
				})
			}
			select {
			case <-handled:
			case <-ctx.Done():
				t.Fatal("the message after it is not handled")
			}
			d := take(ctx, t, channel, dead)
			if string(d.Body) != "bad" || d.Headers[amqpwire.HeaderAttempts] != tt.attempts {
				t.Errorf("dead is %q after %v attempts, want %d", d.Body, d.Headers[amqpwire.HeaderAttempts], tt.attempts)
			}
		})
	}
}

// bus0 is a mux as a handler that produces nothing.
func bus0(m bus.Mux) func(*message.Message, <-chan struct{}) error {
	return func(msg *message.Message, _ <-chan struct{}) error {
		_, err := m.Handle(msg)
		return err
	}
}

// The context of a message ends with it, says why it ended, and knows the attempt.
func TestMessageContext(t *testing.T) {
	ctx := suite.Context(t)
	q := queue(t)
	type key struct{}
	in, err := subscriber(t, rabbitmq.SubscriberConfig{HandlerTimeout: 50 * time.Millisecond, MaxAttempts: 2}).Subscribe(
		context.WithValue(ctx, key{}, "value"), q)
	if err != nil {
		t.Fatal(err)
	}
	if err := publisher(t, rabbitmq.PublisherConfig{}).Publish(q, messages(1)...); err != nil {
		t.Fatal(err)
	}
	late := receive(ctx, t, in)
	if late.Context().Value(key{}) != "value" {
		t.Error("a value of the subscription's context is missing")
	}
	<-late.Context().Done()
	if err := context.Cause(late.Context()); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the context ended with %v", err)
	}
	late.Ack() // too late: the attempt has failed
	again := receive(ctx, t, in)
	if again.UUID != late.UUID || rabbitmq.Attempt(again.Context()) != 2 {
		t.Errorf("got %s, attempt %d", again.UUID, rabbitmq.Attempt(again.Context()))
	}
	again.Ack()
	<-again.Context().Done()
}

// As many messages are handled at once as Concurrency says, and no more.
func TestConcurrency(t *testing.T) {
	ctx := suite.Context(t)
	q := queue(t)
	const n, concurrency = 200, 4
	if err := publisher(t, rabbitmq.PublisherConfig{}).Publish(q, messages(n)...); err != nil {
		t.Fatal(err)
	}
	running := make(chan struct{}, concurrency)
	full := make(chan struct{})
	done := make(chan struct{}, n)
	serve(t, subscriber(t, rabbitmq.SubscriberConfig{Concurrency: concurrency}), q, func(*message.Message) error {
		select {
		case running <- struct{}{}:
		default:
			t.Error("one too many")
		}
		if len(running) == concurrency {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		select {
		case <-full: // the first ones wait for each other
		case <-ctx.Done():
			t.Error("not so many at once")
		}
		<-running
		done <- struct{}{}
		return nil
	})
	for i := range n {
		select {
		case <-done:
		case <-ctx.Done():
			t.Fatalf("%d of %d handled", i, n)
		}
	}
}
