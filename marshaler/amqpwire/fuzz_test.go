package amqpwire_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp3 "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
)

// fuzzTable makes a table of text, one name=value for each line. The first byte of a value
// chooses its type, "F" and "A" begin a table and an array of what follows.
func fuzzTable(text string) amqp.Table {
	t := amqp.Table{}
	for line := range strings.SplitSeq(text, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			t[name] = fuzzValue(value, 40)
		}
	}
	return t
}

func fuzzValue(s string, depth int) any {
	if s == "" {
		return s
	}
	kind, s := s[0], s[1:]
	n := int64(len(s))
	for i := range len(s) {
		n = n*31 + int64(s[i])
	}
	switch {
	case kind == 'A' && depth > 0:
		return []any{fuzzValue(s, depth-1), int32(n)}
	case kind == 'F' && depth > 0:
		return amqp.Table{s: fuzzValue(s, depth-1), "count": n}
	}
	kinds := []any{
		nil, n%2 == 0, int8(n), uint8(n), int16(n), uint16(n), int32(n), uint32(n), n, int(n), float32(n),
		math.Float64frombits(uint64(n)),
		amqp.Decimal{Scale: uint8(n), Value: int32(n >> 8)},
		time.Unix(n, 0), []byte(s), s,
	}
	return kinds[int(kind)%len(kinds)]
}

// FuzzUnmarshal checks what holds for any delivery at all: it is opened, nothing foreign is
// believed, what cannot be read is not handled, and everything can be passed on.
func FuzzUnmarshal(f *testing.F) {
	for _, body := range []string{
		hookJSON, "", "hello", "null", "[1]", `{"v":3}`, strings.Replace(hookJSON, "aGVsbG8", "SGVsbG8", 1),
		hookJSON[:strings.Index(hookJSON, `"sha256"`)] + `"body_base64":"aGVsbG8="}`,
		strings.Replace(hookJSON, `"sha256"`, `"watermill_metadata":{"a":"b","x-death":"c","envelope_raw":"x"},"sha256"`, 1),
		strings.Replace(hookJSON, `"body_base64":"aGVsbG8="`, `"claim":"`+claimRef+`"`, 1),
	} {
		for _, lines := range []string{
			"", "a=o1\nMixed-Case=\n=ox", "a=o\xff\n\xc0\x80=ob", "envelope_redeemed=otrue\nAnkusa_Claim=o" + claimRef,
			"ankusa_message_version=o1\nankusa_id=o\xff", "_watermill_message_uuid=ou-1\ncontent_type=otext/plain\nCC=Ao",
			"a=0\nb=1\nc=2\nd=3\ne=4\nf=5\ng=6\nh=7\ni=8\nj=9\nk=:\nl=;\nm=<\nn==\no=>\np=?", "x-death=AFcount\na=FFFAAx\xff",
			strings.Repeat("n", 300) + "=o1\ntraceparent=o" + traceparent,
		} {
			f.Add([]byte(body), "id", "hooks", lines, false)
			f.Add([]byte(body), "", "", lines, true)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, id, exchange, lines string, withFallback bool) {
		d := delivery(string(body), fuzzTable(lines))
		d.MessageId, d.Exchange = id, exchange
		m := amqpwire.Marshaler{Source: "fuzz", MaxMessageBytes: math.MaxInt64}
		if withFallback {
			m.Fallback = amqp3.DefaultMarshaler{}
		}
		msg := unmarshal(t, m, d)
		_, parseErr := envelope.ParseWire(body)
		for name, value := range d.Headers {
			_, isArray := value.([]any)
			_, isTable := value.(amqp.Table)
			if text := msg.Metadata[name]; (isArray || isTable) && text != "" && !envelope.IsReserved(name) &&
				msg.Metadata["envelope_fallback"] == "" && parseErr != nil && !json.Valid([]byte(text)) {
				t.Errorf("%s: %v became %s", name, value, text)
			}
		}
		switch {
		case parseErr == nil:
			checkOpened(t, m, msg)
		case msg.Metadata["envelope_fallback"] != "":
			if !withFallback || !bytes.Equal(msg.Payload, body) {
				t.Errorf("fallback read %q as %q", body, msg.Payload)
			}
			checkPublishing(t, marshal(t, m, msg))
		default:
			if !envelope.IsMalformed(msg) || !bytes.Equal(envelope.Raw(msg), body) || len(msg.Payload) > 0 {
				t.Fatalf("%q opened as %q, raw %q", body, msg.Payload, envelope.Raw(msg))
			}
			p := marshal(t, m, msg)
			checkPublishing(t, p)
			if !bytes.Equal(p.Body, body) {
				t.Errorf("%q passed on as %q", body, p.Body)
			}
		}
		for name, value := range msg.Metadata {
			ours := strings.HasPrefix(name, "ankusa_") || strings.HasPrefix(name, "envelope_")
			if !ours && !envelope.IsMalformed(msg) && (!utf8.ValidString(name) || !utf8.ValidString(value)) {
				t.Errorf("%q=%q is not text", name, value)
			}
			if name == "envelope_redeemed" {
				t.Error("a foreign message was redeemed")
			}
		}
	})
}

// checkPublishing checks what the client and the broker would refuse.
func checkPublishing(t *testing.T, p amqp.Publishing) {
	t.Helper()
	if len(p.MessageId) > 255 || !utf8.ValidString(p.MessageId) {
		t.Errorf("message_id %q", p.MessageId)
	}
	for name, value := range p.Headers {
		if _, ok := value.(string); !ok || len(name) > 255 || !utf8.ValidString(name) || name == "CC" || name == "BCC" {
			t.Errorf("header %q: %T", name, value)
		}
		if strings.HasPrefix(strings.ToLower(name), "envelope_") {
			t.Errorf("%s is on the wire", name)
		}
	}
}

// checkOpened checks a message that was well formed: it is the same after another trip.
func checkOpened(t *testing.T, m amqpwire.Marshaler, msg *message.Message) {
	t.Helper()
	if envelope.IsMalformed(msg) || msg.Metadata["ankusa_id"] != msg.UUID || msg.Metadata["ankusa_message_version"] != "" {
		t.Fatalf("opened as %s %v", msg.UUID, msg.Metadata)
	}
	trip := func(msg *message.Message) *message.Message {
		p := marshal(t, m, msg)
		checkPublishing(t, p)
		return unmarshal(t, m, delivered(p))
	}
	again := trip(msg)
	third := trip(again)
	if !bytes.Equal(msg.Payload, again.Payload) || msg.UUID != again.UUID {
		t.Errorf("%s %q became %s %q", msg.UUID, msg.Payload, again.UUID, again.Payload)
	}
	if !maps.Equal(again.Metadata, third.Metadata) {
		t.Errorf("%v became %v", again.Metadata, third.Metadata)
	}
	for name, value := range msg.Metadata {
		if got := again.Metadata[name]; got != value && !canonical(msg, name) {
			t.Errorf("%s: %q became %q", name, value, got)
		}
	}
}

// canonical reports whether sealing writes this entry in its own form, or where the message
// was sent: a digest that was absent, a trace context that is none, the receipt.
func canonical(msg *message.Message, name string) bool {
	switch name {
	case "ankusa_sha256", "envelope_receipt", "ankusa_headers", "ankusa_unknown":
		return true
	case "traceparent", "tracestate":
		return !envelope.ValidTraceparent(msg.Metadata["traceparent"]) || len(msg.Metadata["tracestate"]) > 512
	}
	return false
}
