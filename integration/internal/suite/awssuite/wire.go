package awssuite

import (
	"maps"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

// maxAttributes is how many attributes a message may have.
const maxAttributes = 10

// expected returns the JSON and the attributes of a literal: metadata travel in the JSON, what
// is empty is left out, and tracestate gives way to the limit of ten.
func expected(json string, headers []suite.Pair) (string, map[string]string) {
	attributes := map[string]string{}
	for _, h := range headers {
		if h.Value != "" && h.Name != "b-name" && h.Name != "correlation_id" {
			attributes[h.Name] = h.Value
		}
	}
	if len(attributes) > maxAttributes {
		delete(attributes, envelope.MetadataTracestate)
	}
	return strings.Replace(json, `"watermill_metadata":{"content_type":"text/plain"}`,
		`"watermill_metadata":{"b-name":"grüße","content_type":"text/plain","correlation_id":"c-1"}`, 1), attributes
}

// values returns the values of attributes, which must be of the type String.
func values(t testing.TB, name string, attributes map[string]types.MessageAttributeValue) map[string]string {
	t.Helper()
	got := map[string]string{}
	for attribute, value := range attributes {
		got[attribute] = aws.ToString(value.StringValue)
		if *value.DataType != "String" {
			t.Errorf("%s: %s is of the type %s", name, attribute, *value.DataType)
		}
	}
	return got
}

// Literal checks message by message what a client that is not Watermill receives.
func Literal(t *testing.T, url string) { literal(t, url, false) }

// LiteralFIFO checks the same of a FIFO queue, and the ids of group and deduplication.
func LiteralFIFO(t *testing.T, url string) { literal(t, url, true) }

func literal(t *testing.T, url string, ordered bool) {
	ctx, topic := suite.Context(t), topicName(t, "literal")
	q := ensure(ctx, t, url, topic, ordered)
	pub := SQS(url, Options{FIFO: ordered}).Publisher(t)
	suite.EachLiteral(func(name string, msg *message.Message, json string, headers []suite.Pair) {
		group, deduplication := envelope.LaneKeyOf(msg), envelope.PublishID(msg, "")
		if err := pub.Publish(topic, msg); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := q.next(ctx, t, 1)[0]
		json, attributes := expected(json, headers)
		if *got.Body != json {
			t.Errorf("%s: the body is\n%s\nwant\n%s", name, *got.Body, json)
		}
		if have := values(t, name, got.MessageAttributes); !maps.Equal(have, attributes) {
			t.Errorf("%s: the attributes are\n%q\nwant\n%q", name, have, attributes)
		}
		if !ordered {
			group, deduplication = "", ""
		}
		if have := got.Attributes[groupID]; have != group {
			t.Errorf("%s: the group is %q, want %q", name, have, group)
		}
		if have := got.Attributes[deduplicationID]; have != deduplication {
			t.Errorf("%s: the deduplication id is %q, want %q", name, have, deduplication)
		}
	})
}

const (
	groupID         = string(types.MessageSystemAttributeNameMessageGroupId)
	deduplicationID = string(types.MessageSystemAttributeNameMessageDeduplicationId)
)
