package outbox

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/internal/jsonscan"
)

const someID = "0192f0a1-0000-7000-8000-0000000000ff"

var someBytes = []byte("\x01\x92\xf0\xa1\x00\x00\x70\x00\x80\x00\x00\x00\x00\x00\x00\xff")

// goodRow is a row that can be decoded.
func goodRow() rawRow {
	return rawRow{id: 7, eventID: someBytes, eventType: "orders.placed", payload: `{"n":1}`, created: "2026-01-02T03:04:05.678Z", attempts: int64(2)}
}

// What drivers return for columns that are right: pgx and lib/pq, go-sql-driver, modernc and
// mattn.
func TestDecodeRow(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	for _, test := range []struct {
		rule   string
		change func(*rawRow)
		check  func(*Envelope) bool
	}{
		{"as it is", func(*rawRow) {}, func(e *Envelope) bool {
			return e.EventType == "orders.placed" && string(e.Payload) == `{"n":1}` && e.Attempts == 2 && !e.SubjectID.Valid &&
				e.LastError == "" && e.NextRetryAt.IsZero() && e.DeliveredAt.IsZero()
		}},
		{"id as text", func(r *rawRow) { r.eventID = someID }, nil},
		{"id as bytes of text", func(r *rawRow) { r.eventID = []byte(someID) }, nil},
		{"id as an array", func(r *rawRow) { r.eventID = [16]byte(someBytes) }, nil},
		{"id of SQLite", func(r *rawRow) { r.eventIDType, r.payloadType, r.subjType = "blob", "text", "null" }, nil},
		{"payload as bytes", func(r *rawRow) { r.payload = []byte(`{"n":1}`) }, nil},
		{"a payload that is a number", func(r *rawRow) { r.payload = "7" }, func(e *Envelope) bool { return string(e.Payload) == "7" }},
		{"subject", func(r *rawRow) { r.subject = someBytes }, func(e *Envelope) bool { return e.SubjectID.Valid && e.SubjectID.UUID.String() == someID }},
		{"subject that is nil", func(r *rawRow) { r.subject = make([]byte, 16) }, func(e *Envelope) bool { return e.SubjectID.Valid && e.SubjectID.UUID == uuid.Nil }},
		{"microseconds", func(r *rawRow) { r.created = at.UnixMicro() }, nil},
		{"time", func(r *rawRow) { r.created = at.In(time.FixedZone("east", 3600)) }, nil},
		{"time of MySQL", func(r *rawRow) { r.created = []byte("2026-01-02 03:04:05.678000") }, nil},
		{"time with a space", func(r *rawRow) { r.created = "2026-01-02 03:04:05" }, func(e *Envelope) bool { return e.CreatedAt.Equal(at.Truncate(time.Second)) }},
		{"attempts as bytes", func(r *rawRow) { r.attempts = []byte("2") }, func(e *Envelope) bool { return e.Attempts == 2 }},
		{"attempts of 32 bits", func(r *rawRow) { r.attempts = int32(2) }, func(e *Envelope) bool { return e.Attempts == 2 }},
		{"negative attempts", func(r *rawRow) { r.attempts = int64(-7) }, func(e *Envelope) bool { return e.Attempts == 0 }},
		{"attempts that are none", func(r *rawRow) { r.attempts = "many" }, func(e *Envelope) bool { return e.Attempts == 0 }},
		{"error", func(r *rawRow) { r.lastError = []byte("no stock") }, func(e *Envelope) bool { return e.LastError == "no stock" }},
		{"due again", func(r *rawRow) { r.retry = "2026-01-02T03:04:05.678Z" }, func(e *Envelope) bool { return e.NextRetryAt.Equal(at) }},
		{"due again at no time", func(r *rawRow) { r.retry = "soon" }, func(e *Envelope) bool { return e.NextRetryAt.IsZero() }},
	} {
		raw := goodRow()
		test.change(&raw)
		got := raw.decode()
		if got.envelope == nil {
			t.Errorf("%s: %s", test.rule, got.reason)
			continue
		}
		e := got.envelope
		if e.EventID.String() != someID || got.id != 7 || got.attempts != int64(e.Attempts)+1 || got.reason != "" {
			t.Errorf("%s: row %+v", test.rule, got)
		}
		if test.check == nil && !e.CreatedAt.Equal(at) || test.check != nil && !test.check(e) {
			t.Errorf("%s: %+v", test.rule, *e)
		}
	}
}

var undecodableRows = []struct {
	reason string
	change func(*rawRow)
}{
	{"event_id is text, want a blob", func(r *rawRow) { r.eventID, r.eventIDType = someID, "text" }},
	{"event_id is text, want a blob", func(r *rawRow) { r.eventIDType = "text" }},
	{"event_id is no UUID", func(r *rawRow) { r.eventID = nil }},
	{"event_id is no UUID", func(r *rawRow) { r.eventID = someBytes[:15] }},
	{"event_id is no UUID", func(r *rawRow) { r.eventID = strings.ReplaceAll(someID, "0", "x") }},
	{"event_id is no UUID", func(r *rawRow) { r.eventID = "{" + someID + "}" }},
	{"event_id is no UUID", func(r *rawRow) { r.eventID = int64(7) }},
	{"event_type is no text", func(r *rawRow) { r.eventType = nil }},
	{"event_type is no text", func(r *rawRow) { r.eventType = "" }},
	{"event_type is no text", func(r *rawRow) { r.eventType = "\xff" }},
	{"payload is blob, want text", func(r *rawRow) { r.payload, r.payloadType = []byte("{}"), "blob" }},
	{"payload is malformed at byte 0 of 0", func(r *rawRow) { r.payload = nil }},
	{"payload is malformed at byte 2 of 3", func(r *rawRow) { r.payload = "{}x" }},
	{"payload is malformed at byte 127 of 256", func(r *rawRow) { r.payload = strings.Repeat("[", 128) + strings.Repeat("]", 128) }},
	{"payload is malformed at byte 1", func(r *rawRow) { r.payload = []byte("\"\xff\"") }},
	{"subject_id is text, want a blob", func(r *rawRow) { r.subject, r.subjType = someID, "text" }},
	{"subject_id is no UUID", func(r *rawRow) { r.subject = []byte("short") }},
	{"created_at is no time", func(r *rawRow) { r.created = nil }},
	{"created_at is no time", func(r *rawRow) { r.created = "2026-01-02T03:04:05.678+01:00" }},
	{"created_at is no time", func(r *rawRow) { r.created = "2026-01-02T03:04:05Z" }},
	{"created_at is no time", func(r *rawRow) { r.created = "2026-01-02T03:04:05.67Z0" }},
	{"created_at is no time", func(r *rawRow) { r.created = "2026-02-30 03:04:05" }},
	{"created_at is no time", func(r *rawRow) { r.created = "0000-00-00 00:00:00.000000" }},
	{"created_at is no time", func(r *rawRow) { r.created = 2461042.5 }},
}

func TestDecodeRowFails(t *testing.T) {
	for _, test := range undecodableRows {
		raw := goodRow()
		test.change(&raw)
		got := raw.decode()
		if got.envelope != nil || !strings.HasPrefix(got.reason, "undecodable: "+test.reason) {
			t.Errorf("got %q, want %q", got.reason, test.reason)
		}
		if got.id != 7 || got.attempts != 3 {
			t.Errorf("%s: row %d with %d attempts, want 7 with 3", test.reason, got.id, got.attempts)
		}
	}
}

// storages are the storage classes of SQLite's, and that of other databases.
var storages = []string{"", "blob", "text", "integer", "real", "null"}

func FuzzDecodeRow(f *testing.F) {
	add := func(r rawRow) {
		f.Add(bytesOf(r.eventID), bytesOf(r.eventType), bytesOf(r.payload), bytesOf(r.subject), bytesOf(r.created), "2", "no stock", uint8(slices.Index(storages, r.eventIDType)), r.subject != nil, false)
	}
	add(goodRow())
	for _, test := range undecodableRows {
		raw := goodRow()
		test.change(&raw)
		add(raw)
	}
	f.Fuzz(func(t *testing.T, id, eventType, payload, subject, created, attempts, lastError string, class uint8, hasSubject, asBytes bool) {
		storage := storages[int(class)%len(storages)]
		column := func(s string) any {
			if asBytes {
				return []byte(s)
			}
			return s
		}
		raw := rawRow{
			id: 7, eventID: column(id), eventType: column(eventType), payload: column(payload), created: column(created),
			attempts: column(attempts), lastError: column(lastError), retry: column(created), eventIDType: storage,
		}
		if hasSubject {
			raw.subject = column(subject)
		}
		got := raw.decode()
		if got.id != 7 || got.attempts < 1 {
			t.Fatalf("row %d with %d attempts", got.id, got.attempts)
		}
		if (got.envelope == nil) == (got.reason == "") || !utf8.ValidString(got.reason) {
			t.Fatalf("envelope %v, reason %q", got.envelope, got.reason)
		}
		if got.envelope == nil {
			return
		}
		e := got.envelope
		if storage != "" && storage != "blob" || jsonscan.Text(string(e.Payload)) < 0 || e.EventType == "" || !utf8.ValidString(e.EventType) ||
			string(e.Payload) != payload || e.SubjectID.Valid != hasSubject || !strings.HasPrefix(created, e.CreatedAt.Format(time.DateOnly)) {
			t.Fatalf("decoded %+v", *e)
		}
		msg := e.Message()
		if msg.UUID != e.EventID.String() || string(msg.Payload) != payload {
			t.Fatalf("message %s %s", msg.UUID, msg.Payload)
		}
	})
}
