package rabbit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// Closing lets a running handler finish, and gives back what no handler had.
func TestCloseFinishes(t *testing.T) {
	ctx := suite.Context(t)
	q := queue(t)
	const n = 10
	if err := publisher(t, rabbitmq.PublisherConfig{}).Publish(q, messages(n)...); err != nil {
		t.Fatal(err)
	}
	sub := subscriber(t, rabbitmq.SubscriberConfig{CloseTimeout: suite.Timeout})
	in, err := sub.Subscribe(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	channel := suite.AMQPChannel(t, server.URL())
	msg := receive(ctx, t, in)
	until(ctx, t, "all are prefetched", func() bool { return count(t, channel, q) == 0 })
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- sub.Close() }()
	}
	until(ctx, t, "the consumer is gone", func() bool {
		i, err := channel.QueueDeclarePassive(q, true, false, false, false, nil)
		return err == nil && i.Consumers == 0
	})
	if err := msg.Context().Err(); err != nil {
		t.Errorf("the handler's context ended with %v", err)
	}
	select {
	case err := <-closed:
		t.Errorf("Close did not wait for the handler: %v", err)
		closed <- err
	default:
	}
	msg.Ack()
	if err := errors.Join(<-closed, <-closed); err != nil {
		t.Error(err)
	}
	if _, open := <-in; open {
		t.Error("a message was handed out after the end")
	}
	until(ctx, t, "the rest is back", func() bool { return count(t, channel, q) == n-1 })
	if _, err := sub.Subscribe(ctx, q); !errors.Is(err, rabbitmq.ErrClosed) {
		t.Errorf("subscribed to what is closed: %v", err)
	}
}

// A handler that does not finish in time has its context ended and its message given back,
// with no attempt counted.
func TestCloseGivesUp(t *testing.T) {
	ctx := suite.Context(t)
	q := queue(t)
	if err := publisher(t, rabbitmq.PublisherConfig{}).Publish(q, messages(1)...); err != nil {
		t.Fatal(err)
	}
	sub := subscriber(t, rabbitmq.SubscriberConfig{CloseTimeout: time.Millisecond})
	in, err := sub.Subscribe(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	msg := receive(ctx, t, in)
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
	if context.Cause(msg.Context()) == nil {
		t.Error("the handler's context has not ended")
	}
	msg.Ack() // too late
	in, err = subscriber(t, rabbitmq.SubscriberConfig{}).Subscribe(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	again := receive(ctx, t, in)
	if again.UUID != msg.UUID || rabbitmq.Attempt(again.Context()) != 1 || !again.Ack() {
		t.Errorf("got %s, attempt %d", again.UUID, rabbitmq.Attempt(again.Context()))
	}
}

// The end of Subscribe's context is the end of the subscription alone.
func TestSubscribeContext(t *testing.T) {
	ctx := suite.Context(t)
	q := queues(t, server.URL(), ".1", ".2")
	sub := subscriber(t, rabbitmq.SubscriberConfig{})
	first, cancel := context.WithCancel(ctx)
	one, err := sub.Subscribe(first, q[0])
	if err != nil {
		t.Fatal(err)
	}
	two, err := sub.Subscribe(ctx, q[1])
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, open := <-one; open {
		t.Error("got a message from nowhere")
	}
	if err := publisher(t, rabbitmq.PublisherConfig{}).Publish(q[1], messages(1)...); err != nil {
		t.Fatal(err)
	}
	receive(ctx, t, two).Ack()
}

// A broker that hangs, on connections without heartbeats, which would find it out at some
// time: nothing waits for it for ever.
func TestBrokerThatHangs(t *testing.T) {
	t.Parallel()
	ctx := suite.Context(t)
	hanging, err := servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{Config: []string{"heartbeat = 0"}})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, hanging)
	q := queues(t, hanging.URL(), "")[0]
	uri := rabbitmq.URI(hanging.URL() + "?heartbeat=0")
	pub := publisher(t, rabbitmq.PublisherConfig{URI: uri, PublishTimeout: time.Second, MaxChannels: 1})
	sub := subscriber(t, rabbitmq.SubscriberConfig{URI: uri, CloseTimeout: time.Millisecond})
	in, err := sub.Subscribe(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.Publish(q, messages(1)...); err != nil {
		t.Fatal(err)
	}
	msg := receive(ctx, t, in)
	if err := hanging.Pause(); err != nil {
		t.Fatal(err)
	}
	err = pub.Publish(q, messages(1)...)
	if !errors.Is(err, rabbitmq.ErrUnconfirmed) || !errors.Is(err, bus.ErrTransport) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a publish that nobody answers: %v", err)
	}
	canceled, cancel := context.WithCancel(ctx)
	one := messages(1)[0]
	one.SetContext(canceled)
	result := make(chan error, 1)
	go func() { result <- pub.Publish(q, one) }()
	cancel()
	if err := <-result; err == nil {
		t.Error("a publish whose context ended is said to be confirmed")
	}
	msg.Nack() // its copy is not confirmed
	closed := make(chan error, 1)
	go func() { closed <- errors.Join(sub.Close(), pub.Close()) }()
	select {
	case err = <-closed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err := errors.Join(err, hanging.Resume()); err != nil {
		t.Error(err)
	}
}
