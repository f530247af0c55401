package bus

import "github.com/watermill-envelope/envelope/internal/typedjson"

// encodeMessage returns the payload of m.
func encodeMessage(m any) ([]byte, error) {
	payload, err := typedjson.EncodeMessage(m)
	if err != nil {
		return nil, serialization(err)
	}
	return payload, nil
}

func serialization(err *typedjson.Error) *Error {
	return &Error{Code: CodeSerialization, Reason: err.Reason, Err: err.Err}
}

// Decode returns the message in e. An M is a struct or a pointer to one.
//
// The type is checked first: a TypeMismatch has the names of both, and the payload was not
// looked at. Anything else that is wrong is a Serialization: no JSON, bytes behind it, text that
// is not UTF-8, half a surrogate pair, a number beyond a double, more than 127 nested objects
// and arrays, and what package encoding/json refuses for M. Unknown members are passed over. Of
// members that are there twice the last one counts, where Rust refuses the message.
func Decode[M Message](e *Envelope) (M, error) {
	var m, none M
	into := typedjson.Target(&m)
	if err := decode(e.MessageType, e.Payload, m.MessageType(), into); err != nil {
		return none, err
	}
	return m, nil
}

// decode decodes a payload into target, a message type called expected.
func decode(actual string, payload []byte, expected string, target any) error {
	if actual != expected {
		return &Error{Code: CodeTypeMismatch, Expected: expected, Actual: actual}
	}
	if err := typedjson.Decode(payload, target); err != nil {
		return serialization(err)
	}
	return nil
}
