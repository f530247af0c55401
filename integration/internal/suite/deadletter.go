package suite

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// Broken is a message that cannot be read, as a foreign producer may send it: an envelope
// that was cut short.
func Broken(number string) []byte {
	return []byte(`{"v":1,"id":"broken-` + number + `","source_id":"s`)
}

// errOwn is the failure of a flow's handler, which quotes a byte of the body.
var errOwn = errors.New("the handler's own failure on \xff")

// ownRetries is how often Retry calls a failing handler again.
const ownRetries = 2

// A stack is a router with Watermill's PoisonQueue and Retry and our gate, in the order that
// the documentation shows.
type stack struct {
	mu      sync.Mutex
	handled []*message.Message
	calls   map[string]int // of the handler, by payload
	seen    chan struct{}  // one for each handled message
}

// run starts the router; it is closed with the test. The handler fails for ever for the
// payload "fails".
func (s *stack) run(ctx context.Context, t testing.TB, sub message.Subscriber, topic string, poison message.Publisher, poisonTopic string) {
	t.Helper()
	s.calls, s.seen = map[string]int{}, make(chan struct{}, 1024)
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: Timeout}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	queue, err := wmmw.PoisonQueueWithFilter(poison, poisonTopic, hookmw.ShouldPoison)
	if err != nil {
		t.Fatal(err)
	}
	retry := wmmw.Retry{MaxRetries: ownRetries, InitialInterval: 10 * time.Millisecond, ShouldRetry: hookmw.ShouldRetry}
	router.AddMiddleware(queue, retry.Middleware, hookmw.Malformed{}.Middleware)
	router.AddConsumerHandler("flow", topic, sub, func(msg *message.Message) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls[string(msg.Payload)]++
		if string(msg.Payload) == "fails" {
			return errOwn
		}
		s.handled = append(s.handled, msg)
		s.seen <- struct{}{}
		return nil
	})
	start(ctx, t, router)
}

// wait returns once the handler took n more messages.
func (s *stack) wait(ctx context.Context, t testing.TB, n int) {
	t.Helper()
	for i := range n {
		select {
		case <-s.seen:
		case <-ctx.Done():
			t.Fatalf("the handler took %d of %d messages: %v", i, n, ctx.Err())
		}
	}
}

// DeadLetters checks that a message that cannot be read goes to the poison topic once, with
// its bytes, its key and the reason, that the consumer goes on, and that a message whose
// handler fails goes there after the retries.
func DeadLetters(t *testing.T, b Broker, peer Peer) {
	ctx := Context(t)
	topic, poisonTopic := topicName(t, "in"), topicName(t, "poison")
	var s stack
	poisoned := peer.Watch(ctx, t, poisonTopic)
	pub := b.Publisher(t)
	s.run(ctx, t, b.Subscriber(t, "dead-letters"), topic, pub, poisonTopic)

	foreign := Raw{Key: "lane/7", ID: "foreign-1", Body: Broken("1"), Headers: []Pair{{"x-producer", "legacy"}}}
	peer.Put(ctx, t, topic, foreign)
	fails := message.NewMessage(envelope.NewID(), []byte("fails"))
	good := message.NewMessage(envelope.NewID(), []byte("good"))
	if err := pub.Publish(topic, fails, good); err != nil {
		t.Fatal(err)
	}
	s.wait(ctx, t, 1)
	peer.Put(ctx, t, topic, Raw{Body: Broken("2")}) // the end of the poison topic: nothing else may come before it

	got := poisoned(3)
	if !bytes.Equal(got[0].Body, foreign.Body) {
		t.Errorf("the poison topic has %q, want the bytes as they came: %q", got[0].Body, foreign.Body)
	}
	if got[0].Key != foreign.Key && got[0].ID != foreign.ID {
		t.Errorf("the poisoned message has key %q and id %q, want %q or %q", got[0].Key, got[0].ID, foreign.Key, foreign.ID)
	}
	if v, _ := got[0].Header("x-producer"); v != "legacy" {
		t.Errorf("the poisoned message has headers %q, want those it came with", got[0].Headers)
	}
	if reason, _ := got[0].Header(wmmw.ReasonForPoisonedKey); !strings.Contains(reason, string(envelope.CodeInvalidJSON)) {
		t.Errorf("the reason is %q, want one with %s", reason, envelope.CodeInvalidJSON)
	}
	for _, h := range got[0].Headers {
		if strings.HasPrefix(h.Name, "envelope_") {
			t.Errorf("%s is memory only and was written", h.Name)
		}
	}
	e, err := envelope.ParseWire(got[1].Body)
	if err != nil {
		t.Fatalf("what the handler failed on is no envelope in the poison topic: %v", err)
	}
	if e.ID != fails.UUID || string(e.Body) != "fails" {
		t.Errorf("got the poisoned hook %s with body %q, want %s", e.ID, e.Body, fails.UUID)
	}
	reason, ok := got[1].Header(wmmw.ReasonForPoisonedKey)
	if !ok { // a transport may have no room beside the JSON
		reason = e.Metadata[wmmw.ReasonForPoisonedKey]
	}
	if !strings.Contains(reason, strings.ToValidUTF8(errOwn.Error(), "\uFFFD")) {
		t.Errorf("the reason is %q, want the handler's", reason)
	}
	if !bytes.Equal(got[2].Body, Broken("2")) {
		t.Errorf("the poison topic has %q after the two, want the last message", got[2].Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls["fails"] != 1+ownRetries || s.calls["good"] != 1 || len(s.calls) != 2 {
		t.Errorf("calls of the handler by payload: %v, want %d for fails and 1 for good", s.calls, 1+ownRetries)
	}
}

// An Outage is a server that can be stopped and started again with its data.
type Outage interface {
	Stop() error
	Start(ctx context.Context) error
}

// PoisonOutage checks that an outage of the poison broker waits: nothing is acknowledged
// that is not stored, and when the broker is back the message arrives there.
func PoisonOutage(t *testing.T, b Broker, peer Peer, poison Broker, poisonPeer Peer, outage Outage) {
	ctx := Context(t)
	topic, poisonTopic := topicName(t, "in"), topicName(t, "poison")
	pub := &failures{Publisher: poison.Publisher(t), failed: make(chan struct{}, 1024)}
	poisonPeer.Keep(t, poisonTopic)
	if err := outage.Stop(); err != nil {
		t.Fatal(err)
	}
	var s stack
	s.run(ctx, t, b.Subscriber(t, "poison-outage"), topic, pub, poisonTopic)
	peer.Put(ctx, t, topic, Raw{Body: Broken("1")})
	for range 2 { // it fails, the message comes back, and it fails again
		select {
		case <-pub.failed:
		case <-ctx.Done():
			t.Fatal("the poison publisher did not fail: ", ctx.Err())
		}
	}
	if err := outage.Start(ctx); err != nil {
		t.Fatal(err)
	}
	poisoned := poisonPeer.Watch(ctx, t, poisonTopic)
	if got := poisoned(1)[0]; !bytes.Equal(got.Body, Broken("1")) {
		t.Errorf("the poison topic has %q, want the bytes as they came", got.Body)
	}
	if err := b.Publisher(t).Publish(topic, message.NewMessage(envelope.NewID(), []byte("good"))); err != nil {
		t.Fatal(err)
	}
	s.wait(ctx, t, 1)
}

// failures tells of each Publish that failed.
type failures struct {
	message.Publisher
	failed chan struct{}
}

func (f *failures) Publish(topic string, msgs ...*message.Message) error {
	err := f.Publisher.Publish(topic, msgs...)
	if err != nil {
		select {
		case f.failed <- struct{}{}:
		default:
		}
	}
	return err
}

// topicName is a topic of the test's own, and of this run of it.
func topicName(t testing.TB, suffix string) string {
	return strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()) + "." + envelope.NewID() + "." + suffix
}
