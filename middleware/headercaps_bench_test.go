package middleware_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/sidebyside"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// BenchmarkHeaderCaps publishes one hook with 64 headers, of which 8 are dropped by a cap, or
// none. naive decodes them into a map and encodes them again; parsed keeps their order, with
// HeadersOf and ForwardHeaders; copy is what nobody can do without who drops one: a copy of the
// message. bare is the publish alone.
func BenchmarkHeaderCaps(b *testing.B) {
	var members []string
	for i := range 64 {
		members = append(members, fmt.Sprintf(`"x-github-header-%d":"a value of thirty-two bytes, %04d"`, i, i))
	}
	msg := withHeaders("{"+strings.Join(members, ",")+"}", "ankusa_tenant_id", "acme", "ankusa_received_at", "1737500000000",
		"ankusa_content_type", "application/json", "ankusa_dedupe_key", "evt_1", "ankusa_idempotency_key", "acme:github:evt_1",
		"ankusa_verification", "ok", "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	for _, most := range []int{56, 64} {
		b.Run(fmt.Sprintf("dropped=%d", 64-most), func(b *testing.B) {
			s := new(sink)
			o := envelope.ForwardOptions{MaxHeaders: most}
			ours := hookmw.HeaderCaps{Forward: o}.WrapPublisher(s)
			naive := func() error {
				var m map[string]string
				if err := json.Unmarshal([]byte(msg.Metadata[envelope.MetadataHeaders]), &m); err != nil {
					return err
				}
				var headers []envelope.Header
				for name, value := range m {
					headers = append(headers, envelope.Header{Name: name, Value: value})
				}
				kept, _ := envelope.ForwardHeaders(headers, o)
				clear(m)
				for _, h := range kept {
					m[h.Name] = h.Value
				}
				text, err := json.Marshal(m)
				if err != nil {
					return err
				}
				out := msg.CopyWithContext()
				out.Metadata[envelope.MetadataHeaders] = string(text)
				return s.Publish("hooks", out)
			}
			parsed := func() error {
				headers, err := envelope.HeadersOf(msg)
				if err != nil {
					return err
				}
				kept, _ := envelope.ForwardHeaders(headers, o)
				e := envelope.Envelope{Headers: kept}
				out := msg.CopyWithContext()
				out.Metadata[envelope.MetadataHeaders] = e.Message().Metadata[envelope.MetadataHeaders]
				return s.Publish("hooks", out)
			}
			sidebyside.Run(b, []sidebyside.Way{
				{Name: "bare", F: func() error { return s.Publish("hooks", msg) }},
				{Name: "copy", F: func() error { return s.Publish("hooks", msg.CopyWithContext()) }},
				{Name: "ours", F: func() error { return ours.Publish("hooks", msg) }},
				{Name: "parsed", F: parsed},
				{Name: "naive", F: naive},
			}, 20)
		})
	}
}

// An entry that has to be cut until the message fits costs a number of measures that grows with
// the logarithm of its length.
func BenchmarkDiagnostics(b *testing.B) {
	full := hook(make([]byte, 1024))
	room := broker{}
	limit, _, _ := room.Size("poison", full, "")
	room.MaxMessageBytes = limit + 1000
	with := func(n int) *message.Message {
		return hook(make([]byte, 1024), "reason_poisoned", strings.Repeat("e", n), "topic_poisoned", "hooks")
	}
	s := new(sink)
	tight := diagnostics(b, hookmw.Diagnostics{}, s, room.Marshaler)
	loose := diagnostics(b, hookmw.Diagnostics{}, s, broker{}.Marshaler)
	none, short, long := full, with(100), with(8000)
	sidebyside.Run(b, []sidebyside.Way{
		{Name: "bare", F: func() error { return s.Publish("poison", none) }},
		{Name: "none", F: func() error { return loose.Publish("poison", none) }},
		{Name: "fits", F: func() error { return loose.Publish("poison", short) }},
		{Name: "cut", F: func() error { return tight.Publish("poison", long) }},
	}, 20)
}
