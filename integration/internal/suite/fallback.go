package suite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// Opened counts what a marshaler observed. It is a marshaler.Observer.
type Opened struct {
	mu        sync.Mutex
	fallback  int
	malformed map[envelope.Code]int
}

// Fallback counts a message that the Fallback read.
func (o *Opened) Fallback(string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fallback++
}

// Malformed counts a message that cannot be read.
func (o *Opened) Malformed(_ string, code envelope.Code) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.malformed == nil {
		o.malformed = map[envelope.Code]int{}
	}
	o.malformed[code]++
}

// Fallbacks returns how many messages the Fallback read.
func (o *Opened) Fallbacks() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fallback
}

// A ledger is what a group of consumers handled, by message UUID.
type ledger struct {
	mu     sync.Mutex
	bodies map[string]string
	by     map[string]int // messages per consumer
	failed error
	news   chan struct{}
}

func newLedger() *ledger {
	return &ledger{bodies: map[string]string{}, by: map[string]int{}, news: make(chan struct{}, 1)}
}

func (l *ledger) handler(consumer string) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if before, ok := l.bodies[msg.UUID]; ok && before != string(msg.Payload) {
			l.failed = fmt.Errorf("message %s was handled as %q and as %q", msg.UUID, before, msg.Payload)
		}
		l.bodies[msg.UUID] = string(msg.Payload)
		l.by[consumer]++
		select {
		case l.news <- struct{}{}:
		default:
		}
		return nil
	}
}

// handledBy returns how many messages a consumer handled.
func (l *ledger) handledBy(consumer string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[consumer]
}

// until waits until done is true of the ledger.
func (l *ledger) until(ctx context.Context, t testing.TB, what string, done func(handled int, by map[string]int) bool) {
	t.Helper()
	for {
		l.mu.Lock()
		ok, n := done(len(l.bodies), l.by), len(l.bodies)
		l.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-l.news:
		case <-ctx.Done():
			t.Fatalf("%s: %d messages handled: %v", what, n, ctx.Err())
		}
	}
}

// consumer runs a router for one member of the group. Stop ends it and waits.
func consumer(ctx context.Context, t testing.TB, b Broker, group, topic string, handler message.NoPublishHandlerFunc, middlewares ...message.HandlerMiddleware) (stop func()) {
	t.Helper()
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: Timeout}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(middlewares...)
	router.AddConsumerHandler("flow", topic, initialized(t, b.NewSubscriber(t, group), topic), handler)
	return start(ctx, t, router)
}

// initialized returns sub when it has made what the topic needs: messages that are published
// from now on are there for it.
func initialized(t testing.TB, sub message.Subscriber, topic string) message.Subscriber {
	t.Helper()
	if init, ok := sub.(message.SubscribeInitializer); ok { // the topic has the partitions that were asked for
		if err := init.SubscribeInitialize(topic); err != nil {
			t.Fatal(err)
		}
	}
	return sub
}

// start runs a router. Stop ends it and waits; so does the end of the test.
func start(ctx context.Context, t testing.TB, router *message.Router) (stop func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- router.Run(context.WithoutCancel(ctx)) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			if err := errors.Join(router.Close(), <-done); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	select {
	case <-router.Running():
	case <-ctx.Done():
		t.Fatal("the router did not start: ", ctx.Err())
	}
	return stop
}

// Rollover moves a live topic to our format as the documentation says: consumers first with
// Fallback, then producers. stock is the broker with the marshaler that was used until now,
// ours the one with our marshaler, that one as its Fallback, and opened as its Observer. It checks that
// both versions work beside each other in one group, that every body is handled exactly as
// it was sent, that none of them is poisoned, and that an envelope of ours that was damaged is.
func Rollover(t *testing.T, stock, ours Broker, opened *Opened, peer Peer) {
	ctx := Context(t)
	topic, poisonTopic := topicName(t, "live"), topicName(t, "poison")
	n := max(40, Count(1000)) // of each format
	poisoned := peer.Watch(ctx, t, poisonTopic)
	old, novel := stock.Publisher(t), ours.Publisher(t)

	sent := map[string]string{}
	publish := func(pub message.Publisher, format string, i int) {
		t.Helper()
		odd := "\x00\xff"
		if _, ok := peer.(TextPeer); ok && format == "stock" {
			odd = "\r\nü"
		}
		msg := message.NewMessage(envelope.NewID(), fmt.Appendf(nil, "%s %d %s{\"id\":\"%d\"}", format, i, odd, i))
		msg.Metadata.Set("number", fmt.Sprint(i))
		sent[msg.UUID] = string(msg.Payload)
		if err := pub.Publish(topic, msg); err != nil {
			t.Fatal(err)
		}
	}

	l := newLedger()
	stopOld := consumer(ctx, t, stock, "rolling", topic, l.handler("old"))
	publish(old, "stock", 0)
	l.until(ctx, t, "the old consumer alone", func(_ int, by map[string]int) bool { return by["old"] > 0 })

	queue, err := wmmw.PoisonQueueWithFilter(novel, poisonTopic, hookmw.ShouldPoison)
	if err != nil {
		t.Fatal(err)
	}
	consumer(ctx, t, ours, "rolling", topic, l.handler("new"), queue, hookmw.Malformed{}.Middleware)
	for i := 1; i < n/2; i++ { // both versions in one group, producers still old
		publish(old, "stock", i)
	}
	for i := n; l.handledBy("new") == 0; i++ { // until the new one has its share
		if ctx.Err() != nil {
			t.Fatal("the new consumer was given nothing: ", ctx.Err())
		}
		publish(old, "stock", i)
	}
	l.until(ctx, t, "both versions", func(handled int, _ map[string]int) bool { return handled == len(sent) })
	stopOld()
	for i := n / 2; i < n; i++ { // producers roll over: both formats interleaved
		publish(novel, "ours", 2*i)
		publish(old, "stock", i)
		publish(novel, "ours", 2*i+1)
	}
	l.until(ctx, t, "both formats", func(handled int, _ map[string]int) bool { return handled == len(sent) })

	peer.Put(ctx, t, topic, Raw{Body: Broken("ours"), Headers: []Pair{{envelope.MetadataVersion, "1"}}})
	if got := poisoned(1)[0]; string(got.Body) != string(Broken("ours")) {
		t.Errorf("the poison topic has %q, want only the damaged envelope", got.Body)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		t.Error(l.failed)
	}
	for id, body := range sent {
		if l.bodies[id] != body {
			t.Errorf("message %s was handled as %q, want %q", id, l.bodies[id], body)
		}
	}
	if len(l.bodies) != len(sent) {
		t.Errorf("%d messages were handled, want %d", len(l.bodies), len(sent))
	}
	if got := opened.Fallbacks(); got < n-n/2 {
		t.Errorf("%d messages were counted as read by Fallback, want at least the %d that came after the old consumer was gone", got, n-n/2)
	}
}
