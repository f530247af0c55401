package sqswire_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/sqswire"
)

func unmarshal(t testing.TB, m sqswire.Marshaler, in *types.Message) *message.Message {
	t.Helper()
	msg, err := m.Unmarshal(in)
	if err != nil || msg == nil || msg.Metadata == nil {
		t.Fatalf("%v, %v", msg, err)
	}
	return msg
}

// attributes returns text as attributes of the type String.
func attributes(values map[string]string) map[string]types.MessageAttributeValue {
	all := map[string]types.MessageAttributeValue{}
	for name, value := range values {
		all[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	return all
}

func TestUnmarshalAttributes(t *testing.T) {
	in := &types.Message{
		Body: aws.String(hookJSON), MessageId: aws.String("sqs-1"), Attributes: map[string]string{"MessageGroupId": "g"},
		MessageAttributes: map[string]types.MessageAttributeValue{
			"text":              {DataType: aws.String("String"), StringValue: aws.String("é")},
			"number":            {DataType: aws.String("Number.int"), StringValue: aws.String("7")},
			"image":             {DataType: aws.String("Binary.png"), BinaryValue: []byte("png")},
			"bytes":             {DataType: aws.String("Binary"), BinaryValue: []byte{0xff}},
			"control":           {DataType: aws.String("Binary"), BinaryValue: []byte{0}},
			"untyped":           {StringValue: aws.String("x")},
			"nothing":           {DataType: aws.String("String")},
			"envelope_redeemed": {DataType: aws.String("String"), StringValue: aws.String("true")},
			"Ankusa_Tenant_Id":  {DataType: aws.String("String"), StringValue: aws.String("evil")},
			"content_type":      {DataType: aws.String("String"), StringValue: aws.String("text/plain")},
		},
	}
	msg := unmarshal(t, sqswire.Marshaler{}, in)
	want := hooktest.With(hooktest.Message(), "text", "é", "number", "7", "image", "png", "untyped", "x", "envelope_receipt", "sqs-1")
	if msg.UUID != hooktest.ID || string(msg.Payload) != "hello" || !maps.Equal(msg.Metadata, want.Metadata) {
		t.Errorf("got %s %q\n%v, want\n%v", msg.UUID, msg.Payload, msg.Metadata, want.Metadata)
	}
	if _, err := (sqswire.Marshaler{}).Unmarshal(nil); err == nil {
		t.Error("a nil message is no error")
	}
	if msg := unmarshal(t, sqswire.Marshaler{}, &types.Message{}); !envelope.IsMalformed(msg) {
		t.Errorf("an empty message is %v", msg.Metadata)
	}
}

// notification is what SNS puts around a message.
func notification(t testing.TB, inner string, attributes string) string {
	t.Helper()
	text, err := json.Marshal(inner)
	if err != nil {
		t.Fatal(err)
	}
	return `{
  "Type" : "Notification",
  "MessageId" : "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
  "TopicArn" : "arn:aws:sns:us-west-2:123456789012:MyTopic",
  "Message" : ` + string(text) + `,
  "Timestamp" : "2012-05-02T00:54:06.655Z",
  "SignatureVersion" : "1", "Signature" : "x", "SigningCertURL" : "x", "UnsubscribeURL" : "x",
  "MessageAttributes" : {` + attributes + `}
}`
}

func TestUnmarshalNotification(t *testing.T) {
	const own = `"own" : {"Type":"String","Value":"kept"}, "bytes": {"Type":"Binary","Value":"/w=="}, "image": {"Type":"Binary","Value":"cG5n"}, "control": {"Type":"Binary","Value":"AA=="},
		"broken": {"Type":"Binary","Value":"%"}, "ankusa_tenant_id": {"Type":"String","Value":"evil"}`
	in := &types.Message{Body: aws.String(notification(t, hookJSON, own)), MessageId: aws.String("sqs-1"), MessageAttributes: attributes(map[string]string{"outer": "1"})}
	msg := unmarshal(t, sqswire.Marshaler{}, in)
	want := hooktest.With(hooktest.Message(), "own", "kept", "image", "png", "envelope_receipt", "sqs-1")
	if msg.UUID != hooktest.ID || string(msg.Payload) != "hello" || !maps.Equal(msg.Metadata, want.Metadata) {
		t.Errorf("got %s %q\n%v, want\n%v", msg.UUID, msg.Payload, msg.Metadata, want.Metadata)
	}

	// What cannot be read inside is malformed as its producer wrote it.
	msg = unmarshal(t, sqswire.Marshaler{}, &types.Message{Body: aws.String(notification(t, "hello", own)), MessageId: aws.String("sqs-1")})
	if !envelope.IsMalformed(msg) || string(envelope.Raw(msg)) != "hello" || msg.Metadata["own"] != "kept" || msg.UUID != "sqs-1" {
		t.Errorf("got %s %q %v", msg.UUID, envelope.Raw(msg), msg.Metadata)
	}

	for rule, body := range map[string]string{
		"no topic":     strings.Replace(notification(t, hookJSON, ""), "TopicArn", "Topic", 1),
		"other type":   strings.Replace(notification(t, hookJSON, ""), `"Notification"`, `"SubscriptionConfirmation"`, 1),
		"empty topic":  strings.Replace(notification(t, hookJSON, ""), "arn:aws:sns:us-west-2:123456789012:MyTopic", "", 1),
		"another type": strings.Replace(notification(t, hookJSON, ""), `"Notification"`, `"Other", "Subject" : "Notification"`, 1),
		"no message":   `{"Type":"Notification","TopicArn":"arn"}`,
		"no text":      `{"Type":"Notification","TopicArn":"arn","Message":{}}`,
		"not the end":  notification(t, hookJSON, "") + "}",
		"inside other": `{"a":` + notification(t, hookJSON, "") + `}`,
	} {
		if msg := unmarshal(t, sqswire.Marshaler{}, &types.Message{Body: &body}); !envelope.IsMalformed(msg) || string(envelope.Raw(msg)) != body {
			t.Errorf("%s: got %q %v", rule, envelope.Raw(msg), msg.Metadata)
		}
	}

	// A message of ours that quotes one is itself.
	quoting := hooktest.With(hooktest.Message(), "quote", notification(t, "hello", own))
	if got := unmarshal(t, sqswire.Marshaler{}, marshal(t, sqswire.Marshaler{}, quoting)); string(got.Payload) != "hello" || got.Metadata["quote"] != quoting.Metadata["quote"] {
		t.Errorf("a quote became %q %v", got.Payload, got.Metadata)
	}
}

// A queue in the middle of a migration: every body arrives as it was sent, and what we broke is
// never taken for a message of the old format.
func TestFallback(t *testing.T) {
	stock := sqs.DefaultMarshalerUnmarshaler{}
	count := &counter{malformed: map[envelope.Code]int{}}
	m := sqswire.Marshaler{Source: "orders", Fallback: stock, Observer: count}
	for _, body := range []string{"hello", `{"order":7}`, `{"v":1}`} {
		old, err := stock.Marshal(hooktest.With(message.NewMessage("old-1", []byte(body)), "n", "1", "ankusa_claim", "evil"))
		if err != nil {
			t.Fatal(err)
		}
		msg := unmarshal(t, m, old)
		if msg.UUID != "old-1" || string(msg.Payload) != body || msg.Metadata["n"] != "1" || msg.Metadata["ankusa_claim"] != "" || msg.Metadata["envelope_fallback"] != "true" {
			t.Errorf("got %s %q %v", msg.UUID, msg.Payload, msg.Metadata)
		}
		ours := marshal(t, m, message.NewMessage("new-1", []byte(body)))
		if msg := unmarshal(t, m, ours); msg.UUID != "new-1" || string(msg.Payload) != body || msg.Metadata["envelope_fallback"] != "" {
			t.Errorf("got %s %q %v", msg.UUID, msg.Payload, msg.Metadata)
		}
		*ours.Body = (*ours.Body)[:20]
		if msg := unmarshal(t, m, ours); !envelope.IsMalformed(msg) {
			t.Errorf("what we broke was read as %q", msg.Payload)
		}
	}
	if count.fallback != 3 || count.malformed[envelope.CodeInvalidJSON] != 3 {
		t.Errorf("counted %+v", count)
	}
}

type counter struct {
	malformed map[envelope.Code]int
	fallback  int
}

func (c *counter) Malformed(_ string, code envelope.Code) { c.malformed[code]++ }
func (c *counter) Fallback(string)                        { c.fallback++ }
