package sqswire_test

import (
	"bytes"
	"maps"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler/sqswire"
)

// FuzzUnmarshal checks what holds for any message: it is opened, nothing foreign is believed,
// what cannot be read is not handled, and everything can be passed on as SQS takes it.
func FuzzUnmarshal(f *testing.F) {
	for _, body := range []string{
		hookJSON, "", "hello", "null", "[1]", `{"v":3}`, "\xff", "a\x00", "\uffff", strings.Replace(hookJSON, "aGVsbG8", "SGVsbG8", 1),
		strings.Replace(hookJSON, `"sha256"`, `"watermill_metadata":{"a":"\u0000","content_type":"c","envelope_raw":"x"},"sha256"`, 1),
		strings.Replace(hookJSON, `"tenant_id":"acme"`, `"tenant_id":"\u0001"`, 1),
		strings.Replace(hookJSON, `"sha256"`, "\"later\":[1,{\"a\":\"\uffff\"}],\"sha256\"", 1),
		notification(f, hookJSON, ""), notification(f, "hello", `"a":{"Type":"Binary","Value":"/w=="},"envelope_redeemed":{"Value":"true"}`),
	} {
		for _, lines := range []string{
			"", "a=1\nMixed-Case=\n=x\n.a=y", "a=\xff\n\xc0\x80=b", "envelope_redeemed=true\nAnkusa_Claim=x", "ankusa_message_version=1\nankusa_id=\xff",
			"_watermill_message_uuid=u-1\ncontent_type=text/plain", "1=v\n2=v\n3=v\n4=v\n5=v\n6=v\n7=v\n8=v\n9=v\n10=v\n11=v",
		} {
			f.Add(body, lines, "String", "group", false)
			f.Add(body, lines, "Binary", "a b", true)
		}
	}
	f.Fuzz(func(t *testing.T, body, lines, kind, group string, withFallback bool) {
		in := &types.Message{
			Body: &body, MessageId: aws.String("sqs-1"), Attributes: map[string]string{"MessageGroupId": group},
			MessageAttributes: map[string]types.MessageAttributeValue{},
		}
		for line := range strings.SplitSeq(lines, "\n") {
			name, value, _ := strings.Cut(line, "=")
			a := types.MessageAttributeValue{DataType: &kind}
			if strings.HasPrefix(kind, "Binary") {
				a.BinaryValue = []byte(value)
			} else {
				a.StringValue = &value
			}
			in.MessageAttributes[name] = a
		}
		m := sqswire.Marshaler{Source: "fuzz", MaxMessageBytes: math.MaxInt64}
		if withFallback {
			m.Fallback = sqs.DefaultMarshalerUnmarshaler{}
		}
		msg := unmarshal(t, m, in)
		if envelope.IsMalformed(msg) && len(msg.Payload) > 0 {
			t.Fatalf("%q opened as %q", body, msg.Payload)
		}
		if _, err := envelope.ParseWire([]byte(body)); err == nil && envelope.IsMalformed(msg) {
			t.Errorf("%q is malformed", body)
		}
		for name, value := range msg.Metadata {
			if !envelope.IsMalformed(msg) && (!utf8.ValidString(name) || !utf8.ValidString(value)) {
				t.Errorf("%q=%q is not text", name, value)
			}
			if name == "envelope_redeemed" {
				t.Error("a foreign message was redeemed")
			}
		}
		out := marshal(t, m, msg)
		if *out.Body == "" || !legal(*out.Body) {
			t.Errorf("the body %q would be refused", *out.Body)
		}
		for name, value := range values(t, out) {
			if name == "" || !legal(value) || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_-.") != "" {
				t.Errorf("the attribute %q=%q would be refused", name, value)
			}
		}
		for name, id := range out.Attributes {
			if id == "" || len(id) > 128 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
				t.Errorf("%s %q would be refused", name, id)
			}
		}
		again := unmarshal(t, m, out)
		if !envelope.IsMalformed(msg) && (!bytes.Equal(again.Payload, msg.Payload) || again.UUID != msg.UUID) {
			t.Errorf("%s %q became %s %q", msg.UUID, msg.Payload, again.UUID, again.Payload)
		}
		if envelope.IsMalformed(msg) || envelope.IsMalformed(again) {
			return
		}
		third := unmarshal(t, m, marshal(t, m, again))
		if !maps.Equal(third.Metadata, again.Metadata) {
			t.Errorf("%v became %v", again.Metadata, third.Metadata)
		}
	})
}

// legal reports whether XML has all characters of s.
func legal(s string) bool {
	for _, r := range s {
		if !(r == '\t' || r == '\n' || r == '\r' || r >= ' ' && r <= 0xd7ff || r >= 0xe000 && r <= 0xfffd || r >= 0x10000) {
			return false
		}
	}
	return utf8.ValidString(s)
}
