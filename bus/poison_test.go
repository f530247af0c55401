package bus_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/bus/amqpwire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// What no attempt can help is in the poison queue after one, as AMQP carries it, and the queue
// goes on.
func TestPoisonQueue(t *testing.T) {
	typed := func(messageType, payload string) amqp.Delivery {
		return amqp.Delivery{DeliveryTag: 1, MessageId: messageID.String(), Type: messageType, Body: []byte(payload)}
	}
	tests := map[string]struct {
		delivery amqp.Delivery
		reason   string
		metadata map[string]string
	}{
		"no type":         {typed("", `{}`), "message type: is missing", map[string]string{"hexeract_malformed": "missing_type"}},
		"no text":         {typed("a\xff", `{}`), "message type: is not UTF-8", map[string]string{"hexeract_malformed": `invalid_type:"a\xff"`}},
		"another type":    {typed("orders.paid", `{}`), "missing_handler", map[string]string{"hexeract_type": "orders.paid"}},
		"no JSON":         {typed("orders.placed", `secret`), "malformed at byte 0 of 6", map[string]string{"hexeract_type": "orders.placed"}},
		"other JSON":      {typed("orders.placed", `{"quantity":"secret"}`), `field "quantity"`, map[string]string{"hexeract_type": "orders.placed"}},
		"an error's text": {typed("orders.placed", `{"order_id":"fails"}`), "cannot \uFFFD", map[string]string{"hexeract_type": "orders.placed"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t)
			router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
			if err != nil {
				t.Fatal(err)
			}
			poison, err := middleware.PoisonQueueWithFilter(l, "poison", hookmw.ShouldPoison)
			if err != nil {
				t.Fatal(err)
			}
			var attempts atomic.Int32
			count := func(h message.HandlerFunc) message.HandlerFunc {
				return func(msg *message.Message) ([]*message.Message, error) {
					attempts.Add(1)
					return h(msg)
				}
			}
			router.AddMiddleware(poison, middleware.Retry{MaxRetries: 3, InitialInterval: time.Hour, ShouldRetry: hookmw.ShouldRetry}.Middleware, count)
			handled := make(chan string, 2)
			router.AddConsumerHandler("orders", "orders", l, bus.Mux{
				"orders.placed": bus.TypedHandler(func(_ context.Context, m orderPlaced, _ *bus.Envelope) ([]*message.Message, error) {
					if m.OrderID == "fails" {
						return nil, &quoting{}
					}
					handled <- m.OrderID
					return nil, nil
				}),
			}.Consume)
			poisoned, err := l.Subscribe(t.Context(), "poison")
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range []amqp.Delivery{tt.delivery, typed("orders.placed", `{"order_id":"next"}`)} {
				msg, err := amqpwire.Marshaler{}.Unmarshal(d)
				if err != nil {
					t.Fatal(err)
				}
				if err := l.GoChannel.Publish("orders", msg); err != nil {
					t.Fatal(err)
				}
			}
			ran := make(chan error, 1)
			go func() { ran <- router.Run(context.Background()) }()
			msg := <-poisoned
			msg.Ack()
			if got := <-handled; got != "next" {
				t.Errorf("handled %s", got)
			}
			if err := router.Close(); err != nil {
				t.Error(err)
			}
			if err := <-ran; err != nil {
				t.Error(err)
			}
			if n := attempts.Load(); n != 2 {
				t.Errorf("%d attempts at two messages", n)
			}
			if msg.UUID != messageID.String() || string(msg.Payload) != string(tt.delivery.Body) {
				t.Errorf("poisoned %s %s", msg.UUID, msg.Payload)
			}
			reason := msg.Metadata[middleware.ReasonForPoisonedKey]
			if !strings.Contains(reason, tt.reason) || strings.Contains(reason, "secret") {
				t.Errorf("reason %q, want %q", reason, tt.reason)
			}
			for key, want := range tt.metadata {
				if got := msg.Metadata[key]; got != want {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
		})
	}
}

// quoting is a permanent error whose text has a byte that is not UTF-8.
type quoting struct{}

func (*quoting) Error() string   { return "cannot \xff" }
func (*quoting) Permanent() bool { return true }
