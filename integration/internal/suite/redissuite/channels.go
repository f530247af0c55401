package redissuite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	hookmw "github.com/watermill-envelope/envelope/middleware"
	"github.com/watermill-envelope/envelope/transport/redispubsub"
)

// PubSubFlows runs Watermill's own suite and every flow of ours on channels.
func PubSubFlows(t *testing.T, s Servers) {
	for _, f := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"PubSub", func(t *testing.T) { pubSubSuite(t, s) }},
		{"Literal", func(t *testing.T) { PubSubLiteral(t, s.Addr) }},
		{"Foreign", func(t *testing.T) { PubSubForeign(t, s.Addr) }},
		{"DeadLetters", func(t *testing.T) { PubSubDeadLetters(t, s.Addr) }},
		{"Garbage", func(t *testing.T) {
			suite.Garbage(t, PubSub(s.Addr, PubSubOptions{}), &PubSubPeer{Addr: s.Addr}, putMessages(t, s.Addr))
		}},
		{"NoSubscribers", func(t *testing.T) { NoSubscribers(t, s.Addr) }},
		{"Restart", func(t *testing.T) { PubSubRestart(t, s.Own(t)) }},
		{"CloseUnderLoad", func(t *testing.T) { CloseUnderLoad(t, s.Addr) }},
	} {
		t.Run(f.name, f.run)
	}
}

// pubSubSuite runs those tests of Watermill's suite that ask for no more than a channel has:
// TestConsumerGroups, besides those that no broker without storage passes, wants a group to share
// what a channel gives to everybody.
//
// What is left to want of closing, nacks, contexts and restarts is in the flows beside this one
// and in the package's own tests.
func pubSubSuite(t *testing.T, s Servers) {
	b := PubSub(s.Addr, PubSubOptions{Subscriber: redispubsub.SubscriberConfig{CloseTimeout: time.Second}})
	suite.PubSubUnstored(t, b, tests.Features{
		// The suite forgives no duplicate, and there is none without an outage.
		ExactlyOnceDelivery:   true,
		RequireSingleInstance: true,
		GuaranteedOrder:       true,
		ForceShort:            s.Embedded,
	}, map[string]suite.UnstoredTest{
		"PublishSubscribe":                  tests.TestPublishSubscribe,
		"ConcurrentSubscribe":               tests.TestConcurrentSubscribe,
		"ConcurrentSubscribeMultipleTopics": tests.TestConcurrentSubscribeMultipleTopics,
		"ResendOnError":                     tests.TestResendOnError,
		"NoAck":                             tests.TestNoAck,
		"PublishSubscribeInOrder":           tests.TestPublishSubscribeInOrder,
		"PublisherClose":                    tests.TestPublisherClose,
		"Topic":                             tests.TestTopic,
		"MessageCtx":                        tests.TestMessageCtx,
	})
}

// PubSubLiteral checks what a client that is not Watermill is sent.
func PubSubLiteral(t *testing.T, addr string) {
	ctx := suite.Context(t)
	topic := topicName(t, "literal")
	got := (&PubSubPeer{Addr: addr}).Watch(ctx, t, topic)
	if err := PubSub(addr, PubSubOptions{}).Publisher(t).Publish(topic, full(), minimal()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		fmt.Sprintf(fullJSON, `"watermill_metadata":{"b-name":"grüße\u0000","content_type":"text/plain","correlation_id":"c-1"},`),
		minimalJSON,
	} {
		if raw := got(1)[0]; string(raw.Body) != want {
			t.Errorf("message %d is\n%s\nwant\n%s", i, raw.Body, want)
		}
	}
}

// receive returns the next message of ch.
func receive(ctx context.Context, t testing.TB, ch <-chan *message.Message, what string) *message.Message {
	t.Helper()
	select {
	case msg, ok := <-ch:
		if !ok {
			t.Fatalf("%s: the subscription ended", what)
		}
		return msg
	case <-ctx.Done():
		t.Fatalf("%s: %v", what, ctx.Err())
		return nil
	}
}

// PubSubForeign checks messages of a producer that is neither Watermill nor ours.
func PubSubForeign(t *testing.T, addr string) {
	ctx := suite.Context(t)
	topic := topicName(t, "foreign")
	messages, err := PubSub(addr, PubSubOptions{}).Subscriber(t, "").Subscribe(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	peer := &PubSubPeer{Addr: addr}
	body := func(members string) []byte {
		return []byte(`{"v":2,"id":"f","source_id":"s","received_at":1,"size":2,"body_base64":"aGk="` + members + `}`)
	}
	for _, c := range []struct {
		rule string
		body []byte
		want map[string]string // "" is absent
	}{
		{"minimal", body(""), map[string]string{"ankusa_id": "f", "ankusa_tenant_id": ""}},
		{"an unknown member", body(`,"future":[1]`), map[string]string{"ankusa_unknown": `{"future":[1]}`}},
		{
			"metadata, of which nothing of ours is believed",
			body(`,"watermill_metadata":{"a":"1","envelope_redeemed":"true","ankusa_claim":"x"}`),
			map[string]string{"a": "1", "envelope_redeemed": "", "ankusa_claim": ""},
		},
		{"bytes", []byte("\x00\xff\r\n"), map[string]string{"envelope_malformed": "invalid_json", "envelope_raw": "\x00\xff\r\n"}},
		{"nothing", []byte{}, map[string]string{"envelope_malformed": "invalid_json"}},
	} {
		peer.Put(ctx, t, topic, suite.Raw{Body: c.body})
		msg := receive(ctx, t, messages, c.rule)
		msg.Ack()
		if bad := c.want["envelope_malformed"] != ""; bad != envelope.IsMalformed(msg) || !bad && string(msg.Payload) != "hi" {
			t.Errorf("%s: got body %q, %v", c.rule, msg.Payload, msg.Metadata)
		}
		for name, value := range c.want {
			if got := msg.Metadata[name]; got != value {
				t.Errorf("%s: metadata %q is %q, want %q", c.rule, name, got, value)
			}
		}
	}
}

// PubSubDeadLetters checks that what cannot be read goes to a poison channel with its bytes,
// and what the handler fails on as an envelope with the reason, while the consumer goes on.
func PubSubDeadLetters(t *testing.T, addr string) {
	ctx := suite.Context(t)
	topic, poisonTopic := topicName(t, "in"), topicName(t, "poison")
	b, peer := PubSub(addr, PubSubOptions{}), &PubSubPeer{Addr: addr}
	poisoned := peer.Watch(ctx, t, poisonTopic)
	pub := b.Publisher(t)
	poison, err := wmmw.PoisonQueueWithFilter(pub, poisonTopic, hookmw.ShouldPoison)
	if err != nil {
		t.Fatal(err)
	}
	handled := make(chan string, 10)
	run(ctx, t, b.NewSubscriber(t, ""), topic, func(msg *message.Message) error {
		if string(msg.Payload) == "fails" {
			return envelope.Permanent(errors.New("no good"))
		}
		handled <- string(msg.Payload)
		return nil
	}, poison, hookmw.Malformed{}.Middleware)

	peer.Put(ctx, t, topic, suite.Raw{Body: suite.Broken("1")})
	if err := pub.Publish(topic, message.NewMessage(envelope.NewID(), []byte("fails")), message.NewMessage(envelope.NewID(), []byte("good"))); err != nil {
		t.Fatal(err)
	}
	got := poisoned(2)
	if !bytes.Equal(got[0].Body, suite.Broken("1")) {
		t.Errorf("the poison channel has %q, want the bytes as they came", got[0].Body)
	}
	e, err := envelope.ParseWire(got[1].Body)
	if err != nil || string(e.Body) != "fails" || e.Metadata[wmmw.ReasonForPoisonedKey] != "no good" {
		t.Errorf("the poison channel has %v, %v, want the hook with its reason", e, err)
	}
	select {
	case body := <-handled:
		if body != "good" {
			t.Errorf("handled %q", body)
		}
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
}

// run runs a router for one handler until the test is over.
func run(ctx context.Context, t testing.TB, sub message.Subscriber, topic string, h message.NoPublishHandlerFunc, mw ...message.HandlerMiddleware) {
	t.Helper()
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: suite.Timeout}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(mw...)
	router.AddConsumerHandler("flow", topic, sub, h)
	done := make(chan error, 1)
	go func() { done <- router.Run(context.WithoutCancel(ctx)) }()
	t.Cleanup(func() {
		if err := errors.Join(router.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-router.Running():
	case <-ctx.Done():
		t.Fatal("the router did not start: ", ctx.Err())
	}
}

// NoSubscribers checks that a message that nobody gets is an error, and a transient one, until
// somebody is there.
func NoSubscribers(t *testing.T, addr string) {
	ctx := suite.Context(t)
	topic := topicName(t, "empty")
	b := PubSub(addr, PubSubOptions{})
	pub := b.Publisher(t)
	err := pub.Publish(topic, minimal())
	if !errors.Is(err, redispubsub.ErrNoSubscribers) || !envelope.IsTransient(err) {
		t.Errorf("nobody is subscribed: %v", err)
	}
	if err := PubSub(addr, PubSubOptions{AllowNoSubscribers: true}).Publisher(t).Publish(topic, minimal()); err != nil {
		t.Errorf("nobody needs to be: %v", err)
	}
	sub := b.Subscriber(t, "")
	messages, err := sub.Subscribe(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.Publish(topic, minimal()); err != nil {
		t.Errorf("somebody is subscribed: %v", err)
	}
	receive(ctx, t, messages, "the message").Ack()
	if err := sub.Close(); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "nobody is subscribed any more", func() bool {
		return errors.Is(pub.Publish(topic, minimal()), redispubsub.ErrNoSubscribers)
	})
}

// until waits until done is true.
func until(ctx context.Context, t testing.TB, what string, done func() bool) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !done() {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, ctx.Err())
		}
	}
}

// PubSubRestart checks that a subscription outlives restarts without help, and that everything
// that is published once it is back arrives, in order.
func PubSubRestart(t *testing.T, server Server) {
	ctx := suite.Context(t)
	topic := topicName(t, "restart")
	var log suite.LogBook
	b := PubSub(server.Addr(), PubSubOptions{Logger: log.Logger()})
	pub := b.Publisher(t)
	messages, err := b.Subscriber(t, "").Subscribe(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	n := suite.Count(1000)
	for round := range 3 {
		if round > 0 {
			if err := server.Restart(ctx); err != nil {
				t.Fatal(err)
			}
		}
		until(ctx, t, "it is subscribed", func() bool { return pub.Publish(topic, message.NewMessage("probe", nil)) == nil })
		go func() {
			for i := range n {
				if err := pub.Publish(topic, message.NewMessage(envelope.NewID(), fmt.Append(nil, i))); err != nil {
					t.Errorf("round %d, message %d: %v", round, i, err)
				}
			}
		}()
		for i := 0; i < n; {
			msg := receive(ctx, t, messages, fmt.Sprintf("round %d, message %d", round, i))
			msg.Ack()
			if msg.UUID == "probe" {
				continue // one that did not fail, or whose answer was lost
			}
			if string(msg.Payload) != fmt.Sprint(i) {
				t.Fatalf("round %d: got %s, want %d", round, msg.Payload, i)
			}
			i++
		}
	}
	if text := log.String(); !bytes.Contains([]byte(text), []byte("was interrupted")) || !bytes.Contains([]byte(text), []byte("subscribed again")) {
		t.Errorf("logged %s", text)
	}
}

// CloseUnderLoad closes publishers and subscribers in the middle of everything.
func CloseUnderLoad(t *testing.T, addr string) {
	ctx := suite.Context(t)
	topic := topicName(t, "load")
	b := PubSub(addr, PubSubOptions{AllowNoSubscribers: true})
	for range suite.Count(100) {
		pub, sub := b.NewPublisher(t), b.NewSubscriber(t, "")
		messages, err := sub.Subscribe(ctx, topic)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					if err := pub.Publish(topic, minimal()); err != nil {
						if !errors.Is(err, redispubsub.ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		for range 20 {
			receive(ctx, t, messages, "load").Ack()
		}
		all.Go(func() {
			for msg := range messages { // or Close would wait for what was handed out
				msg.Ack()
			}
		})
		for range 2 {
			all.Go(func() {
				if err := errors.Join(sub.Close(), pub.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}
