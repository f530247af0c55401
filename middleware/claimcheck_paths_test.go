package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/components/requeuer"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

var discard = watermill.NewSlogLogger(slog.New(slog.DiscardHandler))

// A service is a router that consumes the topic "hooks" with a claim check, and publishes to out
// whatever goes on from there.
type service struct {
	t   *testing.T
	s   *store
	out *broker
	cc  *hookmw.ClaimCheck

	in     *gochannel.GoChannel
	toIn   message.Publisher // through the claim check; returns once the message was acked
	toOut  message.Publisher // through the claim check
	router *message.Router
	from   message.Subscriber
}

func newService(t *testing.T) *service {
	t.Helper()
	v := &service{t: t, s: &store{}, out: &broker{Marshaler: kafkawire.Marshaler{Source: "shop"}}}
	v.cc = claimCheck(t, hookmw.ClaimCheckConfig{Store: v.s})
	v.in = gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, discard)
	sealing, err := marshaler.WrapPublisher(v.in, marshaler.Options{Source: "github"})
	if err != nil {
		t.Fatal(err)
	}
	if v.from, err = marshaler.WrapSubscriber(v.in, marshaler.Options{}); err != nil {
		t.Fatal(err)
	}
	v.toIn, v.toOut = wrap(t, v.cc, sealing, nil), wrap(t, v.cc, v.out, nil)
	if v.router, err = message.NewRouter(message.RouterConfig{}, discard); err != nil {
		t.Fatal(err)
	}
	return v
}

// stack adds the middlewares of the package documentation, and returns the service.
func (v *service) stack() *service {
	v.t.Helper()
	poison, err := wmmw.PoisonQueueWithFilter(v.toOut, "poison", hookmw.ShouldPoison)
	if err != nil {
		v.t.Fatal(err)
	}
	v.router.AddMiddleware(
		poison,
		wmmw.Retry{MaxRetries: 2, InitialInterval: time.Nanosecond, ShouldRetry: hookmw.ShouldRetry}.Middleware,
		wmmw.Recoverer,
		v.cc.Middleware,
		hookmw.Malformed{}.Middleware,
	)
	return v
}

func (v *service) run() {
	v.t.Helper()
	done := make(chan error, 1)
	go func() { done <- v.router.Run(context.Background()) }()
	<-v.router.Running()
	v.t.Cleanup(func() {
		if err := errors.Join(v.router.Close(), <-done, v.in.Close()); err != nil {
			v.t.Error(err)
		}
	})
}

func (v *service) publish(messages ...*message.Message) {
	v.t.Helper()
	for _, msg := range messages {
		if err := v.toIn.Publish("hooks", msg); err != nil {
			v.t.Fatal(err)
		}
	}
}

// wantOut checks that what went out at index i is redeemed to body.
func (v *service) wantOut(i int, body []byte) *message.Message {
	v.t.Helper()
	if len(v.out.records) <= i {
		v.t.Fatalf("%d messages went out", len(v.out.records))
	}
	msg := v.out.receive(v.t, i)
	if msg.Metadata[envelope.MetadataClaim] == "" {
		v.t.Error("not a claim")
	}
	if got, err := handle(v.t, v.cc, msg.Copy()); err != nil || !bytes.Equal(got, body) {
		v.t.Errorf("redeemed %d bytes, error %v", len(got), err)
	}
	return msg
}

// numbered is a hook of 70,000 bytes with another id.
func numbered(id string) *message.Message {
	msg := hook(text(70_000))
	msg.UUID = id
	msg.Metadata[envelope.MetadataID] = id
	return msg
}

// A handler sees the body that was published; what it returns is stored in its turn; what fails
// goes to the poison topic by the claim that it came with.
func TestRouter(t *testing.T) {
	v := newService(t).stack()
	v.router.AddHandler("ship", "hooks", v.from, "shipped", v.toOut, func(msg *message.Message) ([]*message.Message, error) {
		if !bytes.Equal(msg.Payload, text(70_000)) {
			t.Errorf("handled %d bytes", len(msg.Payload))
		}
		if msg.UUID == "bad" {
			return nil, envelope.Permanent(errors.New("no such order"))
		}
		return []*message.Message{msg, envelope.Derive(msg, "label", text(80_000))}, nil
	})
	v.run()
	v.publish(numbered("bad"), numbered("good"))

	dead := v.wantOut(0, text(70_000))
	if dead.UUID != "bad" || dead.Metadata[wmmw.ReasonForPoisonedKey] != "no such order" {
		t.Errorf("poisoned %s: %v", dead.UUID, dead.Metadata)
	}
	if passed := v.wantOut(1, text(70_000)); passed.UUID != "good" {
		t.Errorf("passed on %s", passed.UUID)
	}
	v.wantOut(2, text(80_000))
	if len(v.s.puts) != 3 { // bad, good, label
		t.Errorf("%d puts", len(v.s.puts))
	}
}

// Watermill's Timeout ends the context of a message before the router publishes what was made
// of it.
func TestRouterWithTimeout(t *testing.T) {
	v := newService(t).stack()
	v.router.AddMiddleware(wmmw.Timeout(time.Hour))
	v.router.AddHandler("ship", "hooks", v.from, "shipped", v.toOut, func(msg *message.Message) ([]*message.Message, error) {
		out := message.NewMessage("made", text(80_000))
		out.SetContext(msg.Context())
		return []*message.Message{out}, nil
	})
	v.run()
	v.publish(numbered("good"))
	v.wantOut(0, text(80_000))
	if ctx := v.out.given[0].Context(); ctx.Err() == nil {
		t.Error("the context was not over: the test shows nothing")
	}
}

// One claim that cannot be redeemed goes to the poison topic as it came; those around it are
// handled.
func TestRouterWithABadClaim(t *testing.T) {
	v := newService(t).stack()
	var handled []string
	v.router.AddConsumerHandler("ship", "hooks", v.from, func(msg *message.Message) error {
		handled = append(handled, msg.UUID)
		return nil
	})
	v.run()
	bad := hook(nil, envelope.MetadataClaim, claimRef, envelope.MetadataSize, "5",
		envelope.MetadataSHA256, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
	v.publish(numbered("a"), bad, numbered("b"))
	if len(handled) != 2 || handled[0] != "a" || handled[1] != "b" || len(v.out.records) != 1 {
		t.Fatalf("handled %q, %d went out", handled, len(v.out.records))
	}
	dead := v.out.receive(t, 0)
	if dead.UUID != bad.UUID || dead.Metadata[envelope.MetadataClaim] != claimRef || len(v.s.puts) != 2 {
		t.Errorf("poisoned %v, %d puts", dead.Metadata, len(v.s.puts))
	}
	const reason = `claim check: message "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10": claimcheck: redeem: not_found`
	if got := dead.Metadata[wmmw.ReasonForPoisonedKey]; len(got) < len(reason) || got[:len(reason)] != reason {
		t.Errorf("because of %s", got)
	}
}

// An outage dead-letters nothing: the message comes again until it is over.
func TestRouterWaitsForTheStore(t *testing.T) {
	v := newService(t).stack()
	attempts := 0
	v.s.get = func(ctx context.Context, key string, off, n int64) (_ io.ReadCloser, err error) {
		if attempts++; attempts <= 7 { // two deliveries of three attempts, and one
			return nil, &claimcheck.Error{Code: claimcheck.CodeUnavailable, Key: key}
		}
		return v.s.Store.Get(ctx, key, off, n)
	}
	handled := 0
	v.router.AddConsumerHandler("ship", "hooks", v.from, func(msg *message.Message) error {
		if handled++; handled == 1 {
			return envelope.Transient(errors.New("the printer is out of paper")) // after it was redeemed
		}
		if !bytes.Equal(msg.Payload, text(70_000)) {
			t.Errorf("handled %d bytes", len(msg.Payload))
		}
		return nil
	})
	v.run()
	v.publish(numbered("a"))
	if handled != 2 || len(v.out.records) != 0 {
		t.Errorf("handled %d times, %d messages went out", handled, len(v.out.records))
	}
	if v.s.gets != 7+2 { // what was redeemed is not redeemed again by the next attempt
		t.Errorf("%d gets", v.s.gets)
	}
}

// Behind the gate alone, no handler runs on the empty payload of a claim.
func TestRouterWithoutClaimCheck(t *testing.T) {
	v := newService(t)
	poison, err := wmmw.PoisonQueueWithFilter(v.toOut, "poison", hookmw.ShouldPoison)
	if err != nil {
		t.Fatal(err)
	}
	v.router.AddMiddleware(poison, hookmw.Malformed{}.Middleware)
	v.router.AddConsumerHandler("ship", "hooks", v.from, func(msg *message.Message) error {
		t.Errorf("handled %d bytes", len(msg.Payload))
		return nil
	})
	v.run()
	v.publish(numbered("a"))
	v.wantOut(0, text(70_000))
	if len(v.s.puts) != 1 {
		t.Errorf("%d puts", len(v.s.puts))
	}
}

// The forwarder takes messages of any size from its outbox and publishes them to the outgoing
// publisher, which is the one to wrap. What was redeemed before is not stored again.
func TestForwarder(t *testing.T) {
	v := newService(t)
	daemon, err := forwarder.NewForwarder(v.in, v.toOut, discard, forwarder.Config{ForwarderTopic: "outbox", Router: v.router})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- daemon.Run(context.Background()) }()
	<-daemon.Running()
	outbox := forwarder.NewPublisher(v.in, forwarder.PublisherConfig{ForwarderTopic: "outbox"})
	if err := outbox.Publish("orders", message.NewMessage("new", text(70_000))); err != nil {
		t.Fatal(err)
	}
	msg := v.wantOut(0, text(70_000))
	if msg.UUID != "new" || v.out.records[0].Topic != "orders" || len(v.s.puts) != 1 {
		t.Errorf("forwarded %s to %s, %d puts", msg.UUID, v.out.records[0].Topic, len(v.s.puts))
	}
	if _, err := handle(t, v.cc, msg); err != nil {
		t.Fatal(err)
	}
	if err := outbox.Publish("next", msg); err != nil {
		t.Fatal(err)
	}
	if again := v.wantOut(1, text(70_000)); again.Metadata[envelope.MetadataClaim] != msg.Metadata[envelope.MetadataClaim] || len(v.s.puts) != 1 {
		t.Errorf("forwarded as %s, %d puts", again.Metadata[envelope.MetadataClaim], len(v.s.puts))
	}
	if err := errors.Join(daemon.Close(), <-done, v.in.Close()); err != nil {
		t.Error(err)
	}
}

// The requeuer publishes a poisoned message to its topic again.
func TestRequeuer(t *testing.T) {
	v := newService(t)
	back, err := requeuer.NewRequeuer(requeuer.Config{
		Subscriber: v.from, SubscribeTopic: "hooks", Publisher: v.toOut, Router: v.router,
		GeneratePublishTopic: func(requeuer.GeneratePublishTopicParams) (string, error) { return "orders", nil },
	}, discard)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- back.Run(context.Background()) }()
	<-v.router.Running()
	v.publish(numbered("a"))
	msg := v.wantOut(0, text(70_000))
	if msg.UUID != "a" || len(v.s.puts) != 1 || msg.Metadata[requeuer.RetriesKey] != "1" {
		t.Errorf("requeued %s %v, %d puts", msg.UUID, msg.Metadata, len(v.s.puts))
	}
	if err := errors.Join(v.router.Close(), <-done, v.in.Close()); err != nil {
		t.Error(err)
	}
}

type report struct{ Pages []byte }

// An event bus publishes what it marshaled itself, and an event processor unmarshals what was
// redeemed.
func TestCQRS(t *testing.T) {
	v := newService(t).stack()
	topic := func() (string, error) { return "hooks", nil }
	bus, err := cqrs.NewEventBusWithConfig(v.toIn, cqrs.EventBusConfig{
		GeneratePublishTopic: func(cqrs.GenerateEventPublishTopicParams) (string, error) { return topic() },
		Marshaler:            cqrs.JSONMarshaler{},
	})
	if err != nil {
		t.Fatal(err)
	}
	processor, err := cqrs.NewEventProcessorWithConfig(v.router, cqrs.EventProcessorConfig{
		GenerateSubscribeTopic: func(cqrs.EventProcessorGenerateSubscribeTopicParams) (string, error) { return topic() },
		SubscriberConstructor: func(cqrs.EventProcessorSubscriberConstructorParams) (message.Subscriber, error) {
			return v.from, nil
		},
		Marshaler: cqrs.JSONMarshaler{},
	})
	if err != nil {
		t.Fatal(err)
	}
	var handled [][]byte
	if err := processor.AddHandlers(cqrs.NewEventHandler("print", func(_ context.Context, r *report) error {
		handled = append(handled, r.Pages)
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	v.run()
	for _, n := range []int{10, 70_000} {
		if err := bus.Publish(context.Background(), &report{text(n)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(handled) != 2 || !bytes.Equal(handled[0], text(10)) || !bytes.Equal(handled[1], text(70_000)) || len(v.s.puts) != 1 {
		t.Errorf("handled %d events, %d puts, %d poisoned", len(handled), len(v.s.puts), len(v.out.records))
	}
}

// A message that just fits into its topic does not fit into the poison topic with the reason of
// its failure: it is stored then.
func TestPoisonedMessageThatGrew(t *testing.T) {
	v := newService(t)
	msg := hook(text(2000))
	size, _, _ := v.out.Size("hooks", msg, "")
	v.out.MaxMessageBytes = size
	v.toOut = wrap(t, v.cc, v.out, nil)
	v.stack().router.AddConsumerHandler("ship", "hooks", v.from, func(*message.Message) error {
		return envelope.Permanent(errors.New("no such order"))
	})
	v.run()
	if err := v.toOut.Publish("hooks", msg); err != nil || len(v.s.puts) != 0 {
		t.Fatalf("%d puts, error %v", len(v.s.puts), err)
	}
	v.publish(msg)
	if dead := v.wantOut(1, text(2000)); dead.Metadata[wmmw.ReasonForPoisonedKey] != "no such order" || len(v.s.puts) != 1 {
		t.Errorf("poisoned %v, %d puts", dead.Metadata, len(v.s.puts))
	}
}
