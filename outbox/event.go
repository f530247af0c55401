package outbox

import (
	"unicode/utf8"

	"github.com/watermill-envelope/envelope/internal/typedjson"
)

// MaxTypeBytes is the most bytes of the name of an event type, which is the width of its column.
const MaxTypeBytes = 64

// An Event is a Go type that is stored as JSON under a stable name.
type Event interface {
	// EventType returns the name: what the table has as event_type, what handlers are chosen by,
	// and what a Rust service has as EVENT_TYPE. It must be the same for every value of the Go
	// type, the zero value included; of 1 to 64 bytes of UTF-8 without NUL; and never change,
	// whatever the Go type is called. It is compared byte by byte. Dots by convention:
	// "orders.placed". A type may be a message of package bus as well, under the same name.
	EventType() string
}

// TypeOf returns the name of the event type E, a struct or a pointer to one.
func TypeOf[E Event]() string {
	var e E
	typedjson.Target(&e)
	return e.EventType()
}

// CheckType refuses a name that the tables cannot hold: an InvalidEvent.
func CheckType(eventType string) error {
	switch {
	case eventType == "":
		return invalid("event type", "is empty")
	case len(eventType) > MaxTypeBytes:
		return &Error{
			Code: CodeInvalidEvent, Field: "event type", Reason: "exceeds its column",
			Size: int64(len(eventType)), Max: MaxTypeBytes,
		}
	case !utf8.ValidString(eventType):
		return invalid("event type", "is not UTF-8")
	}
	for i := range len(eventType) {
		if eventType[i] == 0 {
			return invalid("event type", "has a NUL, which PostgreSQL does not store")
		}
	}
	return nil
}

// encode returns the payload of e.
func encode(e Event) ([]byte, error) {
	payload, err := typedjson.EncodeMessage(e)
	if err != nil {
		return nil, serialization(err)
	}
	return payload, nil
}

func serialization(err *typedjson.Error) *Error {
	return &Error{Code: CodeSerialization, Reason: err.Reason, Err: err.Err}
}

// Decode returns the event in e. An E is a struct or a pointer to one.
//
// The type is checked first: a TypeMismatch has the names of both, and the payload was not
// looked at. Anything else that is wrong is a Serialization: no JSON, bytes behind it, text that
// is not UTF-8, half a surrogate pair, a number beyond a double, more than 127 nested objects
// and arrays, and what package encoding/json refuses for E. Unknown members are passed over. Of
// members that are there twice the last one counts, where Rust refuses the event.
func Decode[E Event](e *Envelope) (E, error) {
	var event, none E
	into := typedjson.Target(&event)
	if expected := event.EventType(); e.EventType != expected {
		return none, &Error{Code: CodeTypeMismatch, Expected: expected, Actual: e.EventType}
	}
	if err := typedjson.Decode(e.Payload, into); err != nil {
		return none, serialization(err)
	}
	return event, nil
}
