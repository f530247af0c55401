package kafkawire_test

import (
	"bytes"
	"maps"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

// fuzzHeaders are the lines of text, name=value each.
func fuzzHeaders(text string) []*sarama.RecordHeader {
	if text == "" {
		return nil
	}
	return headers(strings.Split(text, "\n")...)
}

// FuzzUnmarshal checks what holds for any record at all: it is opened, nothing foreign is
// believed, what cannot be read is not handled, and everything can be passed on.
func FuzzUnmarshal(f *testing.F) {
	for _, value := range []string{
		hookJSON, "", "hello", "null", "[1]", `{"v":3}`, strings.Replace(hookJSON, "aGVsbG8", "SGVsbG8", 1),
		strings.Replace(hookJSON, `"sha256"`, `"watermill_metadata":{"a":"b","content_type":"c","envelope_raw":"x"},"sha256"`, 1),
		// Without a digest a change of the body is one of size only, so more mutations are read.
		hookJSON[:strings.Index(hookJSON, `"sha256"`)] + `"body_base64":"aGVsbG8="}`,
		strings.Replace(hookJSON, `"body_base64":"aGVsbG8="`, `"claim":"`+claimRef+`"`, 1),
		strings.Replace(hookJSON, `"sha256"`, `"later":[1,{"a":null}],"sha256"`, 1),
		strings.Replace(hookJSON, `"dedupe_key":"evt_1"`, `"dedupe_key":"evt_1","dedupe_key":null`, 1),
		strings.Replace(hookJSON, `"traceparent":"00`, `"traceparent":"ff`, 1),
	} {
		for _, lines := range []string{
			"", "a=1\na=2\nMixed-Case=\n=x", "a=\xff\n\xc0\x80=b", "envelope_redeemed=true\nAnkusa_Claim=" + claimRef,
			"ankusa_message_version=1\nankusa_id=\xff", "_watermill_message_uuid=u-1\ncontent_type=text/plain",
			"traceparent=" + traceparent + "\ntracestate=a=b",
		} {
			f.Add([]byte(value), "key", lines, false)
			f.Add([]byte(value), "", lines, true)
		}
	}
	f.Fuzz(func(t *testing.T, value []byte, key, lines string, withFallback bool) {
		r := &sarama.ConsumerMessage{Topic: "hooks", Key: []byte(key), Value: value, Headers: fuzzHeaders(lines)}
		m := kafkawire.Marshaler{Source: "fuzz", MaxMessageBytes: math.MaxInt64}
		if withFallback {
			m.Fallback = kafka.DefaultMarshaler{}
		}
		msg := unmarshal(t, m, r)
		_, parseErr := envelope.ParseWire(value)
		switch {
		case parseErr == nil:
			checkOpened(t, m, msg)
		case msg.Metadata["envelope_fallback"] != "":
			if !withFallback || !bytes.Equal(msg.Payload, value) {
				t.Errorf("fallback read %q as %q", value, msg.Payload)
			}
			marshal(t, m, msg)
		default:
			if !envelope.IsMalformed(msg) || !bytes.Equal(envelope.Raw(msg), value) || len(msg.Payload) > 0 {
				t.Fatalf("%q opened as %q, raw %q", value, msg.Payload, envelope.Raw(msg))
			}
			out := consumed(t, marshal(t, m, msg))
			if !bytes.Equal(out.Value, value) || string(out.Key) != key {
				t.Errorf("%q %q passed on as %q %q", key, value, out.Key, out.Value)
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

// checkOpened checks a message that was well formed: it is the same after another trip.
func checkOpened(t *testing.T, m kafkawire.Marshaler, msg *message.Message) {
	t.Helper()
	if envelope.IsMalformed(msg) || msg.Metadata["ankusa_id"] != msg.UUID || msg.Metadata["ankusa_message_version"] != "" {
		t.Fatalf("opened as %s %v", msg.UUID, msg.Metadata)
	}
	again := unmarshal(t, m, consumed(t, marshal(t, m, msg)))
	third := unmarshal(t, m, consumed(t, marshal(t, m, again)))
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
