package outbox

import (
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/watermill-envelope/envelope/internal/mask"
	"github.com/watermill-envelope/envelope/internal/typedjson"
)

// Printing shows what identifies an event and what became of it, and never what it holds: the
// payload is "<N bytes>". An envelope has no wire form of its own, so that JSON and text encoders
// write this as well.

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// attributes are the fields in their order; those that may be absent, where they are set.
func (e *Envelope) attributes() []mask.Attribute {
	const fields = 9
	a := make([]mask.Attribute, 0, fields)
	a = append(a,
		mask.Attribute{Name: "event_id", Field: "EventID", Text: e.EventID.String()},
		mask.Attribute{Name: "event_type", Field: "EventType", Text: e.EventType},
		mask.Count("payload", "Payload", len(e.Payload), "bytes"),
	)
	if e.SubjectID.Valid {
		a = append(a, mask.Attribute{Name: "subject_id", Field: "SubjectID", Text: e.SubjectID.UUID.String()})
	}
	a = appendTime(a, "created_at", "CreatedAt", e.CreatedAt)
	a = append(a, mask.Attribute{Name: "attempts", Field: "Attempts", Text: strconv.Itoa(e.Attempts), Bare: true})
	if e.LastError != "" {
		a = append(a, mask.Attribute{Name: "last_error", Field: "LastError", Text: e.LastError})
	}
	a = appendTime(a, "next_retry_at", "NextRetryAt", e.NextRetryAt)
	return appendTime(a, "delivered_at", "DeliveredAt", e.DeliveredAt)
}

func appendTime(a []mask.Attribute, name, field string, t time.Time) []mask.Attribute {
	if t.IsZero() {
		return a
	}
	return append(a, mask.Attribute{Name: name, Field: field, Text: t.UTC().Format(timeFormat)})
}

// String describes e in one line, with the payload as "<N bytes>". The text is for people and may
// change.
func (e Envelope) String() string { return mask.Line("outbox", e.attributes()) }

// GoString is String in the manner of %#v.
func (e Envelope) GoString() string { return mask.GoLine("outbox.Envelope", e.attributes()) }

// Format prints GoString for %#v, String in quotes for %q, and String for every other verb.
// Width and flags other than '#' apply to that text.
func (e Envelope) Format(s fmt.State, verb rune) { mask.Format(s, verb, e.String, e.GoString) }

// LogValue is a group of what String shows, the attempts as a number and the times as text.
func (e Envelope) LogValue() slog.Value {
	list := e.attributes()
	attrs := make([]slog.Attr, 0, len(list))
	for _, a := range list {
		if a.Name == "attempts" {
			attrs = append(attrs, slog.Int(a.Name, e.Attempts))
			continue
		}
		attrs = append(attrs, slog.String(a.Name, a.Text))
	}
	return slog.GroupValue(attrs...)
}

// MarshalJSON writes what String shows as an object of strings. It cannot be read back: an event
// is stored as the columns of a table, and travels as an open message, see [Envelope.Message].
func (e Envelope) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, a := range e.attributes() {
		if i > 0 {
			out = append(out, ',')
		}
		text, err := typedjson.Encode(a.Text)
		if err != nil {
			return nil, serialization(err)
		}
		out = append(append(append(append(out, '"'), a.Name...), `":`...), text...)
	}
	return append(out, '}'), nil
}

// MarshalText is String, for encoders such as XML and YAML.
func (e Envelope) MarshalText() ([]byte, error) { return []byte(e.String()), nil }
