package natswire_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope/marshaler/natswire"
)

// What a message looks like on NATS.
func ExampleMarshaler() {
	m := natswire.Marshaler{Source: "orders", Tenant: "acme"}
	msg := message.NewMessage("m-1", []byte(`{"order":7}`))
	msg.Metadata.Set("correlation_id", "c-1")

	out, err := m.Marshal("hooks", msg)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out.Subject)
	for _, name := range slices.Sorted(maps.Keys(out.Header)) {
		fmt.Printf("%s: %s\n", name, out.Header.Get(name))
	}
	// Output:
	// hooks
	// Nats-Msg-Id: m-1
	// ankusa_id: m-1
	// ankusa_idempotency_key: m-1
	// ankusa_message_version: 1
	// ankusa_source_id: orders
	// ankusa_tenant_id: acme
	// content_type: application/json
	// correlation_id: c-1
}

// A message that came from a stream goes to another subject of it under another id, which is
// the same whenever the handler runs again.
func ExampleMarshaler_Unmarshal() {
	m := natswire.Marshaler{Source: "orders"}
	out, err := m.Marshal("hooks.in", message.NewMessage("m-1", []byte(`{"order":7}`)))
	if err != nil {
		fmt.Println(err)
		return
	}
	msg, err := m.Unmarshal(&nats.Msg{
		Subject: "hooks.in", Header: out.Header, Data: out.Data,
		Reply: "$JS.ACK.HOOKS.billing.1.42.7.1737500000000000000.0", // as JetStream writes it
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(msg.Payload), msg.Metadata["envelope_receipt"])
	for range 2 {
		next, err := m.Marshal("hooks.next", msg)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(next.Header.Get("Nats-Msg-Id"))
	}
	// Output:
	// {"order":7} HOOKS/42
	// m-1:27f4329c1752894c
	// m-1:27f4329c1752894c
}
