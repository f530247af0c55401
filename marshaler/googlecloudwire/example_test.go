package googlecloudwire_test

import (
	"fmt"
	"maps"
	"slices"

	"cloud.google.com/go/pubsub/v2"
	"github.com/ThreeDotsLabs/watermill-googlecloud/v2/pkg/googlecloud"
	"github.com/ThreeDotsLabs/watermill/message"

	googlecloudwire "github.com/watermill-envelope/envelope/marshaler/googlecloudwire/v2"
)

// What a message looks like in a topic.
func Example() {
	m := googlecloudwire.Marshaler{Source: "orders", Tenant: "acme", Ordered: true}
	msg := message.NewMessage("m-1", []byte(`{"order":7}`))
	msg.Metadata.Set("ankusa_dedupe_key", "order-7")
	msg.Metadata.Set("correlation_id", "c-1")

	out, err := m.Marshal("orders", msg)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ordering key", out.OrderingKey)
	for _, name := range slices.Sorted(maps.Keys(out.Attributes)) {
		fmt.Printf("%s: %s\n", name, out.Attributes[name])
	}
	// Output:
	// ordering key acme/orders
	// ankusa_dedupe_key: order-7
	// ankusa_id: m-1
	// ankusa_idempotency_key: acme:orders:order-7
	// ankusa_message_version: 1
	// ankusa_ordering_key: acme/orders
	// ankusa_source_id: orders
	// ankusa_tenant_id: acme
	// content_type: application/json
	// correlation_id: c-1
}

// A topic that still holds messages of Watermill's own format.
func Example_fallback() {
	m := googlecloudwire.Marshaler{Source: "orders", Fallback: googlecloud.DefaultMarshalerUnmarshaler{}}
	msg, err := m.Unmarshal(&pubsub.Message{
		ID:         "7",
		Data:       []byte(`{"order":7}`),
		Attributes: map[string]string{googlecloud.UUIDHeaderKey: "m-1"},
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
