// Package bustest finds, in a test of the user's own message types, where Go and Rust read the
// same JSON differently. encoding/json and serde agree on plain structs of texts, integers,
// booleans and optional values; [CheckMessage] reports everything in a type that is not that:
//
//	func TestOrderPlaced(t *testing.T) {
//		bustest.CheckMessage(t, OrderPlaced{OrderID: "o-1", Quantity: 2})
//	}
//
// A trap that the Rust type is made for, or that does not matter, is accepted where it is:
//
//	Payload []byte `json:"payload" bustest:"ok"` // a base64 string in Rust
package bustest

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/watermill-envelope/envelope/bus"
)

// A Kind of trap.
type Kind string

// The kinds of traps, with what happens and what helps.
const (
	// Bytes: Go writes []byte as base64, Rust writes and reads Vec<u8> as an array of numbers.
	// [N]byte is an array in both; in Rust, a type with base64 helps.
	Bytes Kind = "bytes"
	// Duration: Go writes time.Duration as nanoseconds, Rust as an object of secs and nanos.
	// A number whose name says its unit helps.
	Duration Kind = "duration"
	// Interface: Go decodes numbers in it as float64, and cannot decode an interface with
	// methods at all. json.RawMessage keeps what came.
	Interface Kind = "interface"
	// Float: Rust writes null for a NaN or an infinity, which Go decodes as 0; Go cannot encode
	// them. A pointer, an Option in Rust, keeps null apart from 0.
	Float Kind = "float"
	// Null: a nil slice or map is written as null, which Rust refuses for Vec and HashMap.
	// omitempty with #[serde(default)] in Rust helps, or a value that is never nil.
	Null Kind = "null"
	// Omitted: omitempty and omitzero leave the member out, which Rust refuses unless it is an
	// Option or has #[serde(default)].
	Omitted Kind = "omitted"
	// Folded: names that differ only in case. Go decodes either into the other's field where
	// its own is absent; Rust never does.
	Folded Kind = "folded"
	// Hidden: two fields with the same name, of which Go writes one or none.
	Hidden Kind = "hidden"
	// Embedded: Go writes the fields of an embedded struct into the outer object, which in Rust
	// takes #[serde(flatten)].
	Embedded Kind = "embedded"
	// Untagged: without a name in its tag, a field is written as Go spells it, and Rust spells
	// its fields differently.
	Untagged Kind = "untagged"
	// Quoted: the option "string" writes a number or a boolean as text.
	Quoted Kind = "quoted"
	// Empty: a struct without members is {} in Go, which Rust reads into struct T {} and not
	// into struct T;.
	Empty Kind = "empty"
	// Unencodable: Go cannot write the value, or writes what no consumer decodes.
	Unencodable Kind = "unencodable"
	// Lossy: the value does not come back as it was, among others a text that is not UTF-8.
	Lossy Kind = "lossy"
	// Escaped: a MarshalJSON of the type escapes <, > and &, which Rust does not. The JSON says
	// the same.
	Escaped Kind = "escaped"
	// Name: the message type is empty, over 64 bytes (the limit of an outbox table), not UTF-8,
	// or not the same for every value.
	Name Kind = "name"
)

// A Trap is one finding.
type Trap struct {
	Kind Kind
	// Path is where it is in the type: "Lines[].Note", or empty for the message itself.
	Path string
	// Why says what it is about.
	Why string
}

// String is one line.
func (t Trap) String() string {
	if t.Path == "" {
		return fmt.Sprintf("%s: %s", t.Kind, t.Why)
	}
	return fmt.Sprintf("%s: %s: %s", t.Path, t.Kind, t.Why)
}

// CheckMessage reports every trap in M as an error of the test. Samples are messages as the
// service sends them: the more of their fields are set, the more is found.
func CheckMessage[M bus.Message](t testing.TB, samples ...M) {
	t.Helper()
	for _, trap := range Traps(samples...) {
		t.Errorf("%v: %v", reflect.TypeFor[M](), trap)
	}
}

// Traps returns every trap in M: those of the type in the order of its fields, then those of
// its zero value and the samples.
func Traps[M bus.Message](samples ...M) []Trap {
	var w walker
	w.typ("", reflect.TypeFor[M]())
	zero := newZero[M]()
	w.name(zero.MessageType())
	for _, sample := range append([]M{zero}, samples...) {
		if sample.MessageType() != zero.MessageType() {
			w.add(Name, "", fmt.Sprintf("%q, and %q for the zero value", sample.MessageType(), zero.MessageType()))
			continue
		}
		roundTrip(&w, sample)
	}
	return w.traps
}

func newZero[M bus.Message]() (m M) {
	if t := reflect.TypeFor[M](); t.Kind() == reflect.Pointer {
		m = reflect.New(t.Elem()).Interface().(M)
	}
	return m
}
