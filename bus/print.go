package bus

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/watermill-envelope/envelope/internal/mask"
	"github.com/watermill-envelope/envelope/internal/typedjson"
)

// Printing shows what identifies a message and never what it holds: the payload is "<N bytes>"
// and the headers are "<N headers>". An envelope has no wire form of its own, so that JSON and
// text encoders write this as well.

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// attributes are the fields in their order; those that may be absent, where they are set.
func (e *Envelope) attributes() []mask.Attribute {
	a := make([]mask.Attribute, 0, 7)
	a = append(a,
		mask.Attribute{Name: "message_id", Field: "MessageID", Text: e.MessageID.String()},
		mask.Attribute{Name: "message_type", Field: "MessageType", Text: e.MessageType},
		mask.Count("payload", "Payload", len(e.Payload), "bytes"),
		mask.Attribute{Name: "correlation_id", Field: "CorrelationID", Text: e.CorrelationID.String()},
	)
	if e.ReplyTo != "" {
		a = append(a, mask.Attribute{Name: "reply_to", Field: "ReplyTo", Text: e.ReplyTo})
	}
	a = append(a, mask.Count("headers", "Headers", len(e.Headers), "headers"))
	if !e.PublishedAt.IsZero() {
		a = append(a, mask.Attribute{Name: "published_at", Field: "PublishedAt", Text: e.PublishedAt.UTC().Format(timeFormat)})
	}
	return a
}

// String describes e in one line, with the payload as "<N bytes>" and the headers as
// "<N headers>". The text is for people and may change.
func (e Envelope) String() string { return mask.Line("bus", e.attributes()) }

// GoString is String in the manner of %#v.
func (e Envelope) GoString() string { return mask.GoLine("bus.Envelope", e.attributes()) }

// Format prints GoString for %#v, String in quotes for %q, and String for every other verb.
// Width and flags other than '#' apply to that text.
func (e Envelope) Format(s fmt.State, verb rune) { mask.Format(s, verb, e.String, e.GoString) }

// LogValue is a group of what String shows.
func (e Envelope) LogValue() slog.Value {
	list := e.attributes()
	attrs := make([]slog.Attr, 0, len(list))
	for _, a := range list {
		if at := e.PublishedAt.UTC().Truncate(time.Millisecond); a.Name == "published_at" && 0 <= at.Year() && at.Year() <= 9999 {
			// What slog.JSONHandler writes of any other year is no JSON.
			attrs = append(attrs, slog.Time(a.Name, at))
			continue
		}
		attrs = append(attrs, slog.String(a.Name, a.Text))
	}
	return slog.GroupValue(attrs...)
}

// MarshalJSON writes what String shows as an object of strings. It cannot be read back: a
// message travels as the properties and the payload of a transport, see [Envelope.Message].
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
