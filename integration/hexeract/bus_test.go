package hexeract

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	stock "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/bus/amqpwire"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

var zone = time.FixedZone("", 2*3600)

func publisher(t *testing.T, url string) *rabbitmq.Publisher {
	t.Helper()
	p, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{URI: rabbitmq.URI(url), Marshaler: amqpwire.Marshaler{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func typed(t *testing.T, p message.Publisher) *bus.Publisher {
	t.Helper()
	b, err := bus.NewPublisher(bus.PublisherConfig{Publisher: p})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Rust handles what Go publishes, in every way of publishing, through our publisher and
// through Watermill's.
func TestRustHandlesOurs(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		queue := declare(t, suite.AMQPChannel(t, url))
		config := stock.NewDurableQueueConfig(url)
		config.Marshaler = amqpwire.Marshaler{}
		config.Publish.ConfirmDelivery = true
		watermills, err := stock.NewPublisher(config, watermill.NopLogger{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { watermills.Close() })
		peer := Start(t, url)
		peer.Work(t, Work{Queue: queue, MaxAttempts: 1, RetryDelayMS: 1000})
		ctx := suite.Context(t)

		chain := uuid.MustParse("00000000-0000-0000-0000-00000000002a")
		rawID := uuid.MustParse("FFFFFFFF-ffff-ffff-ffff-ffffffffffff")
		longest := strings.Repeat("ü", 127) + "x" // 255 bytes
		for name, b := range map[string]*bus.Publisher{"ours": typed(t, publisher(t, url)), "Watermill's": typed(t, watermills)} {
			for _, c := range []struct {
				name    string
				publish func() (uuid.UUID, error)
				chain   func(id uuid.UUID) uuid.UUID // nil: any but the id
			}{
				{"plain", func() (uuid.UUID, error) { return b.Publish(ctx, queue, order("plain")) }, nil},
				{"headers", func() (uuid.UUID, error) {
					return b.PublishWithHeaders(ctx, queue, map[string]string{longest: longest, "": "", "tenant": "acme"}, order("headers"))
				}, nil},
				{"correlation", func() (uuid.UUID, error) {
					return b.PublishWithCorrelationID(ctx, queue, chain, order("correlation"))
				}, func(uuid.UUID) uuid.UUID { return chain }},
				{"the context's chain", func() (uuid.UUID, error) {
					return b.Publish(bus.WithCorrelationID(ctx, chain), queue, order("the context's chain"))
				}, func(uuid.UUID) uuid.UUID { return chain }},
				{"raw", func() (uuid.UUID, error) {
					return b.PublishRaw(ctx, queue, rawID, "orders.placed", []byte(orderJSON("raw")))
				}, func(id uuid.UUID) uuid.UUID { return id }},
				{"before 1970", func() (uuid.UUID, error) {
					return b.PublishEnvelope(ctx, queue, bus.Restore(bus.NewID(), "orders.placed", []byte(orderJSON("before 1970")), chain,
						longest, nil, time.Date(1950, 1, 1, 0, 0, 0, 0, zone)))
				}, func(uuid.UUID) uuid.UUID { return chain }},
			} {
				id, err := c.publish()
				if err != nil {
					t.Fatal(name, c.name, err)
				}
				got := peer.Handled(t)
				if got.MessageID != id || got.Failed || !reflect.DeepEqual(&got.Message, order(c.name)) {
					t.Errorf("%s, %s: handled %+v, want %s, %+v", name, c.name, got, id, order(c.name))
				}
				if c.chain == nil && (got.CorrelationID == id || got.CorrelationID == uuid.Nil) || c.chain != nil && got.CorrelationID != c.chain(id) {
					t.Errorf("%s, %s: chain %s of message %s", name, c.name, got.CorrelationID, id)
				}
			}
		}
		if rest := peer.Stop(t); len(rest) != 0 {
			t.Errorf("handled %d more than were published", len(rest))
		}
	})
}

// Both sides write the same JSON for the same value.
func TestSameJSON(t *testing.T) {
	t.Parallel()
	e, err := bus.New(bus.NewID(), order("same"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(e.Payload); got != orderJSON("same") {
		t.Errorf("payload %s, want %s", got, orderJSON("same"))
	}
}

// A received is what a handler of ours was given.
type received struct {
	order    OrderPlaced
	envelope *bus.Envelope
	attempt  int64
}

// consume runs a router with a typed handler, which answers with what fail says, until the
// test ends or stop is called.
func consume(t *testing.T, url, queue string, c rabbitmq.SubscriberConfig, fail func(received) error) (_ <-chan received, stop func()) {
	t.Helper()
	c.URI, c.Unmarshaler = rabbitmq.URI(url), amqpwire.Marshaler{}
	sub, err := rabbitmq.NewSubscriber(c)
	if err != nil {
		t.Fatal(err)
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan received, 100)
	router.AddMiddleware(rabbitmq.Middleware)
	router.AddConsumerHandler("orders", queue, sub, bus.TypedConsumer(func(ctx context.Context, m OrderPlaced, e *bus.Envelope) error {
		r := received{m, e, rabbitmq.Attempt(ctx)}
		out <- r
		return fail(r)
	}))
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.WithoutCancel(t.Context())) }()
	<-router.Running()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		if err := errors.Join(router.Close(), <-ended); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return out, stop
}

func next(t *testing.T, c <-chan received) received {
	t.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(suite.Timeout):
		t.Fatal("nothing was handled")
		return received{}
	}
}

func succeed(received) error { return nil }

// Go handles what Rust publishes, in every way of publishing.
func TestWeHandleRusts(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		queue := declare(t, suite.AMQPChannel(t, url))
		peer := Start(t, url)
		got, _ := consume(t, url, queue, rabbitmq.SubscriberConfig{}, succeed)
		chain, rawID := uuid.New(), uuid.New()
		for _, c := range []struct {
			note    string
			publish Publish
			headers map[string]string
			chain   uuid.UUID // Nil: any but the id
		}{
			{"plain", Publish{Message: order("plain")}, nil, uuid.Nil},
			{
				"headers",
				Publish{Message: order("headers"), Headers: map[string]string{"tenant": "acme", "": "", "hexeract_type": "x"}},
				map[string]string{"tenant": "acme", "": "", "hexeract_type": "x"},
				uuid.Nil,
			},
			{"chain", Publish{Message: order("chain"), CorrelationID: &chain}, nil, chain},
			{"raw", Publish{Raw: &Raw{rawID, "orders.placed", orderJSON("raw")}}, nil, rawID},
		} {
			c.publish.RoutingKey = queue
			before := time.Now().Truncate(time.Second)
			id, refusal := peer.Publish(t, c.publish)
			if refusal != nil {
				t.Fatal(c.note, refusal)
			}
			r := next(t, got)
			e := r.envelope
			switch {
			case e.MessageID != id, e.MessageType != "orders.placed", e.ReplyTo != "", r.attempt != 1,
				!reflect.DeepEqual(&r.order, order(c.note)):
				t.Errorf("%s: %+v, want %s, %+v", c.note, r, id, order(c.note))
			case len(e.Headers)+len(c.headers) > 0 && !reflect.DeepEqual(e.Headers, c.headers):
				t.Errorf("%s: headers %v, want %v", c.note, e.Headers, c.headers)
			case c.chain == uuid.Nil && e.CorrelationID == id, c.chain != uuid.Nil && e.CorrelationID != c.chain:
				t.Errorf("%s: chain %s of message %s", c.note, e.CorrelationID, id)
			case e.PublishedAt.Before(before), e.PublishedAt.After(time.Now()):
				t.Errorf("%s: published at %s", c.note, e.PublishedAt)
			}
		}
	})
}
