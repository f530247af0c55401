package outbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/outbox"
)

type userRegistered struct {
	Email string `json:"email"`
	Age   int8   `json:"age,omitempty"`
}

func (userRegistered) EventType() string { return "users.registered" }

// anything is an event whose payload is any JSON, under any name.
type anything struct {
	name  string
	value any
}

func (a anything) EventType() string            { return a.name }
func (a anything) MarshalJSON() ([]byte, error) { return json.Marshal(a.value) }

func (a *anything) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &a.value) }

// raw is an event whose payload is this text.
type raw string

func (raw) EventType() string              { return "tests.raw" }
func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// value is an event that is any JSON.
type value struct{ anything }

func (value) EventType() string { return "tests.value" }

var (
	eventID   = uuid.MustParse("0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10")
	subjectID = uuid.MustParse("0199a1c2-0000-7000-8000-00000000002a")
	createdAt = time.Date(2025, 1, 21, 22, 53, 20, 123_456_000, time.UTC)
)

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func TestNewEnvelope(t *testing.T) {
	before := time.Now().Truncate(time.Millisecond)
	e, err := outbox.NewEnvelopeWithSubject(eventID, uuid.Nil, userRegistered{Email: "<a&b>\u2028"})
	if err != nil {
		t.Fatal(err)
	}
	if e.EventID != eventID || e.EventType != "users.registered" || string(e.Payload) != "{\"email\":\"<a&b>\u2028\"}" ||
		e.SubjectID != (uuid.NullUUID{Valid: true}) || e.Attempts != 0 || e.LastError != "" || !e.NextRetryAt.IsZero() || !e.DeliveredAt.IsZero() {
		t.Errorf("%v %s", e, e.Payload)
	}
	if e.CreatedAt.Before(before) || e.CreatedAt.After(time.Now()) || e.CreatedAt != e.CreatedAt.UTC().Truncate(time.Millisecond) {
		t.Errorf("created at %v", e.CreatedAt)
	}
	if got, err := outbox.Decode[*userRegistered](e); err != nil || got.Email != "<a&b>\u2028" {
		t.Errorf("%v, %v", got, err)
	}
	if e, err := outbox.NewEnvelope(eventID, userRegistered{}); err != nil || e.SubjectID.Valid {
		t.Errorf("%v, %v", e, err)
	}
	for rule, event := range map[string]outbox.Event{
		"nothing": nil, "a nil pointer": (*userRegistered)(nil), "NaN": anything{"x", math.NaN()}, "128 levels": raw(nested(128)),
		"half a surrogate": raw(`"\ud800"`), "no JSON": raw(`{`),
	} {
		if e, err := outbox.NewEnvelope(eventID, event); e != nil || !errors.Is(err, outbox.ErrSerialization) || !envelope.IsPermanent(err) {
			t.Errorf("%s: %v, %v", rule, e, err)
		}
	}
	if got := outbox.TypeOf[*userRegistered](); got != "users.registered" || outbox.TypeOf[userRegistered]() != got {
		t.Error(got)
	}
	if outbox.NewID().Version() != 7 {
		t.Error("an id of another version")
	}
}

func TestRestore(t *testing.T) {
	payload := []byte("not JSON")
	subject := uuid.NullUUID{UUID: subjectID, Valid: true}
	e := outbox.Restore(eventID, "", payload, subject, createdAt, -1, "no stock", createdAt.Add(1), createdAt.Add(2))
	want := outbox.Envelope{
		EventID: eventID, Payload: payload, SubjectID: subject, CreatedAt: createdAt, Attempts: -1, LastError: "no stock",
		NextRetryAt: createdAt.Add(1), DeliveredAt: createdAt.Add(2),
	}
	if fmt.Sprint(*e) != fmt.Sprint(want) || string(e.Payload) != "not JSON" {
		t.Errorf("%v", e)
	}
}

func TestCheckType(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"a", ""},
		{strings.Repeat("t", 64), ""},
		{strings.Repeat("日", 21) + "x", ""},
		{"", "outbox: invalid_event: event type: is empty"},
		{strings.Repeat("t", 65), "outbox: invalid_event: event type: exceeds its column: 65 bytes, at most 64"},
		{strings.Repeat("日", 22), "outbox: invalid_event: event type: exceeds its column: 66 bytes, at most 64"},
		{"a\xff", "outbox: invalid_event: event type: is not UTF-8"},
		{"a\x00", "outbox: invalid_event: event type: has a NUL, which PostgreSQL does not store"},
	} {
		err := outbox.CheckType(test.name)
		if err == nil && test.want != "" || err != nil && (err.Error() != test.want || !errors.Is(err, outbox.ErrInvalidEvent) || !envelope.IsPermanent(err)) {
			t.Errorf("%q: %v, want %s", test.name, err, test.want)
		}
	}
}

// decodeTests are the rules of reading, which FuzzDecode starts from.
var decodeTests = []struct {
	rule, eventType, payload string
	err                      error
}{
	{"an object", "tests.value", `{"a":1}`, nil},
	{"any value", "tests.value", ` "x" `, nil},
	{"127 levels", "tests.value", nested(127), nil},
	{"128 levels", "tests.value", nested(128), outbox.ErrSerialization},
	{"bytes behind it", "tests.value", `{} x`, outbox.ErrSerialization},
	{"nothing", "tests.value", ``, outbox.ErrSerialization},
	{"text that is not UTF-8", "tests.value", "\"\xff\"", outbox.ErrSerialization},
	{"half a surrogate pair", "tests.value", `"\ud800"`, outbox.ErrSerialization},
	{"a number beyond a double", "tests.value", `1e400`, outbox.ErrSerialization},
	{"another type, before it is looked at", "tests.other", "secret: no JSON", outbox.ErrTypeMismatch},
	{"another case", "Tests.value", `{}`, outbox.ErrTypeMismatch},
	{"no type", "", `{}`, outbox.ErrTypeMismatch},
}

func TestDecode(t *testing.T) {
	for _, test := range decodeTests {
		_, err := outbox.Decode[value](&outbox.Envelope{EventType: test.eventType, Payload: []byte(test.payload)})
		if !errors.Is(err, test.err) || (err != nil) != (test.err != nil) || err != nil && !envelope.IsPermanent(err) {
			t.Errorf("%s: %v, want %v", test.rule, err, test.err)
		}
		var e *outbox.Error
		if test.err == outbox.ErrTypeMismatch && (!errors.As(err, &e) || e.Expected != "tests.value" || e.Actual != test.eventType) {
			t.Errorf("%s: %v", test.rule, err)
		}
	}
}

// No error shows the payload, whatever the decoder says.
func TestErrorsDoNotShowThePayload(t *testing.T) {
	for _, payload := range []string{`{"email":1,"age":"secret"}`, `{"age":77731}`, `{"email":secret}`} {
		_, err := outbox.Decode[userRegistered](&outbox.Envelope{EventType: "users.registered", Payload: []byte(payload)})
		var e *outbox.Error
		if !errors.As(err, &e) {
			t.Fatalf("%s: %v", payload, err)
		}
		var out strings.Builder
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", err, "e", e.Err)
		for _, text := range []string{err.Error(), fmt.Sprintf("%+v %#v", *e, e.Err), out.String()} {
			if strings.Contains(text, "secret") || strings.Contains(text, "77731") {
				t.Errorf("%s is shown by %s", payload, text)
			}
		}
	}
}

// FuzzDecode checks what holds for any payload: what is decoded is JSON that a Rust worker reads
// as well, and is written to JSON that says the same.
func FuzzDecode(f *testing.F) {
	for _, test := range decodeTests {
		f.Add(test.eventType, []byte(test.payload))
	}
	f.Fuzz(func(t *testing.T, eventType string, payload []byte) {
		event, err := outbox.Decode[value](&outbox.Envelope{EventType: eventType, Payload: payload})
		if (eventType == "tests.value") == errors.Is(err, outbox.ErrTypeMismatch) {
			t.Errorf("type %q: %v", eventType, err)
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
		again, err := outbox.NewEnvelope(eventID, event)
		if err != nil {
			t.Fatalf("%q cannot be written: %v", payload, err)
		}
		back, err := outbox.Decode[value](again)
		if err != nil || fmt.Sprint(back.value) != fmt.Sprint(event.value) {
			t.Errorf("%q came back as %s, %v", payload, again.Payload, err)
		}
	})
}
