package rabbitmq_test

import (
	"errors"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

func TestTopologyIsValidated(t *testing.T) {
	longest := strings.Repeat("a", rabbitmq.MaxNameBytes)
	for _, tt := range []struct {
		rule  string
		value interface{ Validate() error }
		field string // of the error; empty: it is valid
	}{
		{"an exchange", rabbitmq.Exchange{Name: "shop", Kind: rabbitmq.Topic}, ""},
		{"every kind: direct", rabbitmq.Exchange{Name: "a", Kind: rabbitmq.Direct}, ""},
		{"every kind: fanout", rabbitmq.Exchange{Name: "a", Kind: rabbitmq.Fanout}, ""},
		{"every kind: headers", rabbitmq.Exchange{Name: "a", Kind: rabbitmq.Headers}, ""},
		{"an exchange of no kind", rabbitmq.Exchange{Name: "a"}, "exchange kind"},
		{"an exchange of another kind", rabbitmq.Exchange{Name: "a", Kind: "Topic"}, "exchange kind"},
		{"an exchange without a name", rabbitmq.Exchange{Kind: rabbitmq.Topic}, "exchange name"},
		{"a queue", rabbitmq.Queue{Name: "orders"}, ""},
		{"the longest name", rabbitmq.Queue{Name: longest}, ""},
		{"a name over it", rabbitmq.Queue{Name: longest + "a"}, "queue name"},
		{"the limit is in bytes", rabbitmq.Queue{Name: strings.Repeat("é", 64)}, "queue name"},
		{"a queue without a name", rabbitmq.Queue{}, "queue name"},
		{"a control character", rabbitmq.Queue{Name: "a\x00"}, "queue name"},
		{"a line break", rabbitmq.Queue{Name: "a\nb"}, "queue name"},
		{"DEL is one too", rabbitmq.Queue{Name: "a\x7f"}, "queue name"},
		{"a space is none", rabbitmq.Queue{Name: "a b"}, ""},
		{"other scripts", rabbitmq.Queue{Name: "заказы"}, ""},
		{"bytes that are not UTF-8", rabbitmq.Queue{Name: "a\xff"}, "queue name"},
		{"arguments", rabbitmq.Queue{Name: "a", Arguments: amqp.Table{"x-queue-type": "quorum"}}, ""},
		{"arguments that AMQP has no type for", rabbitmq.Queue{Name: "a", Arguments: amqp.Table{"a": struct{}{}}}, "queue arguments"},
		{"a binding without a key", rabbitmq.Binding{Queue: "a", Exchange: "b"}, ""},
		{"the longest key", rabbitmq.Binding{Queue: "a", Exchange: "b", RoutingKey: strings.Repeat("a", 255)}, ""},
		{"a key over it", rabbitmq.Binding{Queue: "a", Exchange: "b", RoutingKey: strings.Repeat("a", 256)}, "routing key"},
		{"a key with a control character", rabbitmq.Binding{Queue: "a", Exchange: "b", RoutingKey: "\t"}, "routing key"},
		{"a binding of no queue", rabbitmq.Binding{Exchange: "b"}, "queue name of a binding"},
		{"a binding to no exchange", rabbitmq.Binding{Queue: "a"}, "exchange name of a binding"},
		{"a topology of nothing", rabbitmq.Topology{}, ""},
		{"a topology with a mistake in each part", rabbitmq.Topology{
			Exchanges: []rabbitmq.Exchange{{}}, Queues: []rabbitmq.Queue{{}}, Bindings: []rabbitmq.Binding{{}},
		}, "exchange name"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			err := tt.value.Validate()
			if tt.field == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var e *bus.Error
			if !errors.As(err, &e) || e.Code != bus.CodeInvalidTopology || e.Field != tt.field || !envelope.IsPermanent(err) {
				t.Errorf("got %v, want an invalid topology about the %s", err, tt.field)
			}
		})
	}
	err := rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: "good"}, {Name: "bad\n"}}}.Validate()
	if err == nil || !strings.Contains(err.Error(), `queues[1] "bad\n"`) {
		t.Errorf("which queue is it? %v", err)
	}
}

// What is not valid is not declared, and nothing of it: no broker is asked.
func TestEnsureTopologyAsksNoBroker(t *testing.T) {
	err := rabbitmq.EnsureTopology(t.Context(), "amqp://127.0.0.1:1", rabbitmq.Topology{Queues: []rabbitmq.Queue{{}}})
	if !errors.Is(err, bus.ErrInvalidTopology) {
		t.Error(err)
	}
}
