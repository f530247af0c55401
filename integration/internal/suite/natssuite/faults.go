package natssuite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// Deduplication checks by what is stored that nothing is taken for a duplicate that is none: a
// poison subject, a next step and a requeue lie in the stream that the messages come from, within
// the window of its deduplication. What a handler publishes that runs twice for one delivery is
// stored once.
func Deduplication(t *testing.T, addr string) {
	ctx, js := suite.Context(t), Context(t, addr)
	base := topicName(t, "d")
	in, next, poison := base+".in", base+".next", base+".poison"
	if _, err := js.AddStream(&nats.StreamConfig{Name: named(base), Subjects: []string{base + ".>"}, Storage: nats.FileStorage}); err != nil {
		t.Fatal(err)
	}
	b := JetStream(addr, Options{})
	pub := b.Publisher(t)
	poisonQueue, err := wmmw.PoisonQueueWithFilter(pub, poison, hookmw.ShouldPoison)
	if err != nil {
		t.Fatal(err)
	}
	const each, kinds = 10, 4
	var mu sync.Mutex
	runs, done := map[string]int{}, make(chan struct{})
	left := kinds * each
	h := func(msg *message.Message) error {
		mu.Lock()
		runs[msg.UUID]++
		run := runs[msg.UUID]
		mu.Unlock()
		finish := func() {
			mu.Lock()
			defer mu.Unlock()
			if left--; left == 0 {
				close(done)
			}
		}
		switch kind := string(msg.Payload); kind {
		case "poison":
			finish()
			return envelope.Permanent(errors.New("never"))
		case "next":
			defer finish()
			return pub.Publish(next, msg)
		case "requeue":
			if run == 1 {
				return pub.Publish(in, msg)
			}
			finish()
			return nil
		default: // published twice by one delivery, which is delivered twice
			if err := errors.Join(pub.Publish(next, msg), pub.Publish(next, msg)); err != nil {
				return err
			}
			if run == 1 {
				return envelope.Transient(errors.New("not yet"))
			}
			finish()
			return nil
		}
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: suite.Timeout}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(poisonQueue, hookmw.Malformed{}.Middleware)
	router.AddConsumerHandler("kinds", in, b.NewSubscriber(t, "kinds"), h)
	running := make(chan error, 1)
	go func() { running <- router.Run(context.WithoutCancel(ctx)) }()
	t.Cleanup(func() {
		if err := errors.Join(router.Close(), <-running); err != nil {
			t.Error(err)
		}
	})
	for n := range each {
		for _, kind := range []string{"poison", "next", "requeue", "twice"} {
			if err := pub.Publish(in, message.NewMessage(fmt.Sprintf("%s-%d", kind, n), []byte(kind))); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("%d messages are not done: %v", left, ctx.Err())
	}
	want := map[string]uint64{in: kinds*each + each, next: 2 * each, poison: each}
	for got := stored(t, js, named(base)); !maps.Equal(got, want); got = stored(t, js, named(base)) {
		// The poison queue publishes after the handler.
		select {
		case <-ctx.Done():
			t.Fatalf("stored are %v, want %v", got, want)
		case <-time.After(20 * time.Millisecond):
		}
		if got[in] > want[in] || got[next] > want[next] || got[poison] > want[poison] {
			t.Fatalf("stored are %v, want %v", got, want)
		}
	}
}

// CoreRestart checks that after a restart everything that is published from then on arrives.
func CoreRestart(t *testing.T, server Server) {
	ctx := suite.Context(t)
	b := Core(server.Addr(), Options{})
	topic := topicName(t, "core")
	messages, err := b.Subscriber(t, "").Subscribe(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	pub := b.Publisher(t)
	if err := server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	for back := false; !back; { // both sides are
		_ = pub.Publish(topic, message.NewMessage(envelope.NewID(), []byte("probe")))
		select {
		case msg := <-messages:
			msg.Ack()
			back = true
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
	n := suite.Count(2000)
	go func() {
		for i := range n {
			if err := pub.Publish(topic, message.NewMessage(fmt.Sprint(i), []byte("after"))); err != nil {
				t.Error(err)
			}
		}
	}()
	for i := 0; i < n; {
		select {
		case msg := <-messages:
			if string(msg.Payload) == "after" {
				if msg.UUID != fmt.Sprint(i) {
					t.Fatalf("message %s came, want %d", msg.UUID, i)
				}
				i++
			}
			msg.Ack()
		case <-ctx.Done():
			t.Fatalf("%d of %d messages came: %v", i, n, ctx.Err())
		}
	}
}
