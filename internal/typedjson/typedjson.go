// Package typedjson is how typed messages and events are written as JSON and read from it, so that
// Go and Rust agree on what a payload is: compact, without HTML escaping, in UTF-8, at most 127
// levels deep, and nothing behind it.
package typedjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/watermill-envelope/envelope/internal/jsonscan"
)

// An Error says what is wrong, in words that quote nothing of a payload.
type Error struct {
	Reason string
	// Err is the cause, or nil. It may quote the payload: errors.Is and errors.As find it, but
	// what prints or encodes it sees the Reason.
	Err error
}

func (e *Error) Error() string { return e.Reason }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// EncodeMessage is [Encode] for a message. A nil pointer is none: null, which package json makes
// of it, is refused in Rust.
func EncodeMessage(m any) ([]byte, *Error) {
	if IsNil(m) {
		return nil, &Error{Reason: fmt.Sprintf("a nil message, %T", m)}
	}
	return Encode(m)
}

// IsNil reports whether v is nothing, or a nil pointer.
func IsNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

// Target returns what package json decodes an M into, which m points to: a struct or a pointer to
// one. An M that is a pointer points to a new value from here on, so that its methods may have a
// value receiver.
func Target[M any](m *M) any {
	if t := reflect.TypeFor[M](); t.Kind() == reflect.Pointer {
		*m = reflect.New(t.Elem()).Interface().(M)
		return *m
	}
	return m
}

// Encode returns m as compact JSON, with every character that JSON does not forbid as it is. What
// [Check] refuses is an error here.
func Encode(m any) ([]byte, *Error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, serialization("the message cannot be encoded", err)
	}
	payload := unescapeSeparators(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	if err := Check(payload); err != nil {
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

// Check refuses what package json takes and a Rust consumer does not, beside what is no JSON.
func Check(payload []byte) *Error {
	text := unsafe.String(unsafe.SliceData(payload), len(payload)) // a view, which does not outlive the call
	if end := jsonscan.Text(text); end < 0 {
		return &Error{Reason: fmt.Sprintf(
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
	return &Error{Reason: what, Err: &hidden{what, err}}
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

// Decode decodes a payload that [Check] accepts into target, by the rules of package json.
func Decode(payload []byte, target any) *Error {
	if err := Check(payload); err != nil {
		return err
	}
	if err := json.Unmarshal(payload, target); err != nil {
		return serialization("the payload cannot be decoded", err)
	}
	return nil
}

// Hide returns an error that prints as text, and in which errors.Is and errors.As find err.
func Hide(text string, err error) error { return &hidden{text, err} }
