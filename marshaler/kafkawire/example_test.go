package kafkawire_test

import (
	"fmt"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

// What a message looks like on Kafka.
func ExampleMarshaler() {
	m := kafkawire.Marshaler{Source: "orders", Tenant: "acme"}
	msg := message.NewMessage("m-1", []byte(`{"order":7}`))
	msg.Metadata.Set("ankusa_dedupe_key", "order-7")
	msg.Metadata.Set("correlation_id", "c-1")

	record, err := m.Marshal("orders", msg)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("key:", record.Key)
	for _, h := range record.Headers {
		fmt.Printf("%s: %s\n", h.Key, h.Value)
	}
	// Output:
	// key: acme/orders
	// ankusa_id: m-1
	// ankusa_source_id: orders
	// ankusa_tenant_id: acme
	// ankusa_message_version: 1
	// ankusa_idempotency_key: acme:orders:order-7
	// content_type: application/json
	// ankusa_dedupe_key: order-7
	// correlation_id: c-1
}

// A topic that still holds messages of Watermill's own format.
func ExampleMarshaler_fallback() {
	m := kafkawire.Marshaler{Source: "orders", Fallback: kafka.DefaultMarshaler{}}
	msg, err := m.Unmarshal(&sarama.ConsumerMessage{
		Topic:   "orders",
		Value:   []byte(`{"order":7}`),
		Headers: []*sarama.RecordHeader{{Key: []byte("_watermill_message_uuid"), Value: []byte("m-1")}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(msg.UUID, string(msg.Payload))
	fmt.Println("read by the fallback:", msg.Metadata["envelope_fallback"])
	// Output:
	// m-1 {"order":7}
	// read by the fallback: true
}
