package googlecloudwire_test

import (
	"bytes"
	"maps"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/watermill-envelope/envelope"
)

// FuzzUnmarshal checks what holds for any message: it is opened, nothing foreign is believed,
// what cannot be read is not handled, and everything can be passed on as Pub/Sub takes it.
func FuzzUnmarshal(f *testing.F) {
	for _, data := range []string{
		hookJSON, "", "hello", "null", "[1]", `{"v":3}`, "\xff", "a\x00", strings.Replace(hookJSON, "aGVsbG8", "SGVsbG8", 1),
		strings.Replace(hookJSON, `"sha256"`, `"watermill_metadata":{"a":"\u0000","content_type":"c","envelope_raw":"x","googx":"1"},"sha256"`, 1),
		strings.Replace(hookJSON, `"sha256"`, `"ordering_key":"lane","sha256"`, 1),
		strings.Replace(hookJSON, `"tenant_id":"acme"`, `"tenant_id":"`+strings.Repeat("t", 1025)+`"`, 1),
		strings.Replace(hookJSON, `"sha256"`, `"ordering_key":"`+strings.Repeat("o", 1025)+`","sha256"`, 1),
	} {
		for _, lines := range []string{
			"", "a=1\nMixed-Case=\n=x\ngoogclient=y", "a=\xff\n\xc0\x80=b", "envelope_redeemed=true\nAnkusa_Claim=x", "ankusa_message_version=1\nankusa_id=\xff",
			"_watermill_message_uuid=u-1\ncontent_type=text/plain", strings.Repeat("n", 257) + "=v", "n=" + strings.Repeat("v", 1025),
		} {
			f.Add(data, lines, "key", "7", false)
			f.Add(data, lines, "", "", true)
		}
	}
	f.Fuzz(func(t *testing.T, data, lines, key, id string, withFallback bool) {
		in := pub{id: id, data: data, key: key, attributes: map[string]string{}}
		for line := range strings.SplitSeq(lines, "\n") {
			name, value, _ := strings.Cut(line, "=")
			in.attributes[name] = value
		}
		for _, with := range []func(options) codec{newFirst, newSecond} {
			c := with(options{source: "fuzz", max: math.MaxInt64, stock: withFallback})
			msg := unmarshal(t, c, in)
			if envelope.IsMalformed(msg) && len(msg.Payload) > 0 {
				t.Fatalf("%q opened as %q", data, msg.Payload)
			}
			if _, err := envelope.ParseWire([]byte(data)); err == nil && envelope.IsMalformed(msg) {
				t.Errorf("%q is malformed", data)
			}
			if _, ok := msg.Metadata["envelope_redeemed"]; ok {
				t.Error("a foreign message was redeemed")
			}
			out := marshal(t, c, msg)
			if out.data == "" || len(out.attributes) > 100 || len(out.key) > 1024 {
				t.Errorf("%d bytes of data, %d attributes and a key of %d bytes would be refused", len(out.data), len(out.attributes), len(out.key))
			}
			for name, value := range out.attributes {
				if name == "" || len(name) > 256 || value == "" || len(value) > 1024 || !utf8.ValidString(name) || !utf8.ValidString(value) ||
					strings.HasPrefix(strings.ToLower(name), "goog") {
					t.Errorf("the attribute %q=%q would be refused", name, value)
				}
			}
			again := unmarshal(t, c, out)
			if !envelope.IsMalformed(msg) && (!bytes.Equal(again.Payload, msg.Payload) || again.UUID != msg.UUID) {
				t.Errorf("%s %q became %s %q", msg.UUID, msg.Payload, again.UUID, again.Payload)
			}
			if envelope.IsMalformed(msg) || envelope.IsMalformed(again) {
				continue
			}
			third := unmarshal(t, c, marshal(t, c, again))
			delete(third.Metadata, "envelope_receipt") // a new one for each copy without an id
			delete(again.Metadata, "envelope_receipt")
			if !maps.Equal(third.Metadata, again.Metadata) {
				t.Errorf("%v became %v", again.Metadata, third.Metadata)
			}
		}
	})
}
