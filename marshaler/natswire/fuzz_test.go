package natswire_test

import (
	"bytes"
	"maps"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler/natswire"
)

// FuzzUnmarshal checks what holds for any message at all: it is opened, nothing foreign is
// believed, what cannot be read is not handled, and everything can be passed on, so that the
// client writes what was counted and nothing that a server obeys.
func FuzzUnmarshal(f *testing.F) {
	for _, data := range []string{
		hookJSON, "", "hello", "null", "[1]", `{"v":3}`, strings.Replace(hookJSON, "aGVsbG8", "SGVsbG8", 1),
		strings.Replace(hookJSON, `"sha256"`, `"watermill_metadata":{"a":"b","content_type":"c","Nats-Rollup":"all","envelope_raw":"x"},"sha256"`, 1),
		strings.Replace(hookJSON, `"tenant_id":"acme"`, `"tenant_id":"a\r\nNats-Rollup: all"`, 1),
		strings.Replace(hookJSON, hookID, ` id\n`, 1),
		hookJSON[:strings.Index(hookJSON, `"sha256"`)] + `"body_base64":"aGVsbG8="}`,
		strings.Replace(hookJSON, `"body_base64":"aGVsbG8="`, `"claim":"`+claimRef+`"`, 1),
		strings.Replace(hookJSON, `"sha256"`, `"later":[1,{"a":null}],"sha256"`, 1),
	} {
		for _, headers := range []string{
			"", "a: 1\r\na: 2\r\nMixed-Case: \r\n: x\r\n", "a: \xff\r\n\xc0\x80: b\r\n", "envelope_redeemed: true\r\nAnkusa_Claim: " + claimRef + "\r\n",
			"ankusa_message_version: 1\r\nankusa_id: \xff\r\n", "_watermill_message_uuid: u-1\r\ncontent_type: text/plain\r\n",
			"Nats-Rollup: all\r\nnats-ttl: 1s\r\nX: Nats-Msg-Id\r\n", "a:  b \t\r\na b: c\r\nd: e\rf\r\ntraceparent: " + traceparent + "\r\n",
		} {
			f.Add([]byte(data), headers, ackReply, false)
			f.Add([]byte(data), headers, "$JS.ACK._.h.S.c.1.7.1.1.0.x", true)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, headers, reply string, withFallback bool) {
		in := &nats.Msg{Subject: "hooks", Reply: reply, Data: data}
		if headers != "" {
			h, err := nats.DecodeHeadersMsg([]byte("NATS/1.0\r\n" + headers + "\r\n"))
			if err != nil {
				return // the client delivers no such message
			}
			in.Header = h
		}
		m := natswire.Marshaler{Source: "fuzz", MaxMessageBytes: math.MaxInt64}
		if withFallback {
			m.Fallback = &wmnats.NATSMarshaler{}
		}
		msg := unmarshal(t, m, in)
		_, parseErr := envelope.ParseWire(data)
		switch {
		case parseErr == nil:
			checkOpened(t, m, msg)
		case msg.Metadata["envelope_fallback"] != "":
			if !withFallback || !bytes.Equal(msg.Payload, data) {
				t.Errorf("fallback read %q as %q", data, msg.Payload)
			}
			pass(t, m, msg)
		default:
			if !envelope.IsMalformed(msg) || !bytes.Equal(envelope.Raw(msg), data) || len(msg.Payload) > 0 {
				t.Fatalf("%q opened as %q, raw %q", data, msg.Payload, envelope.Raw(msg))
			}
			if out := pass(t, m, msg); out != nil && !bytes.Equal(out.Data, data) {
				t.Errorf("%q passed on as %q", data, out.Data)
			}
		}
		for name, value := range msg.Metadata {
			if !envelope.IsMalformed(msg) && (!utf8.ValidString(name) || !utf8.ValidString(value)) && name != "envelope_receipt" {
				t.Errorf("%q=%q is not text", name, value)
			}
			if name == "envelope_redeemed" {
				t.Error("a foreign message was redeemed")
			}
		}
	})
}

// pass publishes a message again and returns it as it is delivered. It is nil where the headers
// of a foreign message take more than any may.
func pass(t *testing.T, m natswire.Marshaler, msg *message.Message) *nats.Msg {
	t.Helper()
	prepared, err := m.Prepare("hooks", msg)
	if err != nil {
		if len(msg.UUID) < 1000 {
			t.Fatal(err)
		}
		return nil
	}
	out := marshal(t, m, msg)
	inline, _, _ := m.Size("hooks", prepared, "")
	if got := int64(len(written(t, out.Header)) + len(out.Data)); got != inline {
		t.Errorf("written are %d bytes, counted %d", got, inline)
	}
	in := delivered(t, out)
	if !maps.EqualFunc(in.Header, out.Header, func(a, b []string) bool { return len(a) == 1 && len(b) == 1 && a[0] == b[0] }) {
		t.Errorf("%q is delivered as %q", out.Header, in.Header)
	}
	for name := range in.Header {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "envelope_") || strings.HasPrefix(lower, "nats-") && name != "Nats-Msg-Id" {
			t.Errorf("%s is on the wire", name)
		}
	}
	return in
}

// checkOpened checks a message that was well formed: it is the same after another trip.
func checkOpened(t *testing.T, m natswire.Marshaler, msg *message.Message) {
	t.Helper()
	if envelope.IsMalformed(msg) || msg.Metadata["ankusa_id"] != msg.UUID || msg.Metadata["ankusa_message_version"] != "" {
		t.Fatalf("opened as %s %v", msg.UUID, msg.Metadata)
	}
	first := pass(t, m, msg)
	if first == nil {
		return
	}
	again := unmarshal(t, m, first)
	third := unmarshal(t, m, pass(t, m, again))
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
// was sent.
func canonical(msg *message.Message, name string) bool {
	switch name {
	case "ankusa_sha256", "envelope_receipt", "ankusa_headers", "ankusa_unknown":
		return true
	case "traceparent", "tracestate":
		return !envelope.ValidTraceparent(msg.Metadata["traceparent"]) || len(msg.Metadata["tracestate"]) > 512
	}
	return false
}
