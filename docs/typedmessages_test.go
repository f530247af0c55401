package docs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/bus"
	busamqp "github.com/watermill-envelope/envelope/bus/amqpwire"
	"github.com/watermill-envelope/envelope/bus/bustest"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// OrderPlaced is the message of the page.
type OrderPlaced struct {
	OrderID  uuid.UUID `json:"order_id"`
	Quantity int       `json:"quantity"`
	Note     *string   `json:"note"`
}

// MessageType returns the name that Rust has as MESSAGE_TYPE.
func (OrderPlaced) MessageType() string { return "orders.placed" }

// OrderPaid is another one.
type OrderPaid struct {
	OrderID uuid.UUID `json:"order_id"`
}

// MessageType returns its name.
func (OrderPaid) MessageType() string { return "orders.paid" }

func typedPublish(ctx context.Context, uri rabbitmq.URI, orderID uuid.UUID) error {
	pub, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{URI: uri, Exchange: "shop", Marshaler: busamqp.Marshaler{}})
	if err != nil {
		return err
	}
	publisher, err := bus.NewPublisher(bus.PublisherConfig{Publisher: pub})
	if err != nil {
		return err
	}
	id, err := publisher.Publish(ctx, "orders.placed", OrderPlaced{OrderID: orderID, Quantity: 2})
	if err != nil {
		return fmt.Errorf("message %s: %w", id, err)
	}
	return nil
}

func typedPublishTwice(ctx context.Context, publisher *bus.Publisher, order OrderPlaced) error {
	e, err := bus.New(bus.NewID(), order) // a new chain
	if err != nil {
		return err
	}
	e = e.WithHeaders(map[string]string{"tenant": "acme"}).WithReplyTo("shop.replies")
	_, err = publisher.PublishEnvelope(ctx, "orders.placed", e)
	if err != nil {
		_, err = publisher.PublishEnvelope(ctx, "orders.placed", e) // the same message id
	}
	return err
}

func typedConsume(router *message.Router, uri rabbitmq.URI, publisher *bus.Publisher, ship message.HandlerFunc) error {
	sub, err := rabbitmq.NewSubscriber(rabbitmq.SubscriberConfig{
		URI: uri, Unmarshaler: busamqp.Marshaler{}, DeadLetterQueue: "billing.dead",
	})
	if err != nil {
		return err
	}
	bill := bus.TypedHandler(func(ctx context.Context, m OrderPlaced, e *bus.Envelope) ([]*message.Message, error) {
		_, err := publisher.Publish(ctx, "orders.paid", OrderPaid{OrderID: m.OrderID}) // in the chain of e
		return nil, err
	})
	router.AddMiddleware(rabbitmq.Middleware)
	router.AddConsumerHandler("billing", "billing", sub, bus.Mux{
		bus.TypeOf[OrderPlaced](): bill,
		bus.TypeOf[OrderPaid]():   ship,
	}.Consume)
	return nil
}

func typedCQRS(router *message.Router, pub message.Publisher) (*cqrs.EventBus, error) {
	router.AddMiddleware(bus.RequireType, bus.Correlate)
	return cqrs.NewEventBusWithConfig(pub, cqrs.EventBusConfig{
		GeneratePublishTopic: func(p cqrs.GenerateEventPublishTopicParams) (string, error) { return p.EventName, nil },
		Marshaler:            bus.CQRSMarshaler{},
		OnPublish: func(p cqrs.OnEventSendParams) error {
			bus.Continue(p.Message) // not needed with bus/amqpwire
			return nil
		},
	})
}

func TestOrderPlaced(t *testing.T) {
	note := "leave it at the door"
	bustest.CheckMessage(t, OrderPlaced{OrderID: uuid.New(), Quantity: 2, Note: &note})
}

// Upload is the page's message with a trap that is none.
type Upload struct {
	Data  []byte        `json:"data" bustest:"ok"` // a base64 string in Rust
	After time.Duration `json:"after"`
}

// MessageType returns its name.
func (Upload) MessageType() string { return "files.upload" }

// The page says which of the two is reported.
func TestTrapsOnThePage(t *testing.T) {
	traps := bustest.Traps[Upload]()
	if len(traps) != 1 || traps[0].Kind != bustest.Duration {
		t.Errorf("%v", traps)
	}
}
