package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/bus/amqpwire"
)

var _ cqrs.CommandEventMarshaler = bus.CQRSMarshaler{}

type placeOrder struct {
	OrderID string `json:"order_id"`
}

func (placeOrder) MessageType() string { return "orders.place" }

func TestCQRSMarshaler(t *testing.T) {
	var m bus.CQRSMarshaler
	tests := map[string]struct {
		v    any
		name string
		want string
	}{
		"a value":                            {orderPlaced{"o-<1>", 2}, "orders.placed", `{"order_id":"o-<1>","quantity":2}`},
		"a pointer":                          {&orderPlaced{"o-1", 2}, "orders.placed", `{"order_id":"o-1","quantity":2}`},
		"a value whose pointer is a message": {orderPaid{}, "orders.paid", `{}`},
		"a pointer that is a message":        {&orderPaid{}, "orders.paid", `{}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := m.Name(tt.v); got != tt.name {
				t.Errorf("name %q", got)
			}
			msg, err := m.Marshal(tt.v)
			if err != nil {
				t.Fatal(err)
			}
			if string(msg.Payload) != tt.want || m.NameFromMessage(msg) != tt.name || len(msg.Metadata) != 2 {
				t.Errorf("%s %v", msg.Payload, msg.Metadata)
			}
			if e, err := bus.FromMessage(msg); err != nil || e.MessageID.Version() != 7 || e.MessageType != tt.name || time.Since(e.PublishedAt).Abs() > time.Hour {
				t.Errorf("%v, error %v", e, err)
			}
		})
	}
	var got orderPlaced
	if err := m.Unmarshal(order().Message(), &got); err != nil || got != (orderPlaced{"o-1", 2}) {
		t.Errorf("%v, error %v", got, err)
	}
	if got := m.Name((*orderPlaced)(nil)); got != "orders.placed" {
		t.Errorf("name %q of a nil pointer", got)
	}
}

type unnamed struct{}

type misnamed struct{}

func (misnamed) MessageType() string { return strings.Repeat("n", 256) }

func TestCQRSMarshalerRefuses(t *testing.T) {
	var m bus.CQRSMarshaler
	for name, v := range map[string]any{
		"no message": unnamed{}, "nil": nil, "a nil pointer": (*orderPlaced)(nil), "a long name": misnamed{}, "no JSON": anything{make(chan int)},
	} {
		if msg, err := m.Marshal(v); msg != nil || !envelope.IsPermanent(err) {
			t.Errorf("%s: %v, error %v", name, msg, err)
		}
	}
	if m.Name(unnamed{}) != "" || m.Name(nil) != "" {
		t.Error("a name for what has none")
	}
	typeless := message.NewMessage("m", []byte("{}"))
	for name, tt := range map[string]struct {
		msg  *message.Message
		v    any
		want error
	}{
		"another type": {order().Message(), &orderPaid{}, bus.ErrTypeMismatch},
		"no type":      {typeless, &orderPlaced{}, bus.ErrInvalidTopology},
		"no message":   {order().Message(), &unnamed{}, bus.ErrSerialization},
	} {
		if err := m.Unmarshal(tt.msg, tt.v); !errors.Is(err, tt.want) || !envelope.IsPermanent(err) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A loop is a broker of one process that every message goes through as AMQP carries it.
type loop struct {
	*gochannel.GoChannel
}

func (l loop) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		p, err := amqpwire.Marshaler{}.Marshal(msg)
		if err != nil {
			return err
		}
		received, err := amqpwire.Marshaler{}.Unmarshal(amqp.Delivery{
			DeliveryTag: 1, Type: p.Type, MessageId: p.MessageId, CorrelationId: p.CorrelationId, Timestamp: p.Timestamp, Headers: p.Headers, Body: p.Body,
		})
		if err != nil {
			return err
		}
		if err := l.GoChannel.Publish(topic, received); err != nil {
			return err
		}
	}
	return nil
}

func newLoop(t *testing.T) loop {
	t.Helper()
	l := loop{gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Watermill's buses and processors as they are: a command is handled, what the handler
// publishes belongs to the command's chain, and so does what the next one publishes.
func TestCQRS(t *testing.T) {
	l := newLoop(t)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(bus.RequireType, bus.Correlate)
	topic := func(name string) string { return "topic." + name }
	commands, err := cqrs.NewCommandBusWithConfig(l, cqrs.CommandBusConfig{
		GeneratePublishTopic: func(p cqrs.CommandBusGeneratePublishTopicParams) (string, error) { return topic(p.CommandName), nil },
		Marshaler:            bus.CQRSMarshaler{},
	})
	if err != nil {
		t.Fatal(err)
	}
	events, err := cqrs.NewEventBusWithConfig(l, cqrs.EventBusConfig{
		GeneratePublishTopic: func(p cqrs.GenerateEventPublishTopicParams) (string, error) { return topic(p.EventName), nil },
		Marshaler:            bus.CQRSMarshaler{},
	})
	if err != nil {
		t.Fatal(err)
	}
	commandProcessor, err := cqrs.NewCommandProcessorWithConfig(router, cqrs.CommandProcessorConfig{
		GenerateSubscribeTopic: func(p cqrs.CommandProcessorGenerateSubscribeTopicParams) (string, error) {
			return topic(p.CommandName), nil
		},
		SubscriberConstructor: func(cqrs.CommandProcessorSubscriberConstructorParams) (message.Subscriber, error) { return l, nil },
		Marshaler:             bus.CQRSMarshaler{},
	})
	if err != nil {
		t.Fatal(err)
	}
	eventProcessor, err := cqrs.NewEventProcessorWithConfig(router, cqrs.EventProcessorConfig{
		GenerateSubscribeTopic: func(p cqrs.EventProcessorGenerateSubscribeTopicParams) (string, error) {
			return topic(p.EventName), nil
		},
		SubscriberConstructor: func(cqrs.EventProcessorSubscriberConstructorParams) (message.Subscriber, error) { return l, nil },
		Marshaler:             bus.CQRSMarshaler{},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := commandProcessor.AddHandlers(cqrs.NewCommandHandler("place", func(ctx context.Context, c *placeOrder) error {
		return events.Publish(ctx, orderPlaced{c.OrderID, 2})
	})); err != nil {
		t.Fatal(err)
	}
	if err := eventProcessor.AddHandlers(cqrs.NewEventHandler("placed", func(ctx context.Context, e *orderPlaced) error {
		if *e != (orderPlaced{"o-1", 2}) {
			t.Errorf("handled %v", e)
		}
		_, err := newPublisher(t, l).Publish(ctx, "last", &orderPaid{})
		return err
	})); err != nil {
		t.Fatal(err)
	}
	last, err := l.Subscribe(t.Context(), "last")
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- router.Run(context.Background()) }()
	<-router.Running()
	if err := commands.Send(bus.WithCorrelationID(t.Context(), correlationID), placeOrder{"o-1"}); err != nil {
		t.Fatal(err)
	}
	msg := <-last
	msg.Ack()
	if e, err := bus.FromMessage(msg); err != nil || e.MessageType != "orders.paid" || e.CorrelationID != correlationID {
		t.Errorf("%v, error %v", e, err)
	}
	if err := router.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

// A handler by name would pass over a message without a type, and acknowledge it.
func TestRequireType(t *testing.T) {
	handled := 0
	h := bus.RequireType(func(*message.Message) ([]*message.Message, error) {
		handled++
		return nil, nil
	})
	if _, err := h(message.NewMessage("m", nil)); !errors.Is(err, bus.ErrInvalidTopology) || !envelope.IsPermanent(err) || handled != 0 {
		t.Errorf("error %v, handled %d times", err, handled)
	}
	if _, err := h(order().Message()); err != nil || handled != 1 {
		t.Errorf("error %v, handled %d times", err, handled)
	}
}

func TestCorrelate(t *testing.T) {
	received := message.NewMessage(messageID.String(), nil) // it starts a chain of its own
	produced, err := bus.Correlate(func(msg *message.Message) ([]*message.Message, error) {
		if id, ok := bus.CorrelationIDFrom(msg.Context()); !ok || id != messageID {
			t.Errorf("in the chain %v", id)
		}
		return []*message.Message{message.NewMessage("a", nil), order().Message()}, nil
	})(received)
	if err != nil || bus.CorrelationIDOf(produced[0]) != messageID || bus.CorrelationIDOf(produced[1]) != correlationID {
		t.Errorf("%v, error %v", produced, err)
	}
}

// What other transports need of a bus, which amqpwire does itself.
func TestContinue(t *testing.T) {
	msg, err := bus.CQRSMarshaler{}.Marshal(orderPlaced{})
	if err != nil {
		t.Fatal(err)
	}
	msg.SetContext(bus.WithCorrelationID(context.Background(), correlationID))
	bus.Continue(msg)
	if got := msg.Metadata["correlation_id"]; got != correlationID.String() {
		t.Errorf("chain %s", got)
	}
	msg.SetContext(context.Background())
	bus.Continue(msg)
	if got := msg.Metadata["correlation_id"]; got != correlationID.String() {
		t.Errorf("then chain %s", got)
	}
}
