package outbox

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/internal/jsonscan"
)

// A row is an event that this worker has claimed.
type row struct {
	id int64
	// attempts is what the column was set to by the claim: those before it, and this one.
	attempts int64
	// subject is the subject as the driver returns it, or empty.
	subject string
	// envelope is nil when the row cannot be decoded, for which reason says why.
	envelope *Envelope
	reason   string
}

// A rawRow is a row as a driver returns it.
type rawRow struct {
	id                                  int64
	eventID, eventType, payload         any
	subject                             any
	created, attempts, lastError, retry any
	eventIDType, payloadType, subjType  string // SQLite's storage classes; of others empty
}

func (r *rawRow) destinations() []any {
	return []any{
		&r.id, &r.eventID, &r.eventType, &r.payload, &r.subject, &r.created, &r.attempts, &r.lastError, &r.retry,
		&r.eventIDType, &r.payloadType, &r.subjType,
	}
}

// decode returns the row, whatever is in it. It is strict where a Rust worker is, so that a row
// never depends on who delivers it.
func (r *rawRow) decode() row {
	before := decodeCount(r.attempts)
	out := row{id: r.id, attempts: before + 1, subject: bytesOf(r.subject)}
	e := &Envelope{Attempts: int(before), LastError: bytesOf(r.lastError)}
	e.NextRetryAt, _ = decodeTime(r.retry) // which the claim has replaced
	if out.reason = r.fill(e); out.reason == "" {
		out.envelope = e
	} else {
		out.reason = "undecodable: " + out.reason
	}
	return out
}

// fill sets what must be right for an event to be delivered, and says what is not.
func (r *rawRow) fill(e *Envelope) (reason string) {
	var ok bool
	if r.eventIDType != "" && r.eventIDType != "blob" {
		return "event_id is " + r.eventIDType + ", want a blob of 16 bytes"
	}
	if e.EventID, ok = decodeUUID(r.eventID); !ok {
		return "event_id is no UUID"
	}
	if e.EventType = bytesOf(r.eventType); e.EventType == "" || !utf8.ValidString(e.EventType) {
		return "event_type is no text"
	}
	if r.payloadType != "" && r.payloadType != "text" {
		return "payload is " + r.payloadType + ", want text"
	}
	payload := bytesOf(r.payload)
	if end := jsonscan.Text(payload); end < 0 {
		return fmt.Sprintf("payload is malformed at byte %d of %d: JSON in UTF-8, at most %d levels deep", ^end, len(payload), jsonscan.MaxDepth)
	}
	e.Payload = []byte(payload)
	if r.subject != nil {
		if r.subjType != "" && r.subjType != "blob" {
			return "subject_id is " + r.subjType + ", want a blob of 16 bytes"
		}
		if e.SubjectID.UUID, e.SubjectID.Valid = decodeUUID(r.subject); !e.SubjectID.Valid {
			return "subject_id is no UUID"
		}
	}
	if e.CreatedAt, ok = decodeTime(r.created); !ok {
		return "created_at is no time of the form that it must have"
	}
	return ""
}

// bytesOf returns a text or bytes as they are, and of anything else nothing.
func bytesOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// decodeUUID decodes 16 bytes, or the 36 characters of a UUID.
func decodeUUID(v any) (uuid.UUID, bool) {
	switch v := v.(type) {
	case [16]byte:
		return v, true
	case []byte, string:
		s := bytesOf(v)
		if len(s) == len(uuid.UUID{}) {
			return uuid.UUID([]byte(s)), true
		}
		if len(s) != len("00000000-0000-0000-0000-000000000000") {
			return uuid.Nil, false
		}
		id, err := uuid.Parse(s)
		return id, err == nil
	}
	return uuid.Nil, false
}

// decodeTime decodes microseconds since 1970, and the texts that columns of times have: those of
// SQLite that a Rust worker takes, and MySQL's.
func decodeTime(v any) (time.Time, bool) {
	switch v := v.(type) {
	case int64:
		return time.UnixMicro(v).UTC(), true
	case time.Time:
		return v.UTC(), true
	case []byte, string:
		s, layout := bytesOf(v), time.DateTime
		switch len(s) {
		case len("2006-01-02T15:04:05.000Z"):
			layout = "2006-01-02T15:04:05.000Z"
		case len("2006-01-02 15:04:05.000000"):
			layout = "2006-01-02 15:04:05.000000"
		case len(time.DateTime):
		default:
			return time.Time{}, false
		}
		t, err := time.Parse(layout, s)
		return t, err == nil
	}
	return time.Time{}, false
}

// decodeCount decodes a number of attempts. What is none, or negative, is 0.
func decodeCount(v any) int64 {
	var n int64
	switch v := v.(type) {
	case int64:
		n = v
	case int32:
		n = int64(v)
	case []byte, string:
		n, _ = strconv.ParseInt(bytesOf(v), 10, 64)
	}
	return max(n, 0)
}
