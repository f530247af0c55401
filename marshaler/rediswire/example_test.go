package rediswire_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/marshaler/rediswire"
)

// What a message looks like in a stream.
func ExampleMarshaler() {
	m := rediswire.Marshaler{Source: "orders", Tenant: "acme"}
	msg := message.NewMessage("m-1", []byte(`{"order":7}`))
	msg.Metadata.Set("ankusa_dedupe_key", "order-7")
	msg.Metadata.Set("correlation_id", "c-1")

	fields, err := m.Marshal("orders", msg)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name != "payload" {
			fmt.Printf("%s: %s\n", name, fields[name])
		}
	}
	// Output:
	// ankusa_dedupe_key: order-7
	// ankusa_id: m-1
	// ankusa_idempotency_key: acme:orders:order-7
	// ankusa_message_version: 1
	// ankusa_source_id: orders
	// ankusa_tenant_id: acme
	// content_type: application/json
	// meta:correlation_id: c-1
}

// A stream that still holds messages of Watermill's own format.
func ExampleMarshaler_fallback() {
	stock := redisstream.DefaultMarshallerUnmarshaller{}
	m := rediswire.Marshaler{Source: "orders", Fallback: stock}
	msg, err := m.Unmarshal(map[string]any{
		"_watermill_message_uuid": "m-1",
		"metadata":                "",
		"payload":                 `{"order":7}`,
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

// What a subscriber in another language is sent on a channel.
func ExamplePubSubMarshaler() {
	m := rediswire.PubSubMarshaler{Source: "orders"}
	msg := message.NewMessage("m-1", []byte(`hello`))
	msg.Metadata.Set("ankusa_received_at", "1737500000000")
	msg.Metadata.Set("correlation_id", "c-1")

	payload, err := m.Marshal("orders", msg)
	if err != nil {
		fmt.Println(err)
		return
	}
	opened, err := m.Unmarshal("orders", payload)
	fmt.Println(opened.UUID, string(opened.Payload), opened.Metadata["correlation_id"], err)
	// Output:
	// m-1 hello c-1 <nil>
}
