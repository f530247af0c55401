package sqswire_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/marshaler/sqswire"
)

// What a message looks like in a queue.
func ExampleMarshaler() {
	m := sqswire.Marshaler{Source: "orders", Tenant: "acme"}
	msg := message.NewMessage("m-1", []byte(`{"order":7}`))
	msg.Metadata.Set("ankusa_dedupe_key", "order-7")
	msg.Metadata.Set("correlation_id", "c-1")

	out, err := m.Marshal(msg)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(out.MessageAttributes)) {
		fmt.Printf("%s: %s\n", name, *out.MessageAttributes[name].StringValue)
	}
	fmt.Println("MessageGroupId of a FIFO queue:", out.Attributes["MessageGroupId"])
	// Output:
	// ankusa_dedupe_key: order-7
	// ankusa_id: m-1
	// ankusa_idempotency_key: acme:orders:order-7
	// ankusa_message_version: 1
	// ankusa_source_id: orders
	// ankusa_tenant_id: acme
	// content_type: application/json
	// MessageGroupId of a FIFO queue: acme/orders
}
