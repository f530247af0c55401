package bus_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
)

// A recorder is a publisher that keeps what it is given, or fails.
type recorder struct {
	topics   []string
	messages []*message.Message
	err      error
}

func (r *recorder) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		r.topics, r.messages = append(r.topics, topic), append(r.messages, msg)
	}
	return r.err
}

func (r *recorder) Close() error { return errors.New("not ours to close") }

func (r *recorder) last(t testing.TB) *bus.Envelope {
	t.Helper()
	if len(r.messages) == 0 {
		t.Fatal("nothing was published")
	}
	e, err := bus.FromMessage(r.messages[len(r.messages)-1])
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func newPublisher(t testing.TB, to message.Publisher) *bus.Publisher {
	t.Helper()
	p, err := bus.NewPublisher(bus.PublisherConfig{Publisher: to})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

type contextKey struct{}

func TestPublish(t *testing.T) {
	headers := map[string]string{"tenant": "acme"}
	ctx := context.WithValue(context.Background(), contextKey{}, "kept")
	inChain := bus.WithCorrelationID(ctx, correlationID)
	other := bus.NewID()
	tests := map[string]struct {
		publish func(*bus.Publisher) (uuid.UUID, error)
		chain   uuid.UUID // Nil: a new one
		headers map[string]string
		check   func(e *bus.Envelope) bool
	}{
		"Publish": {
			func(p *bus.Publisher) (uuid.UUID, error) { return p.Publish(ctx, "orders", orderPlaced{"o-1", 2}) },
			uuid.Nil, nil, nil,
		},
		"Publish in a chain": {
			func(p *bus.Publisher) (uuid.UUID, error) { return p.Publish(inChain, "orders", &orderPlaced{"o-1", 2}) },
			correlationID, nil, nil,
		},
		"PublishWithHeaders": {
			func(p *bus.Publisher) (uuid.UUID, error) {
				return p.PublishWithHeaders(ctx, "orders", headers, orderPlaced{"o-1", 2})
			},
			uuid.Nil, headers, nil,
		},
		"PublishWithHeaders in a chain": {
			func(p *bus.Publisher) (uuid.UUID, error) {
				return p.PublishWithHeaders(inChain, "orders", headers, orderPlaced{"o-1", 2})
			},
			correlationID, headers, nil,
		},
		"PublishWithCorrelationID": {
			func(p *bus.Publisher) (uuid.UUID, error) {
				return p.PublishWithCorrelationID(inChain, "orders", other, orderPlaced{"o-1", 2})
			},
			other, nil, nil,
		},
		"PublishEnvelope": {
			func(p *bus.Publisher) (uuid.UUID, error) { return p.PublishEnvelope(inChain, "orders", order()) },
			correlationID, headers,
			func(e *bus.Envelope) bool {
				return e.MessageID == messageID && e.ReplyTo == "replies" && e.PublishedAt.Equal(publishedAt)
			},
		},
		"PublishRaw": {
			func(p *bus.Publisher) (uuid.UUID, error) {
				return p.PublishRaw(inChain, "orders", messageID, "orders.placed", []byte(`{"order_id":"o-1","quantity":2}`))
			},
			messageID, nil,
			func(e *bus.Envelope) bool { return e.MessageID == messageID && time.Since(e.PublishedAt) < time.Hour },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var r recorder
			id, err := tt.publish(newPublisher(t, &r))
			if err != nil {
				t.Fatal(err)
			}
			e := r.last(t)
			if e.MessageID != id || e.MessageType != "orders.placed" || string(e.Payload) != `{"order_id":"o-1","quantity":2}` || r.topics[0] != "orders" {
				t.Errorf("%v %s on %v, returned %v", e, e.Payload, r.topics, id)
			}
			if tt.check == nil {
				tt.check = func(e *bus.Envelope) bool { return e.MessageID.Version() == 7 && e.ReplyTo == "" }
			}
			if !tt.check(e) || !maps.Equal(e.Headers, tt.headers) {
				t.Errorf("%v, headers %v", e, e.Headers)
			}
			if tt.chain == uuid.Nil && (e.CorrelationID.Version() != 7 || e.CorrelationID == e.MessageID) || tt.chain != uuid.Nil && e.CorrelationID != tt.chain {
				t.Errorf("chain %v, want %v", e.CorrelationID, tt.chain)
			}
			if got := r.messages[0].Context().Value(contextKey{}); got != "kept" {
				t.Errorf("another context: %v", got)
			}
		})
	}
}

// An envelope that is published again is the same message, and is not written to.
func TestPublishEnvelopeAgain(t *testing.T) {
	r := recorder{err: envelope.Transient(errors.New("no broker"))}
	p := newPublisher(t, &r)
	e, err := bus.New(correlationID, orderPlaced{"o-1", 2})
	if err != nil {
		t.Fatal(err)
	}
	before := *e
	for range 2 {
		id, err := p.PublishEnvelope(context.Background(), "orders", e)
		if id != e.MessageID || !envelope.IsTransient(err) {
			t.Errorf("%v, error %v", id, err)
		}
	}
	if len(r.messages) != 2 || !r.messages[0].Equals(r.messages[1]) || e.String() != before.String() {
		t.Errorf("%v", r.messages)
	}
}

// What AMQP cannot carry is not published on any transport.
func TestPublishRefuses(t *testing.T) {
	ctx := context.Background()
	long := strings.Repeat("n", 256)
	tests := map[string]func(*bus.Publisher) (uuid.UUID, error){
		"no type":      func(p *bus.Publisher) (uuid.UUID, error) { return p.PublishRaw(ctx, "t", messageID, "", nil) },
		"a long type":  func(p *bus.Publisher) (uuid.UUID, error) { return p.PublishRaw(ctx, "t", messageID, long, nil) },
		"another type": func(p *bus.Publisher) (uuid.UUID, error) { return p.PublishRaw(ctx, "t", messageID, "\xff", nil) },
		"a header": func(p *bus.Publisher) (uuid.UUID, error) {
			return p.PublishWithHeaders(ctx, "t", map[string]string{long: ""}, orderPlaced{})
		},
		"a reply": func(p *bus.Publisher) (uuid.UUID, error) {
			return p.PublishEnvelope(ctx, "t", order().WithReplyTo(long))
		},
		"no JSON": func(p *bus.Publisher) (uuid.UUID, error) { return p.Publish(ctx, "t", anything{make(chan int)}) },
		"no JSON either": func(p *bus.Publisher) (uuid.UUID, error) {
			return p.PublishWithCorrelationID(ctx, "t", correlationID, anything{make(chan int)})
		},
	}
	for name, publish := range tests {
		t.Run(name, func(t *testing.T) {
			var r recorder
			if id, err := publish(newPublisher(t, &r)); id != uuid.Nil || !envelope.IsPermanent(err) || len(r.messages) != 0 {
				t.Errorf("%v, error %v, sent %v", id, err, r.messages)
			}
		})
	}
	if p, err := bus.NewPublisher(bus.PublisherConfig{}); p != nil || err == nil {
		t.Errorf("%v, error %v", p, err)
	}
}

// Bytes that are no JSON are sent as they are by PublishRaw, as Rust does.
func TestPublishRawIsUnchecked(t *testing.T) {
	var r recorder
	if _, err := newPublisher(t, &r).PublishRaw(context.Background(), "t", messageID, "t", []byte("\xff")); err != nil || string(r.messages[0].Payload) != "\xff" {
		t.Errorf("%v, error %v", r.messages, err)
	}
}

func ExamplePublisher() {
	var broker recorder // any Watermill publisher
	publisher, err := bus.NewPublisher(bus.PublisherConfig{Publisher: &broker})
	if err != nil {
		panic(err)
	}
	ctx := bus.WithCorrelationID(context.Background(), correlationID)
	id, err := publisher.Publish(ctx, "orders", orderPlaced{OrderID: "o-1", Quantity: 2})
	if err != nil {
		panic(err)
	}
	msg := broker.messages[0]
	fmt.Println(msg.UUID == id.String(), msg.Metadata["hexeract_type"], msg.Metadata["correlation_id"])
	fmt.Println(string(msg.Payload))
	// Output:
	// true orders.placed 0199a1c2-0000-7000-8000-00000000002a
	// {"order_id":"o-1","quantity":2}
}
