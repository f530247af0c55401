package outbox_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/outbox"
)

// someEvent is an event as a worker finds it in the table.
func someEvent() *outbox.Envelope {
	return outbox.Restore(
		uuid.MustParse("0192f0a1-0000-7000-8000-0000000000ff"), "orders.placed",
		[]byte(`{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","total":7}`),
		uuid.NullUUID{UUID: uuid.MustParse("0192f0a1-0000-7000-8000-000000000001"), Valid: true},
		time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 0, "", time.Time{}, time.Time{},
	)
}

// What a relay publishes of an event has the event's id, however often it is published. A form of
// one's own takes out of the payload what the table has no place for.
func ExampleTypedMessage() {
	form := func(e *outbox.Envelope) (*message.Message, error) {
		msg, err := outbox.TypedMessage(e)
		if err != nil {
			return nil, err
		}
		var event struct {
			Traceparent string `json:"traceparent"`
		}
		if err := json.Unmarshal(e.Payload, &event); err != nil {
			return nil, err
		}
		msg.Metadata["traceparent"] = event.Traceparent
		return msg, nil
	}
	config := outbox.RelayConfig{Form: form, Ordered: true}
	msg, err := config.Form(someEvent())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(msg.UUID)
	fmt.Println(msg.Metadata[bus.MetadataType], msg.Metadata[bus.MetadataCorrelationID] == msg.UUID)
	fmt.Println(msg.Metadata["traceparent"])
	// Output:
	// 0192f0a1-0000-7000-8000-0000000000ff
	// orders.placed true
	// 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
}

// As a hook an event is the body, and its subject the key that transports keep an order by.
func ExampleHookForm_Form() {
	form, err := outbox.HookForm{Source: "orders", Tenant: "acme"}.Form()
	if err != nil {
		fmt.Println(err)
		return
	}
	msg, err := form(someEvent())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(msg.UUID, msg.Metadata["ankusa_source_id"])
	fmt.Println(msg.Metadata["ankusa_ordering_key"], msg.Metadata[outbox.MetadataEventType])
	// Output:
	// 0192f0a1-0000-7000-8000-0000000000ff orders
	// 0192f0a1-0000-7000-8000-000000000001 orders.placed
}
