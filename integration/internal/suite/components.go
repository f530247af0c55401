package suite

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/components/requestreply"
	"github.com/ThreeDotsLabs/watermill/components/requeuer"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// Components checks that what Watermill has beside its router keeps working from one broker to
// another through a chain with a claim check.
func Components(t *testing.T, s ClaimServers) {
	for _, f := range []struct {
		name string
		run  func(*testing.T, components)
	}{
		{"requeuer", requeued},
		{"delay", delayed},
		{"request and reply", replied},
	} {
		t.Run(f.name, func(t *testing.T) {
			store := s.Store(t)
			chain, err := hookmw.NewChain(hookmw.ChainConfig{
				ClaimCheck: claimCheck(t, hookmw.ClaimCheckConfig{Store: store}),
			})
			if err != nil {
				t.Fatal(err)
			}
			f.run(t, components{s, store, chain})
		})
	}
}

type components struct {
	ClaimServers
	store ClaimStore
	chain *hookmw.Chain
}

// publisher is one on b, behind the chain.
func (c components) publisher(t testing.TB, b Broker) message.Publisher {
	t.Helper()
	pub, err := c.chain.WrapPublisher(b.Publisher(t), b.Sealer)
	if err != nil {
		t.Fatal(err)
	}
	return pub
}

// router is one that is not started, whose handlers are behind the chain.
func (c components) router(t testing.TB, middlewares ...message.HandlerMiddleware) *message.Router {
	t.Helper()
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: Timeout}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(append(middlewares, c.chain.Middleware)...)
	return router
}

// receive returns the next message of ch.
func receive(ctx context.Context, t testing.TB, ch <-chan *message.Message, what string) *message.Message {
	t.Helper()
	select {
	case msg := <-ch:
		return msg
	case <-ctx.Done():
		t.Fatalf("%s: %v", what, ctx.Err())
		return nil
	}
}

// A message that its handler refuses twice goes from the work topic of one broker to the
// poison topic of the other and back by a requeuer: each time with its body, and with one
// more retry.
func requeued(t *testing.T, c components) {
	ctx := Context(t)
	work, failed := topicName(t, "work"), topicName(t, "failed")
	poison, err := c.chain.PoisonQueue(c.Broker.Publisher(t), c.Broker.Sealer, failed)
	if err != nil {
		t.Fatal(err)
	}
	worker := c.router(t, poison)
	got := make(chan *message.Message, 16)
	worker.AddConsumerHandler("worker", work, initialized(t, c.Next.Subscriber(t, "worker"), work), func(msg *message.Message) error {
		got <- msg.Copy()
		if msg.Metadata[requeuer.RetriesKey] != "2" {
			return envelope.Permanent(errors.New("not yet"))
		}
		return nil
	})
	toWork := c.publisher(t, c.Next)
	// The requeuer's own router has no middleware: it passes claims on as they are.
	mover, err := message.NewRouter(message.RouterConfig{CloseTimeout: Timeout}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = requeuer.NewRequeuer(requeuer.Config{
		Subscriber: initialized(t, c.Broker.Subscriber(t, "requeuer"), failed), SubscribeTopic: failed, Publisher: toWork,
		GeneratePublishTopic: func(requeuer.GeneratePublishTopicParams) (string, error) { return work, nil },
		Router:               mover,
	}, watermill.NopLogger{}); err != nil {
		t.Fatal(err)
	}
	start(ctx, t, mover)
	start(ctx, t, worker)

	sent := hook(100_000)
	publish(t, toWork, work, sent)
	for i, retries := range []string{"", "1", "2"} {
		msg := receive(ctx, t, got, "the worker's message")
		if msg.UUID != sent.UUID || !bytes.Equal(msg.Payload, sent.Payload) {
			t.Errorf("time %d: got the hook %s with %d bytes, want that which was sent", i, msg.UUID, len(msg.Payload))
		}
		if msg.Metadata[requeuer.RetriesKey] != retries {
			t.Errorf("time %d: the retry count is %q, want %q", i, msg.Metadata[requeuer.RetriesKey], retries)
		}
		if reason := msg.Metadata[wmmw.ReasonForPoisonedKey]; (reason == "not yet") != (i > 0) {
			t.Errorf("time %d: the reason is %q", i, reason)
		}
	}
	c.store.holds(ctx, t, 1, "the body is stored once, however often it goes round")
}

// A delay stays with its message from one broker to the next.
func delayed(t *testing.T, c components) {
	ctx := Context(t)
	topic, next := topicName(t, "in"), topicName(t, "next")
	first := make(chan *message.Message, 1)
	bridge := c.router(t)
	bridge.AddHandler("bridge", topic, initialized(t, c.Broker.Subscriber(t, "bridge"), topic), next, c.publisher(t, c.Next),
		func(msg *message.Message) ([]*message.Message, error) {
			first <- msg.Copy()
			return []*message.Message{msg}, nil
		})
	second := make(chan *message.Message, 1)
	end := c.router(t)
	end.AddConsumerHandler("end", next, initialized(t, c.Next.Subscriber(t, "end"), next), func(msg *message.Message) error {
		second <- msg.Copy()
		return nil
	})
	start(ctx, t, end)
	start(ctx, t, bridge)
	pub, err := delay.NewPublisher(c.publisher(t, c.Broker), delay.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	sent := hook(100_000)
	sent.SetContext(delay.WithContext(ctx, delay.For(90*time.Second)))
	publish(t, pub, topic, sent)
	until := sent.Metadata[delay.DelayedUntilKey] // the delay's publisher writes it into the message
	if until == "" {
		t.Fatal("the message was not delayed")
	}
	for place, ch := range map[string]chan *message.Message{"the bridge": first, "its end": second} {
		msg := receive(ctx, t, ch, place)
		if msg.Metadata[delay.DelayedForKey] != "1m30s" || msg.Metadata[delay.DelayedUntilKey] != until {
			t.Errorf("%s: delayed for %q until %q, want 1m30s until %s", place,
				msg.Metadata[delay.DelayedForKey], msg.Metadata[delay.DelayedUntilKey], until)
		}
		if !bytes.Equal(msg.Payload, sent.Payload) {
			t.Errorf("%s: got %d bytes, want those that were sent", place, len(msg.Payload))
		}
	}
}

// An order is a command; what it costs is the reply.
type (
	order struct{ Text string }
	costs struct{ Bytes int }
)

// A command whose body is a claim goes over one broker, and its reply comes back over the
// other, with the tenant of the command.
func replied(t *testing.T, c components) {
	ctx := Context(t)
	commands, replies := topicName(t, "commands"), topicName(t, "replies")
	backend, err := requestreply.NewPubSubBackend[costs](requestreply.PubSubBackendConfig{
		Publisher: c.publisher(t, c.Next),
		SubscriberConstructor: func(requestreply.PubSubBackendSubscribeParams) (message.Subscriber, error) {
			return initialized(t, c.Next.Subscriber(t, "replies"), replies), nil
		},
		GenerateSubscribeTopic: func(requestreply.PubSubBackendSubscribeParams) (string, error) { return replies, nil },
		GeneratePublishTopic:   func(requestreply.PubSubBackendPublishParams) (string, error) { return replies, nil },
	}, requestreply.BackendPubsubJSONMarshaler[costs]{})
	if err != nil {
		t.Fatal(err)
	}
	bus, err := cqrs.NewCommandBusWithConfig(c.publisher(t, c.Broker), cqrs.CommandBusConfig{
		GeneratePublishTopic: func(cqrs.CommandBusGeneratePublishTopicParams) (string, error) { return commands, nil },
		OnSend: func(params cqrs.CommandBusOnSendParams) error {
			params.Message.Metadata[envelope.MetadataTenantID] = "acme"
			return nil
		},
		Marshaler: cqrs.JSONMarshaler{},
	})
	if err != nil {
		t.Fatal(err)
	}
	router := c.router(t)
	processor, err := cqrs.NewCommandProcessorWithConfig(router, cqrs.CommandProcessorConfig{
		GenerateSubscribeTopic: func(cqrs.CommandProcessorGenerateSubscribeTopicParams) (string, error) { return commands, nil },
		SubscriberConstructor: func(cqrs.CommandProcessorSubscriberConstructorParams) (message.Subscriber, error) {
			return initialized(t, c.Broker.Subscriber(t, "commands"), commands), nil
		},
		Marshaler: cqrs.JSONMarshaler{},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := processor.AddHandlers(requestreply.NewCommandHandlerWithResult("order", backend,
		func(_ context.Context, cmd *order) (costs, error) { return costs{len(cmd.Text)}, nil })); err != nil {
		t.Fatal(err)
	}
	start(ctx, t, router)

	reply, err := requestreply.SendWithReply(ctx, bus, backend, &order{Text: strings.Repeat("x", 100_000)})
	if err != nil {
		t.Fatal(err)
	}
	if reply.Error != nil || reply.HandlerResult.Bytes != 100_000 {
		t.Errorf("replied %+v, want 100000 bytes", reply)
	}
	md := reply.NotificationMessage.Metadata
	if md[envelope.MetadataTenantID] != "acme" || md[envelope.MetadataSourceID] != "suite" {
		t.Errorf("the reply is of tenant %q and source %q, want the command's tenant and its own source",
			md[envelope.MetadataTenantID], md[envelope.MetadataSourceID])
	}
	keys := c.store.keys(ctx, t)
	if !slices.ContainsFunc(keys, func(key string) bool { return strings.Contains(key, "acme") }) || len(keys) != 1 {
		t.Errorf("the store holds %q, want the command's body, of its tenant", keys)
	}
}
