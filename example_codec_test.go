package envelope_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/watermill-envelope/envelope"
)

// A program without Watermill writes a message and reads one.
func ExampleParseWire() {
	e := envelope.Envelope{
		ID:           "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10",
		SourceID:     "stripe",
		TenantID:     "acme",
		ReceivedAt:   time.UnixMilli(1737500000000),
		ContentType:  "application/json",
		Headers:      []envelope.Header{{Name: "Stripe-Signature", Value: "t=1,v1=5257a869"}},
		Body:         []byte("hello"),
		DedupeKey:    "evt_1",
		Verification: envelope.Verification{Status: envelope.VerificationOK},
	}
	message, err := e.AppendWire(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	got, err := envelope.ParseWire(message)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(got.IdempotencyKey, got.Verification.Trusted())
	fmt.Println(got.Headers[0].Name)
	fmt.Printf("%s\n", got.Body)
	// Output:
	// acme:stripe:evt_1 true
	// stripe-signature
	// hello
}

// The order of members is always the same, with the body at the end.
func ExampleEnvelope_AppendWire() {
	e := envelope.Envelope{ID: "1", SourceID: "github", ReceivedAt: time.UnixMilli(1737500000000), Body: []byte("{}")}
	message, err := e.AppendWire(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(message))
	// Output:
	// {"v":1,"id":"1","source_id":"github","tenant_id":null,"received_at":1737500000000,"content_type":null,"size":2,"dedupe_key":null,"replay_id":null,"idempotency_key":"1","verification":{"status":"skipped","flagged":false},"headers":{},"traceparent":null,"tracestate":null,"instance":null,"region":null,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","body_base64":"e30="}
}

// A message that was tampered with, or is none, says which check it failed.
func ExampleError_codec() {
	for _, message := range []string{
		`{"v":1,"id":"1","source_id":"s","received_at":1,"size":3,"body_base64":"e30="}`,
		`{"v":1,"id":"1","source_id":"s","received_at":"now"}`,
		`<xml/>`,
	} {
		_, err := envelope.ParseWire([]byte(message))
		var e *envelope.Error
		if errors.As(err, &e) {
			fmt.Printf("%s %q\n", e.Code, e.Field)
		}
	}
	// Output:
	// size_mismatch ""
	// invalid_field "received_at"
	// invalid_json ""
}

// One buffer serves for all bodies, when each is done with before the next message.
func ExampleParseWireInto() {
	messages := [][]byte{
		[]byte(`{"v":1,"id":"1","source_id":"s","received_at":1,"size":5,"body_base64":"Zmlyc3Q="}`),
		[]byte(`{"v":1,"id":"2","source_id":"s","received_at":2,"size":3,"body_base64":"dHdv"}`),
	}
	buf := make([]byte, 0, 64)
	for _, message := range messages {
		e, err := envelope.ParseWireInto(buf[:0], message)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s is %s\n", e.ID, e.Body)
		if cap(e.Body) > cap(buf) {
			buf = e.Body
		}
	}
	// Output:
	// 1 is first
	// 2 is two
}
