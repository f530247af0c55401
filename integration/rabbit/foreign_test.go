package rabbit

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/bus/amqpwire"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// Messages of programs that know nothing of us. Each one is handled or dead, and the one after
// it is handled, whatever it was; and what we put into a queue a Rust consumer survives.
//
// A type of 300 bytes cannot be sent: its length is one byte on the wire.
func TestForeign(t *testing.T) {
	ctx := suite.Context(t)
	q, dead := queue(t), t.Name()+".dead"
	in, err := subscriber(t, rabbitmq.SubscriberConfig{
		MaxAttempts: 2, DeadLetterQueue: dead, Unmarshaler: amqpwire.Marshaler{},
	}).Subscribe(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	channel := suite.AMQPChannel(t, server.URL())
	for _, tt := range []struct {
		rule   string
		p      amqp.Publishing
		poison bool
	}{
		{"no message id", amqp.Publishing{Type: "a"}, false},
		{"a message id that is no UUID", amqp.Publishing{Type: "a", MessageId: "7"}, false},
		{"a message id that is not UTF-8", amqp.Publishing{Type: "a", MessageId: "\xff\xff"}, false},
		{"no type", amqp.Publishing{MessageId: bus.NewID().String()}, true},
		{"nothing at all", amqp.Publishing{}, true},
		{"a type that is not UTF-8", amqp.Publishing{Type: strings.Repeat("\xff", 255)}, true},
		{"the longest type", amqp.Publishing{Type: strings.Repeat("a", 255)}, false},
		{"integer headers", amqp.Publishing{Type: "a", Headers: amqp.Table{"n": int32(1), amqpwire.HeaderAttempts: "x"}}, false},
		{"a header's name that is not UTF-8", amqp.Publishing{Type: "a", Headers: amqp.Table{"\xff": "v", "t": amqp.Table{"\xff": "v"}}}, false},
		{"a header's value that is not UTF-8", amqp.Publishing{Type: "a", Headers: amqp.Table{"v": "\xff"}}, false},
		{"a timestamp of 2^63", amqp.Publishing{Type: "a", Timestamp: time.Unix(-1<<63, 0)}, false},
		{"a timestamp before 1970", amqp.Publishing{Type: "a", Timestamp: time.Unix(-1, 0)}, false},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			tt.p.Body = []byte(tt.rule)
			suite.AMQPPublish(ctx, t, channel, "", q, tt.p)
			suite.AMQPPublish(ctx, t, channel, "", q, amqp.Publishing{Type: "next"})
			if !tt.poison {
				msg := receive(ctx, t, in)
				if string(msg.Payload) != tt.rule {
					t.Fatalf("got %q", msg.Payload)
				}
				msg.Nack()
			}
			next := receive(ctx, t, in)
			if next.Metadata[bus.MetadataType] != "next" || !next.Ack() {
				t.Fatalf("got %q", next.Payload)
			}
			if !tt.poison {
				again := receive(ctx, t, in) // through the retry queue
				if string(again.Payload) != tt.rule {
					t.Fatalf("got %q", again.Payload)
				}
				again.Nack()
			}
			d := take(ctx, t, channel, dead)
			if string(d.Body) != tt.rule {
				t.Errorf("dead is %q", d.Body)
			}
			survives(t, d)
		})
	}
}

// survives checks what ends a Rust consumer or its connection.
func survives(t *testing.T, d amqp.Delivery) {
	t.Helper()
	for _, s := range []string{d.Type, d.MessageId, d.CorrelationId, d.ReplyTo} {
		if !utf8.ValidString(s) {
			t.Errorf("a property is %q", s)
		}
	}
	var names func(table amqp.Table)
	names = func(table amqp.Table) {
		for name, value := range table {
			if !utf8.ValidString(name) {
				t.Errorf("a header is called %q", name)
			}
			if inner, ok := value.(amqp.Table); ok {
				names(inner)
			}
		}
	}
	names(d.Headers)
	if !d.Timestamp.IsZero() && d.Timestamp.Unix() < 0 {
		t.Errorf("the timestamp is %v", d.Timestamp)
	}
}
