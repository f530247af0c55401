package awssuite

import (
	"strconv"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler/sqswire"
)

const foreignBody = `{"v":2,"id":"f","source_id":"s","received_at":1,"size":2,"body_base64":"aGk="}`

// ForeignAttributes checks messages of a producer that is neither Watermill nor ours, whose
// attributes no text has, or that SNS has put its own JSON around.
func ForeignAttributes(t *testing.T, url string) {
	ctx := suite.Context(t)
	topic := topicName(t, "foreign")
	messages, err := SQS(url, Options{}).Subscriber(t, "").Subscribe(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	q := ensure(ctx, t, url, topic, false)
	value := func(kind, text string) types.MessageAttributeValue {
		v := types.MessageAttributeValue{DataType: aws.String(kind)}
		if strings.HasPrefix(kind, "Binary") {
			v.BinaryValue = []byte(text)
		} else {
			v.StringValue = &text
		}
		return v
	}
	for _, c := range []struct {
		rule       string
		body       string
		attributes map[string]types.MessageAttributeValue
		want       map[string]string // "" is absent
		bad        bool
	}{
		{rule: "no attribute", body: foreignBody},
		{
			rule: "attributes of all types", body: foreignBody,
			attributes: map[string]types.MessageAttributeValue{
				"text": value("String", "grüße"), "custom": value("String.custom", "a"),
				"number": value("Number", "1.5"), "int": value("Number.int", "7"),
				"bytes": value("Binary", "\xff\x00"), "image": value("Binary.png", "png"),
			},
			want: map[string]string{"text": "grüße", "custom": "a", "number": "1.5", "int": "7", "bytes": ""},
		},
		{
			rule: "names that are ours", body: foreignBody,
			attributes: map[string]types.MessageAttributeValue{
				"envelope_redeemed": text("true"), "Envelope_Malformed": text("invalid_json"), "ankusa_tenant_id": text("evil"),
				"ANKUSA_VERIFICATION": text("ok"), "ankusa_claim": text("urn:ankusa:claim:v1:evil:01M39VMD8RA3C5HR4RBV67Y002"),
				"traceparent": text("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), "envelope_receipt": text("spoofed"),
				"ankusa_id": value("Binary", "evil"), "ankusa_message_version": value("Number", "9"), "own": text("kept"),
			},
			want: map[string]string{
				"envelope_redeemed": "", "Envelope_Malformed": "", "envelope_malformed": "", "ankusa_tenant_id": "", "ANKUSA_VERIFICATION": "",
				"ankusa_verification": "", "ankusa_claim": "", "traceparent": "", "own": "kept",
			},
		},
		{
			rule: "SNS's JSON around it",
			body: `{"Type":"Notification","MessageId":"sns-1","TopicArn":"arn:aws:sns:us-east-1:000000000000:t","Message":` +
				strconv.Quote(foreignBody) + `,"MessageAttributes":{"own":{"Type":"String","Value":"kept"},"ankusa_tenant_id":{"Type":"String","Value":"evil"}}}`,
			want: map[string]string{"own": "kept", "ankusa_tenant_id": ""},
		},
		{
			rule: "SNS's JSON around what cannot be read", bad: true,
			body: `{"Type":"Notification","MessageId":"sns-1","TopicArn":"arn:aws:sns:us-east-1:000000000000:t","Message":"hello"}`,
			want: map[string]string{envelope.MetadataMalformed: string(envelope.CodeInvalidJSON)},
		},
		{
			rule: "what cannot be read", body: "hello", bad: true,
			attributes: map[string]types.MessageAttributeValue{"own": text("kept"), "bytes": value("Binary", "\xff")},
			want:       map[string]string{envelope.MetadataMalformed: string(envelope.CodeInvalidJSON), "own": "kept"},
		},
	} {
		if err := q.send(ctx, c.body, c.attributes); err != nil {
			t.Fatalf("%s: %v", c.rule, err)
		}
		var msg *message.Message
		select {
		case msg = <-messages:
		case <-ctx.Done():
			t.Fatalf("%s: %v", c.rule, ctx.Err())
		}
		if msg == nil {
			t.Fatalf("%s: the subscription ended", c.rule)
		}
		msg.Ack()
		if c.bad != envelope.IsMalformed(msg) || !c.bad && (string(msg.Payload) != "hi" || msg.UUID != "f") {
			t.Errorf("%s: got %q with body %q", c.rule, msg.UUID, msg.Payload)
		}
		if msg.Metadata[envelope.MetadataReceipt] == "spoofed" {
			t.Errorf("%s: the receipt is the producer's", c.rule)
		}
		for name, value := range c.want {
			if got := msg.Metadata[name]; got != value {
				t.Errorf("%s: metadata %q is %q, want %q", c.rule, name, got, value)
			}
		}
	}
}

// Unenforced checks what we do about AWS's rules that no emulator enforces, or not all: what an
// attribute cannot have never is one, and comes back all the same.
func Unenforced(t *testing.T, url string) {
	ctx := suite.Context(t)
	topic := topicName(t, "rules")
	q := ensure(ctx, t, url, topic, false)
	m := sqswire.Marshaler{Source: "suite"}
	pub := SQS(url, Options{Marshaler: m}).Publisher(t)
	all := string(suite.AllBytes())
	for _, c := range []struct {
		rule     string
		metadata map[string]string
	}{
		{"a name with a blank", map[string]string{"a b": "1"}},
		{"a name with other characters", map[string]string{"a/b": "1", "ключ": "2", "a:b": "3"}},
		{"a name that is Amazon's", map[string]string{"AWS.a": "1", "aws.b": "2", "Amazon.c": "3"}},
		{"dots at the ends, and side by side", map[string]string{".a": "1", "b.": "2", "c..d": "3"}},
		{"a name of 257 characters", map[string]string{strings.Repeat("n", 257): "1"}},
		{"an empty value", map[string]string{"a": ""}},
		{"characters that XML has not", map[string]string{"a": "\x00\x0b\x1f", "b": "\ufffe\uffff"}},
		{"eleven of them", map[string]string{
			"a0": "v", "a1": "v", "a2": "v", "a3": "v", "a4": "v", "a5": "v", "a6": "v", "a7": "v", "a8": "v", "a9": "v", "a10": "v",
		}},
		{"attributes of ours that cannot be one", map[string]string{
			envelope.MetadataTenantID: "a\x01b", envelope.MetadataDedupeKey: "\uffff", envelope.MetadataOrderingKey: "lane\x02",
		}},
		{"all attributes of ours", map[string]string{
			envelope.MetadataTenantID: "acme", envelope.MetadataDedupeKey: "d", envelope.MetadataOrderingKey: "lane",
			envelope.MetadataReplayID: "again", "own": "kept",
			envelope.MetadataTraceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", envelope.MetadataTracestate: "a=1",
		}},
	} {
		sent := message.NewMessage(envelope.NewID(), []byte(all))
		for name, value := range c.metadata {
			sent.Metadata.Set(name, value)
		}
		if err := pub.Publish(topic, sent); err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		got := q.next(ctx, t, 1)[0]
		if len(got.MessageAttributes) > maxAttributes {
			t.Errorf("%s: %d attributes", c.rule, len(got.MessageAttributes))
		}
		for name, value := range values(t, c.rule, got.MessageAttributes) {
			if !allowedName(name) || value == "" || strings.ContainsAny(value, "\x00\x01\x02\x0b\x1f\ufffe\uffff") {
				t.Errorf("%s: the attribute %q is %q", c.rule, name, value)
			}
		}
		opened, err := m.Unmarshal(&got)
		if err != nil {
			t.Fatal(err)
		}
		if string(opened.Payload) != all || opened.UUID != sent.UUID {
			t.Errorf("%s: got %s with the body %q", c.rule, opened.UUID, opened.Payload)
		}
		for name, value := range c.metadata {
			if got, ok := opened.Metadata[name]; !ok || got != value {
				t.Errorf("%s: metadata %q came back as %q (%t), want %q", c.rule, name, got, ok, value)
			}
		}
	}
}

// allowedName reports whether AWS takes the name of an attribute.
func allowedName(name string) bool {
	lower := strings.ToLower(name)
	return name != "" && len(name) <= 256 && strings.Trim(lower, "abcdefghijklmnopqrstuvwxyz0123456789_-.") == "" &&
		!strings.HasPrefix(lower, "aws.") && !strings.HasPrefix(lower, "amazon.") &&
		name[0] != '.' && name[len(name)-1] != '.' && !strings.Contains(name, "..")
}
