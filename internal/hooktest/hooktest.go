// Package hooktest has the hook that the tests of the marshalers have in common: the one of
// the wire format's documentation.
package hooktest

import "github.com/ThreeDotsLabs/watermill/message"

// The id and the trace context of the hook.
const (
	ID          = "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10"
	Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

// Message returns the hook as an open message, new each time.
func Message() *message.Message {
	return With(
		message.NewMessage(ID, message.Payload("hello")),
		"ankusa_id", ID,
		"ankusa_source_id", "stripe",
		"ankusa_tenant_id", "acme",
		"ankusa_received_at", "1737500000000",
		"ankusa_content_type", "application/json",
		"ankusa_dedupe_key", "evt_1",
		"ankusa_idempotency_key", "acme:stripe:evt_1",
		"ankusa_verification", "ok",
		"ankusa_headers", `{"x-github-event":"push"}`,
		"ankusa_instance", "default",
		"ankusa_region", "eu-west-1",
		"ankusa_size", "5",
		"ankusa_sha256", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
		"traceparent", Traceparent,
	)
}

// With sets metadata of msg, given as keys and values in turn, and returns msg.
func With(msg *message.Message, entries ...string) *message.Message {
	for i := 0; i < len(entries); i += 2 {
		msg.Metadata[entries[i]] = entries[i+1]
	}
	return msg
}
