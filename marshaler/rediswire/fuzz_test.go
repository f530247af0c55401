package rediswire_test

import (
	"bytes"
	"maps"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
)

// FuzzUnmarshal checks what holds for any entry and any message of a channel: it is opened,
// nothing foreign is believed, what cannot be read is not handled, and everything can be
// passed on.
func FuzzUnmarshal(f *testing.F) {
	for _, payload := range []string{
		hookJSON, "", "hello", "null", "[1]", `{"v":3}`, strings.Replace(hookJSON, "aGVsbG8", "SGVsbG8", 1),
		strings.Replace(hookJSON, `"sha256"`, `"watermill_metadata":{"a":"b","content_type":"c","envelope_raw":"x"},"sha256"`, 1),
		hookJSON[:strings.Index(hookJSON, `"sha256"`)] + `"body_base64":"aGVsbG8="}`,
		strings.Replace(hookJSON, `"body_base64":"aGVsbG8="`, `"claim":"`+claimRef+`"`, 1),
		strings.Replace(hookJSON, `"sha256"`, `"later":[1,{"a":null}],"sha256"`, 1),
	} {
		for _, lines := range []string{
			"", "meta:a=1\na=2\nMixed-Case=\n=x\nmeta:=y", "meta:a=\xff\n\xc0\x80=b", "envelope_redeemed=true\nmeta:Ankusa_Claim=" + claimRef,
			"ankusa_message_version=1\nankusa_id=\xff", "_watermill_message_uuid=u-1\nmetadata=\x81\xa1a\xa1b",
			"traceparent=" + traceparent + "\ntracestate=a=b\npayload=x",
		} {
			f.Add([]byte(payload), lines, false)
			f.Add([]byte(payload), lines, true)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte, lines string, withFallback bool) {
		values := map[string]any{}
		if lines != "" {
			values = entry("", strings.Split(lines, "\n")...)
		}
		values["payload"] = string(payload)
		m := rediswire.Marshaler{Source: "fuzz", MaxMessageBytes: math.MaxInt64}
		if withFallback {
			m.Fallback = stock
		}
		msg := unmarshal(t, m, values)
		_, parseErr := envelope.ParseWire(payload)
		switch {
		case parseErr == nil:
			checkOpened(t, m, msg)
		case msg.Metadata["envelope_fallback"] != "":
			if !withFallback || !bytes.Equal(msg.Payload, payload) {
				t.Errorf("fallback read %q as %q", payload, msg.Payload)
			}
			marshal(t, m, msg)
		default:
			if !envelope.IsMalformed(msg) || !bytes.Equal(envelope.Raw(msg), payload) || len(msg.Payload) > 0 {
				t.Fatalf("%q opened as %q, raw %q", payload, msg.Payload, envelope.Raw(msg))
			}
			out := stored(t, marshal(t, m, msg))
			for name, value := range values {
				if got := out[name]; got != value && !memoryOnly(name) && name != "ankusa_id" && !subscriberFraming(name) {
					t.Errorf("field %q: %q passed on as %q", name, value, got)
				}
			}
		}
		for name, value := range msg.Metadata {
			if !envelope.IsMalformed(msg) && (!utf8.ValidString(name) || !utf8.ValidString(value)) {
				t.Errorf("%q=%q is not text", name, value)
			}
			if name == "envelope_redeemed" {
				t.Error("a foreign message was redeemed")
			}
		}

		pubsub := rediswire.PubSubMarshaler{MaxMessageBytes: math.MaxInt64}
		opened, err := pubsub.Unmarshal("hooks", payload)
		if err != nil || envelope.IsMalformed(opened) != (parseErr != nil) {
			t.Fatalf("on a channel: %v %v", opened, err)
		}
		if got := publish(t, pubsub, opened); parseErr != nil && !bytes.Equal(got, payload) {
			t.Errorf("on a channel %q is passed on as %q", payload, got)
		}
	})
}

func memoryOnly(name string) bool {
	return len(name) >= 9 && strings.EqualFold(name[:9], "envelope_")
}

func subscriberFraming(name string) bool {
	return name == "_watermill_amqp_redelivered" || name == "_watermill_message_google_message_id" || name == "publishTime"
}

// checkOpened checks a message that was well formed: it is the same after another trip.
func checkOpened(t *testing.T, m rediswire.Marshaler, msg *message.Message) {
	t.Helper()
	if envelope.IsMalformed(msg) || msg.Metadata["ankusa_id"] != msg.UUID || msg.Metadata["ankusa_message_version"] != "" {
		t.Fatalf("opened as %s %v", msg.UUID, msg.Metadata)
	}
	again := unmarshal(t, m, stored(t, marshal(t, m, msg)))
	third := unmarshal(t, m, stored(t, marshal(t, m, again)))
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

// canonical reports whether sealing writes this entry in its own form.
func canonical(msg *message.Message, name string) bool {
	switch name {
	case "ankusa_sha256", "ankusa_headers", "ankusa_unknown":
		return true
	case "traceparent", "tracestate":
		return !envelope.ValidTraceparent(msg.Metadata["traceparent"]) || len(msg.Metadata["tracestate"]) > 512
	}
	return false
}
