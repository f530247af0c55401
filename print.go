package envelope

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/watermill-envelope/envelope/internal/mask"
)

// Printing shows what identifies a hook and never what it holds: the body is "<N bytes>",
// the provider's headers are "<N headers>", metadata "<N entries>", unknown members
// "<N bytes>", and the signature of a signed claim is "<signature>".
//
// It covers every verb of package fmt that can be covered, and log/slog. Go has no hook for
// an Envelope in an unexported field that is printed with %v, for %p, and for packages that
// dump values by reflection. [Envelope.MarshalJSON] is the wire form and contains the body, and
// is what slog.JSONHandler writes of a slice, a map or a struct that has an Envelope in it.

// attributes are the fields that are set, in the order of the wire form.
func (e *Envelope) attributes() []mask.Attribute {
	a := make([]mask.Attribute, 0, 22)
	add := func(name, field, text string) {
		if text != "" {
			a = append(a, mask.Attribute{Name: name, Field: field, Text: text})
		}
	}
	masked := func(name, field string, n int, what string) { a = append(a, mask.Count(name, field, n, what)) }
	bare := func(name, field, text string) {
		a = append(a, mask.Attribute{Name: name, Field: field, Text: text, Bare: true})
	}
	a = append(a, mask.Attribute{Name: "id", Field: "ID", Text: e.ID}, mask.Attribute{Name: "source_id", Field: "SourceID", Text: e.SourceID})
	add("tenant_id", "TenantID", e.TenantID)
	if !e.ReceivedAt.IsZero() {
		add("received_at", "ReceivedAt", e.ReceivedAt.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	}
	add("content_type", "ContentType", e.ContentType)
	if e.Size != 0 {
		bare("size", "Size", strconv.FormatInt(e.Size, 10))
	}
	add("dedupe_key", "DedupeKey", e.DedupeKey)
	add("replay_id", "ReplayID", e.ReplayID)
	add("idempotency_key", "IdempotencyKey", e.IdempotencyKey)
	add("verification", "Verification.Status", string(e.Verification.Status))
	if e.Verification.Flagged {
		bare("verification_flagged", "Verification.Flagged", "true")
	}
	masked("headers", "Headers", len(e.Headers), "headers")
	add("traceparent", "Traceparent", e.Traceparent)
	add("tracestate", "Tracestate", e.Tracestate)
	add("instance", "Instance", e.Instance)
	add("region", "Region", e.Region)
	add("ordering_key", "OrderingKey", e.OrderingKey)
	if len(e.Metadata) > 0 {
		masked("metadata", "Metadata", len(e.Metadata), "entries")
	}
	if len(e.Unknown) > 0 {
		masked("unknown", "Unknown", len(e.Unknown), "bytes")
	}
	add("sha256", "SHA256", e.SHA256)
	add("claim", "Claim", MaskClaim(e.Claim))
	masked("body", "Body", len(e.Body), "bytes")
	return a
}

// MaskClaim returns a claim reference as it may be logged: with "<signature>" for the signature
// of a signed one, which is as good as the body to whoever can reach the gateway. Anything that
// is not an unsigned reference is taken for a signed one.
func MaskClaim(ref string) string {
	if strings.HasPrefix(ref, "urn:ankusa:claim:v1:") || ref == "" {
		return ref
	}
	if i := strings.LastIndexByte(ref, ':'); i >= 0 {
		return ref[:i+1] + "<signature>"
	}
	return "<claim>"
}

// String describes e in one line, with the body as "<N bytes>" and the provider's headers
// as "<N headers>". The text is for people and may change.
func (e Envelope) String() string { return mask.Line("envelope", e.attributes()) }

// GoString is String in the manner of %#v.
func (e Envelope) GoString() string { return mask.GoLine("envelope.Envelope", e.attributes()) }

// Format prints GoString for %#v, String in quotes for %q, and String for every other verb.
// Width and flags other than '#' apply to that text.
func (e Envelope) Format(s fmt.State, verb rune) { mask.Format(s, verb, e.String, e.GoString) }

// LogValue is a group of the fields that are set, named as on the wire, with the body as
// "<N bytes>" and the provider's headers as "<N headers>".
func (e Envelope) LogValue() slog.Value {
	list := e.attributes()
	attrs := make([]slog.Attr, 0, len(list))
	for _, a := range list {
		switch a.Name {
		case "received_at":
			at := e.ReceivedAt.UTC().Truncate(time.Millisecond)
			if y := at.Year(); y < 0 || y > 9999 {
				// What slog.JSONHandler writes of such a time is no JSON.
				attrs = append(attrs, slog.String(a.Name, a.Text))
			} else {
				attrs = append(attrs, slog.Time(a.Name, at))
			}
		case "size":
			attrs = append(attrs, slog.Int64(a.Name, e.Size))
		case "verification_flagged":
			attrs = append(attrs, slog.Bool(a.Name, true))
		default:
			attrs = append(attrs, slog.String(a.Name, a.Text))
		}
	}
	return slog.GroupValue(attrs...)
}
