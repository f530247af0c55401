package bus_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
)

// anything is a message whose payload is any JSON.
type anything struct{ value any }

func (anything) MessageType() string            { return "tests.anything" }
func (a anything) MarshalJSON() ([]byte, error) { return json.Marshal(a.value) }

func (a *anything) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &a.value) }

// raw is a message whose payload is this text.
type raw string

func (raw) MessageType() string            { return "tests.raw" }
func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// text is a message that is a string.
type text string

func (text) MessageType() string { return "tests.text" }

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func TestNew(t *testing.T) {
	before := time.Now().Truncate(time.Millisecond)
	e, err := bus.New(correlationID, orderPlaced{"o-1", 2})
	if err != nil {
		t.Fatal(err)
	}
	if e.MessageType != "orders.placed" || string(e.Payload) != `{"order_id":"o-1","quantity":2}` || e.CorrelationID != correlationID {
		t.Errorf("%v %s", e, e.Payload)
	}
	if e.MessageID.Version() != 7 || e.ReplyTo != "" || e.Headers != nil || e.PublishedAt.Before(before) || e.PublishedAt.After(time.Now()) {
		t.Errorf("%v", e)
	}
	if e.PublishedAt != e.PublishedAt.Truncate(time.Millisecond).UTC() {
		t.Errorf("%v has more than other transports keep", e.PublishedAt)
	}
	if again, err := bus.New(uuid.Nil, orderPlaced{}); err != nil || again.MessageID == e.MessageID || again.CorrelationID != uuid.Nil {
		t.Errorf("%v, error %v", again, err)
	}
}

func TestWith(t *testing.T) {
	headers := map[string]string{"a": "1"}
	e := order()
	got := e.WithHeaders(headers).WithReplyTo("other")
	headers["a"] = "2"
	if got.ReplyTo != "other" || !maps.Equal(got.Headers, map[string]string{"a": "1"}) || got.MessageID != e.MessageID {
		t.Errorf("%#v %v", got, got.Headers)
	}
	if e.ReplyTo != "replies" || !maps.Equal(e.Headers, map[string]string{"tenant": "acme"}) {
		t.Errorf("changed: %#v %v", e, e.Headers)
	}
	if got := e.WithHeaders(nil); got.Headers != nil {
		t.Errorf("headers %v", got.Headers)
	}
}

// Rust escapes nothing but what it must.
func TestPayloadIsWrittenAsRustDoes(t *testing.T) {
	for in, want := range map[string]string{
		"<a href='x'>&amp;":     `"<a href='x'>&amp;"`,
		"\u2028 and \u2029":     "\"\u2028 and \u2029\"",
		`\u2028`:                `"\\u2028"`,
		`\` + "\u2028":          `"\\` + "\u2028\"",
		`\\u2029` + "\u2029\\":  `"\\\\u2029` + "\u2029\\\\\"",
		"\u2027\u202a":          "\"\u2027\u202a\"",
		"größe\U0001f600":       "\"größe\U0001f600\"",
		"\"\\\n\x00\x7f":        "\"\\\"\\\\\\n\\u0000\x7f\"",
		"a\u2028\n\u2029\\u202": "\"a\u2028\\n\u2029\\\\u202\"",
	} {
		e, err := bus.New(uuid.Nil, text(in))
		if err != nil || string(e.Payload) != want {
			t.Errorf("%q: %s, error %v, want %s", in, e.Payload, err, want)
		}
		if back, err := bus.Decode[text](e); err != nil || string(back) != in {
			t.Errorf("%q came back as %q, error %v", in, back, err)
		}
	}
	e, err := bus.New(uuid.Nil, raw(` { "a" : [ 1 , 2 ] } `))
	if err != nil || string(e.Payload) != `{"a":[1,2]}` {
		t.Errorf("%s, error %v", e.Payload, err)
	}
}

// What no consumer can decode is not made into a message.
func TestNewRefuses(t *testing.T) {
	for name, m := range map[string]bus.Message{
		"nothing":          nil,
		"a nil pointer":    (*anything)(nil),
		"NaN":              anything{math.NaN()},
		"a channel":        anything{make(chan int)},
		"128 levels":       raw(nested(128)),
		"half a surrogate": raw(`"\ud800"`),
		"bytes":            raw("\"\xff\""),
		"a huge number":    raw(`1e400`),
		"no JSON":          raw(`{`),
	} {
		e, err := bus.New(uuid.Nil, m)
		if e != nil || !errors.Is(err, bus.ErrSerialization) || !envelope.IsPermanent(err) {
			t.Errorf("%s: %v, error %v", name, e, err)
		}
	}
	if _, err := bus.New(uuid.Nil, raw(nested(127))); err != nil {
		t.Errorf("127 levels: %v", err)
	}
}

// decodeTests are the rules of reading, which FuzzDecode starts from.
var decodeTests = []struct{ rule, payload, want string }{ // want is the error, "" for none
	{"an object", `{"a":1}`, ""},
	{"any value", `"x"`, ""},
	{"null", `null`, ""},
	{"space around it", " \t\r\n{} \n", ""},
	{"127 levels", nested(127), ""},
	{"128 levels, on which Rust ends", nested(128), "malformed at byte 127 of 256: JSON in UTF-8, at most 127 levels deep"},
	{"128 levels in an object", `{"a":` + nested(127) + `}`, "malformed at byte 131 of 260: JSON in UTF-8, at most 127 levels deep"},
	{"nothing", ``, "malformed at byte 0 of 0: JSON in UTF-8, at most 127 levels deep"},
	{"bytes behind it", `{} x`, "malformed at byte 3 of 4: JSON in UTF-8, at most 127 levels deep"},
	{"a value behind it", `{}{}`, "malformed at byte 2 of 4: JSON in UTF-8, at most 127 levels deep"},
	{"a NUL behind it", "{}\x00", "malformed at byte 2 of 3: JSON in UTF-8, at most 127 levels deep"},
	{"a byte order mark", "\uFEFF{}", "malformed at byte 0 of 5: JSON in UTF-8, at most 127 levels deep"},
	{"text that is not UTF-8", "{\"a\":\"\xff\"}", "malformed at byte 6 of 9: JSON in UTF-8, at most 127 levels deep"},
	{"a name that is not UTF-8", "{\"\xc3\":1}", "malformed at byte 2 of 7: JSON in UTF-8, at most 127 levels deep"},
	{"half a surrogate pair", `"\ud800"`, "malformed at byte 1 of 8: JSON in UTF-8, at most 127 levels deep"},
	{"a surrogate pair", `"\ud83d\ude00"`, ""},
	{"a number beyond a double", `1e400`, "malformed at byte 0 of 5: JSON in UTF-8, at most 127 levels deep"},
	{"a large number", `1e300`, ""},
	{"an unfinished text", `{"a`, "malformed at byte 3 of 3: JSON in UTF-8, at most 127 levels deep"},
	{"a control character", "\"\n\"", "malformed at byte 1 of 3: JSON in UTF-8, at most 127 levels deep"},
	{"single quotes", `{'a':1}`, "malformed at byte 1 of 7: JSON in UTF-8, at most 127 levels deep"},
}

func TestDecode(t *testing.T) {
	for _, tt := range decodeTests {
		t.Run(tt.rule, func(t *testing.T) {
			_, err := bus.Decode[anything](&bus.Envelope{MessageType: "tests.anything", Payload: []byte(tt.payload)})
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, bus.ErrSerialization) || !envelope.IsPermanent(err) || err.Error() != "bus: serialization: "+tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

// Unknown members are passed over and the last of two counts, as package json has it.
func TestDecodeMembers(t *testing.T) {
	for payload, want := range map[string]orderPlaced{
		`{"order_id":"o-1","quantity":2}`:                       {"o-1", 2},
		`{"order_id":"o-1","quantity":2,"more":{"a":[1,null]}}`: {"o-1", 2},
		`{"quantity":1,"order_id":"o-1","quantity":2}`:          {"o-1", 2},
		`{"ORDER_ID":"o-1"}`:                                    {"o-1", 0},
		`{}`:                                                    {},
		`null`:                                                  {},
	} {
		e := &bus.Envelope{MessageType: "orders.placed", Payload: []byte(payload)}
		if got, err := bus.Decode[orderPlaced](e); err != nil || got != want {
			t.Errorf("%s: %v, error %v, want %v", payload, got, err, want)
		}
		// A pointer is never nil.
		if got, err := bus.Decode[*orderPlaced](e); err != nil || *got != want {
			t.Errorf("%s: %v, error %v, want %v", payload, got, err, want)
		}
	}
}

// The type is compared byte by byte, before the payload is looked at.
func TestDecodeTypeMismatch(t *testing.T) {
	for _, actual := range []string{"", "orders.paid", "Orders.Placed", "orders.placed ", "orders.placed\x00", "\xff"} {
		_, err := bus.Decode[orderPlaced](&bus.Envelope{MessageType: actual, Payload: []byte("secret: no JSON")})
		var mismatch *bus.Error
		if !errors.As(err, &mismatch) || mismatch.Code != bus.CodeTypeMismatch || mismatch.Expected != "orders.placed" || mismatch.Actual != actual {
			t.Errorf("%q: error %v", actual, err)
		}
		if !errors.Is(err, bus.ErrTypeMismatch) || !envelope.IsPermanent(err) {
			t.Errorf("class of %v", err)
		}
	}
}

// dated has fields whose decoders quote what they refuse.
type dated struct {
	At     time.Time       `json:"at"`
	Count  int8            `json:"count"`
	Number json.Number     `json:"number"`
	ID     uuid.UUID       `json:"id"`
	Sub    map[string]int8 `json:"sub"`
}

func (dated) MessageType() string { return "tests.dated" }

// No error shows the payload, whatever the decoder says, however it is printed, nor does its
// cause; errors.As finds the decoder's own.
func TestErrorsDoNotShowThePayload(t *testing.T) {
	for payload, want := range map[string]string{
		`{"at":"secret"}`:          "*time.ParseError",
		`{"count":"secret"}`:       `field "count" is not a int8, before byte 17`,
		`{"count":77731}`:          `field "count" is not a int8, before byte 14`,
		`{"number":"secret"}`:      "*errors.errorString",
		`{"id":"secret"}`:          "invalid UUID length",
		`{"sub":{"x":77731}}`:      `is not a int8, before byte`,
		`{"count":secret}`:         "malformed at byte 9",
		`{"secret":"secret","at":`: "malformed at byte",
	} {
		_, err := bus.Decode[dated](&bus.Envelope{MessageType: "tests.dated", Payload: []byte(payload)})
		if !errors.Is(err, bus.ErrSerialization) {
			t.Errorf("%s: error %v", payload, err)
			continue
		}
		for _, text := range printed(t, err) {
			if strings.Contains(text, "secret") || strings.Contains(text, "77731") {
				t.Errorf("%s is shown by %s", payload, text)
			}
		}
		if text := err.Error(); !strings.Contains(text, want) && want != "invalid UUID length" {
			t.Errorf("%s: error %v, want %s", payload, err, want)
		}
	}
	_, err := bus.Decode[dated](&bus.Envelope{MessageType: "tests.dated", Payload: []byte(`{"at":"x"}`)})
	var cause *time.ParseError
	if !errors.As(err, &cause) || cause.Value != "x" {
		t.Errorf("cause of %v", err)
	}
}

// printed returns the forms in which loggers write an error: each of its chain as text, and as
// the struct that it is.
func printed(t *testing.T, err error) (texts []string) {
	t.Helper()
	type failure struct{ Err error }
	for e := err; e != nil; e = errors.Unwrap(e) {
		texts = append(texts, e.Error())
	}
	var direct *bus.Error
	if !errors.As(err, &direct) {
		t.Fatalf("error %v", err)
	}
	for _, v := range []any{err, *direct, failure{err}, &failure{err}, []error{err}, map[string]error{"e": err}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			texts = append(texts, fmt.Sprintf(verb, v))
		}
		var out strings.Builder
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", v)
		texts = append(texts, out.String())
	}
	return texts
}

// FuzzDecode checks what holds for any payload: what is decoded is JSON that a Rust consumer reads
// as well, and is written to JSON that says the same.
func FuzzDecode(f *testing.F) {
	for _, tt := range decodeTests {
		f.Add("tests.anything", []byte(tt.payload))
	}
	f.Add("tests.other", []byte("{}"))
	f.Add("", []byte("\xff"))
	f.Fuzz(func(t *testing.T, messageType string, payload []byte) {
		e := &bus.Envelope{MessageType: messageType, Payload: payload}
		m, err := bus.Decode[anything](e)
		if (messageType == "tests.anything") == errors.Is(err, bus.ErrTypeMismatch) {
			t.Errorf("type %q: error %v", messageType, err)
		}
		if err != nil {
			if !envelope.IsPermanent(err) {
				t.Errorf("class of %v", err)
			}
			return
		}
		if !utf8.Valid(payload) || !json.Valid(payload) {
			t.Errorf("%q is decoded", payload)
		}
		depth, deepest, inString := 0, 0, false
		for i := 0; i < len(payload); i++ {
			switch c := payload[i]; {
			case inString && c == '\\':
				i++
			case c == '"':
				inString = !inString
			case inString:
			case c == '{' || c == '[':
				depth++
				deepest = max(deepest, depth)
			case c == '}' || c == ']':
				depth--
			}
		}
		if deepest > 127 {
			t.Errorf("%d levels", deepest)
		}
		again, err := bus.New(uuid.Nil, m)
		if err != nil {
			t.Fatalf("%q cannot be written: %v", payload, err)
		}
		back, err := bus.Decode[anything](again)
		if err != nil || !equalJSON(back.value, m.value) {
			t.Errorf("%q came back as %s, error %v", payload, again.Payload, err)
		}
	})
}

func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
