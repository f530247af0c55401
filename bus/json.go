package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/watermill-envelope/envelope/internal/jsonscan"
)

// encodeMessage returns the payload of m. A nil pointer is no message: null, which package json
// makes of it, is refused in Rust.
func encodeMessage(m any) ([]byte, error) {
	if isNil(m) {
		return nil, &Error{Code: CodeSerialization, Reason: fmt.Sprintf("a nil message, %T", m)}
	}
	return encode(m)
}

func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

// encode returns m as compact JSON, with every character that JSON does not forbid as it is.
func encode(m any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, serialization("the message cannot be encoded", err)
	}
	payload := unescapeSeparators(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	if err := checkJSON(payload); err != nil {
		return nil, err
	}
	return payload, nil
}

// unescapeSeparators puts U+2028 and U+2029 in the place of their escape sequences, which
// package json always writes.
func unescapeSeparators(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\u202`)) {
		return text
	}
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		switch {
		case bytes.HasPrefix(text, []byte(`\u2028`)):
			out, text = append(out, "\u2028"...), text[6:]
		case bytes.HasPrefix(text, []byte(`\u2029`)):
			out, text = append(out, "\u2029"...), text[6:]
		case text[0] == '\\': // and what it escapes, a backslash too
			out, text = append(out, text[:2]...), text[2:]
		default:
			out, text = append(out, text[0]), text[1:]
		}
	}
	return out
}

// checkJSON refuses what package json takes and a Rust consumer does not, beside what is no JSON.
func checkJSON(payload []byte) error {
	text := unsafe.String(unsafe.SliceData(payload), len(payload)) // a view, which does not outlive the call
	if end := jsonscan.Text(text); end < 0 {
		return &Error{Code: CodeSerialization, Reason: fmt.Sprintf(
			"malformed at byte %d of %d: JSON in UTF-8, at most %d levels deep", ^end, len(payload), jsonscan.MaxDepth)}
	}
	return nil
}

// serialization is an error that shows nothing of the payload: of err only what kind it is, and
// where.
func serialization(what string, err error) *Error {
	var (
		syntax   *json.SyntaxError
		mismatch *json.UnmarshalTypeError
	)
	switch {
	case errors.As(err, &mismatch):
		what += fmt.Sprintf(": field %.128q is not a %s, before byte %d", mismatch.Field, mismatch.Type, mismatch.Offset)
	case errors.As(err, &syntax):
		what += fmt.Sprintf(": no JSON, before byte %d", syntax.Offset)
	default:
		what += fmt.Sprintf(": %T", err)
	}
	return &Error{Code: CodeSerialization, Reason: what, Err: &hidden{what, err}}
}

// A hidden cause is found by errors.Is and errors.As, but not by what prints or encodes errors:
// it may quote the payload.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string        { return h.text }
func (h *hidden) Is(target error) bool { return errors.Is(h.err, target) }
func (h *hidden) As(target any) bool   { return errors.As(h.err, target) }

// Decode returns the message in e. An M is a struct or a pointer to one.
//
// The type is checked first: a TypeMismatch has the names of both, and the payload was not
// looked at. Anything else that is wrong is a Serialization: no JSON, bytes behind it, text that
// is not UTF-8, half a surrogate pair, a number beyond a double, more than 127 nested objects
// and arrays, and what package encoding/json refuses for M. Unknown members are passed over. Of
// members that are there twice the last one counts, where Rust refuses the message.
func Decode[M Message](e *Envelope) (M, error) {
	var m, none M
	into := target(&m)
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
	if err := checkJSON(payload); err != nil {
		return err
	}
	if err := json.Unmarshal(payload, target); err != nil {
		return serialization("the payload cannot be decoded", err)
	}
	return nil
}
