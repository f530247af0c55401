package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/internal/suite/redissuite"
	"github.com/watermill-envelope/envelope/transport/redispubsub"
)

// TestReconnect restarts Redis in good order.
func TestReconnect(t *testing.T) {
	own := ownServer(t)
	suite.Reconnect(t, redissuite.Streams(own.Addr(), redissuite.StreamsOptions{}), own)
}

// With appendonly and appendfsync always a kill loses nothing whose Publish returned nil, and
// doubles no more than what was in flight: a message of each publisher, whose answer was lost,
// and the one of the consumer, whose acknowledgement was.
func TestKilledUnderLoad(t *testing.T) {
	const publishers = 20 // of the flow
	own := ownServer(t)
	suite.KilledUnderLoad(t, redissuite.Streams(own.Addr(), redissuite.StreamsOptions{}), own, publishers+1)
}

// A subscriber that is too slow for what comes is cut off by Redis, says so, and is back.
func TestSlowSubscriber(t *testing.T) {
	ctx := suite.Context(t)
	own := ownServer(t, "--client-output-buffer-limit", "pubsub 4mb 1mb 1")
	var log suite.LogBook
	b := redissuite.PubSub(own.Addr(), redissuite.PubSubOptions{
		Logger: log.Logger(), Subscriber: redispubsub.SubscriberConfig{Buffer: 1},
	})
	pub, topic := b.Publisher(t), t.Name()
	messages, err := b.Subscriber(t, "").Subscribe(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 512<<10)
	for i := 0; ; i++ { // nobody reads
		err := pub.Publish(topic, message.NewMessage(fmt.Sprint(i), body))
		if errors.Is(err, redispubsub.ErrNoSubscribers) {
			break
		}
		if err != nil || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
	}
	before := 0
	for { // what was on its way comes, then there is a gap, then everything again
		done := make(chan error, 1)
		go func() { done <- pub.Publish(topic, message.NewMessage("after", []byte("x"))) }()
		var msg *message.Message
		select {
		case msg = <-messages:
		case <-time.After(50 * time.Millisecond):
		}
		if err := <-done; err != nil && !errors.Is(err, redispubsub.ErrNoSubscribers) {
			t.Fatal(err)
		}
		if msg == nil {
			if ctx.Err() != nil {
				t.Fatal(ctx.Err())
			}
			continue
		}
		msg.Ack()
		if msg.UUID == "after" {
			break
		}
		if msg.UUID != fmt.Sprint(before) {
			t.Errorf("got %s, want %d", msg.UUID, before)
		}
		before++
	}
	if before == 0 || !strings.Contains(log.String(), "was interrupted") {
		t.Errorf("%d messages came before the gap; logged %s", before, log.String())
	}
}

// A Redis that hangs, and keeps its connections open, is noticed, and the subscription is back
// when it goes on.
func TestPause(t *testing.T) {
	ctx := suite.Context(t)
	own := ownServer(t)
	var log suite.LogBook
	b := redissuite.PubSub(own.Addr(), redissuite.PubSubOptions{
		Logger: log.Logger(), Subscriber: redispubsub.SubscriberConfig{PingInterval: 100 * time.Millisecond},
	})
	pub, topic := b.Publisher(t), t.Name()
	messages, err := b.Subscriber(t, "").Subscribe(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Pause(); err != nil {
		t.Fatal(err)
	}
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for !strings.Contains(log.String(), "does not answer") {
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
	if err := own.Resume(); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(log.String(), "subscribed again") {
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
	if err := pub.Publish(topic, message.NewMessage("after", []byte("x"))); err != nil {
		t.Fatal(err)
	}
	msg := <-messages
	msg.Ack()
	if msg.UUID != "after" {
		t.Errorf("got %s", msg.UUID)
	}
}

// Nothing is left running after Close: not after traffic, an outage, nor a context that ended.
func TestNoGoroutineIsLeft(t *testing.T) {
	own := ownServer(t)
	ignore := goleak.IgnoreCurrent()
	t.Run("traffic", func(t *testing.T) {
		b := redissuite.PubSub(own.Addr(), redissuite.PubSubOptions{AllowNoSubscribers: true})
		pub, sub := b.Publisher(t), b.Subscriber(t, "")
		ctx, cancel := context.WithCancel(suite.Context(t))
		_, err := sub.Subscribe(ctx, "ended")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		messages, err := sub.Subscribe(suite.Context(t), "closed")
		if err != nil {
			t.Fatal(err)
		}
		if err := pub.Publish("closed", message.NewMessage("1", nil), message.NewMessage("2", nil), message.NewMessage("3", nil)); err != nil {
			t.Fatal(err)
		}
		(<-messages).Ack()
		if err := own.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(sub.Close(), pub.Close()); err != nil {
			t.Fatal(err)
		}
	})
	goleak.VerifyNone(t, ignore)
}
