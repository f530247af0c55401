package amqpwire_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
)

// What a message looks like on RabbitMQ.
func ExampleMarshaler() {
	m := amqpwire.Marshaler{Source: "orders", Tenant: "acme"}
	msg := message.NewMessage("m-1", []byte(`{"order":7}`))
	msg.Metadata.Set("correlation_id", "c-1")

	p, err := m.Marshal(msg)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.ContentType, p.MessageId, p.DeliveryMode)
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		fmt.Printf("%s: %v\n", name, p.Headers[name])
	}
	// Output:
	// application/json m-1 2
	// ankusa_id: m-1
	// ankusa_idempotency_key: m-1
	// ankusa_message_version: 1
	// ankusa_source_id: orders
	// ankusa_tenant_id: acme
	// content_type: application/json
	// correlation_id: c-1
}

// Headers of other producers and of the broker are metadata, as text.
func ExampleMarshaler_Unmarshal() {
	p, err := amqpwire.Marshaler{Source: "orders"}.Marshal(message.NewMessage("m-1", []byte(`{"order":7}`)))
	if err != nil {
		fmt.Println(err)
		return
	}
	p.Headers["priority"] = int32(5)
	p.Headers["x-death"] = []any{amqp.Table{"queue": "orders", "reason": "rejected", "count": int64(2)}}

	msg, err := amqpwire.Marshaler{}.Unmarshal(amqp.Delivery{
		DeliveryTag: 1, Exchange: "hooks", RoutingKey: "ankusa.orders", Headers: p.Headers, Body: p.Body,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(msg.Payload))
	fmt.Println(msg.Metadata["priority"])
	fmt.Println(msg.Metadata["x-death"])
	fmt.Println(msg.Metadata["envelope_receipt"])
	// Output:
	// {"order":7}
	// 5
	// [{"count":2,"queue":"orders","reason":"rejected"}]
	// hooks/ankusa.orders/2
}
