package awssuite

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/sqswire"
)

// limit is what SQS takes for a message.
const limit = 1 << 20

// sized returns a message that takes n bytes as the marshaler counts, with its body as counted
// by the server.
func sized(t testing.TB, m marshaler.Sealer, topic string, n int) *message.Message {
	t.Helper()
	msg := message.NewMessage("limit", []byte("body"))
	msg.Metadata.Set(envelope.MetadataReceivedAt, "1737500000000")
	msg.Metadata.Set("note", "n") // an empty one takes other bytes
	prepared, err := m.Prepare(topic, msg)
	if err != nil {
		t.Fatal(err)
	}
	inline, _, _ := m.Size(topic, prepared, "")
	msg.Metadata.Set("note", strings.Repeat("n", 1+n-int(inline)))
	return msg
}

// Limits checks that what we send is no more than what SQS takes.
func Limits(t *testing.T, url string) {
	t.Run("ours", func(t *testing.T) { ourLimit(t, url) })
	t.Run("a body that is past our check", func(t *testing.T) { pastOurCheck(t, url) })
}

// ServerRules says which of AWS's rules a server enforces. Those of sizes every one does, for
// the body alone, and nobody those of names.
func ServerRules(t *testing.T, url string, strict bool) {
	ctx := suite.Context(t)
	q, ordered := ensure(ctx, t, url, topicName(t, "rules"), false), ensure(ctx, t, url, topicName(t, "rules"), true)
	attributes := func(n int) map[string]types.MessageAttributeValue {
		all := map[string]types.MessageAttributeValue{}
		for i := range n {
			all[fmt.Sprint("a", i)] = text("1")
		}
		return all
	}
	one := func(name, value string) map[string]types.MessageAttributeValue {
		return map[string]types.MessageAttributeValue{name: text(value)}
	}
	for _, c := range []struct {
		rule       string
		queue      queue
		body       string
		attributes map[string]types.MessageAttributeValue
		takes      bool
	}{
		{"a body of the limit less one", q, strings.Repeat("x", limit-1), nil, true},
		{"a body of the limit", q, strings.Repeat("x", limit), nil, true},
		{"a body of the limit and an attribute", q, strings.Repeat("x", limit), attributes(1), true},
		{"a body of one byte more", q, strings.Repeat("x", limit+1), nil, false},
		{"ten attributes", q, "x", attributes(maxAttributes), true},
		{"eleven attributes", q, "x", attributes(maxAttributes + 1), !strict},
		{"an empty value", q, "x", one("a", ""), !strict},
		{"a value that XML has not", q, "x", one("a", "\x01"), !strict},
		{"a body that XML has not", q, "\x01", nil, !strict},
		{"a name with a blank", q, "x", one("a b", "1"), true},
		{"a name of Amazon's", q, "x", one("AWS.a", "1"), true},
		{"a name of 257 characters", q, "x", one(strings.Repeat("n", 257), "1"), true},
		{"a FIFO queue without a group", ordered, "x", nil, !strict},
	} {
		if err := c.queue.send(ctx, c.body, c.attributes); c.takes != (err == nil) {
			t.Errorf("%s: %v", c.rule, err)
		}
	}
}

// ourLimit checks that we refuse from the first byte over the limit on, counted as AWS says: the
// body and each attribute's name, type and value.
func ourLimit(t *testing.T, url string) {
	ctx, topic := suite.Context(t), topicName(t, "limit")
	m := sqswire.Marshaler{Source: "suite"}
	pub, q := SQS(url, Options{Marshaler: m}).Publisher(t), ensure(ctx, t, url, topic, false)
	for n, ok := range map[int]bool{limit - 1: true, limit: true, limit + 1: false} {
		err := pub.Publish(topic, sized(t, m, topic, n))
		if !ok {
			var tooLarge *envelope.TooLargeError
			if !errors.As(err, &tooLarge) || tooLarge.Size != int64(n) || tooLarge.Max != limit {
				t.Errorf("%d bytes: %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%d bytes: %v", n, err)
			continue
		}
		got := q.next(ctx, t, 1)[0]
		sum := len(*got.Body)
		for name, value := range got.MessageAttributes {
			sum += len(name) + len(*value.DataType) + len(*value.StringValue)
		}
		if sum != n {
			t.Errorf("%d bytes by our count are %d on the wire", n, sum)
		}
	}
}

// pastOurCheck checks with a limit of ours that is too high that the body alone is what the
// server counts, and to the byte: our count is larger by the attributes, on the safe side.
func pastOurCheck(t *testing.T, url string) {
	topic := topicName(t, "limit")
	m := sqswire.Marshaler{Source: "suite", MaxMessageBytes: 2 * limit}
	pub := SQS(url, Options{Marshaler: m}).Publisher(t)
	attributes := attributeBytes(t, m, sized(t, m, topic, limit))
	for n, ok := range map[int]bool{limit - 1: true, limit: true, limit + 1: false} {
		err := pub.Publish(topic, sized(t, m, topic, n+attributes))
		if ok != (err == nil) {
			t.Errorf("a body of %d bytes with attributes of %d: %v", n, attributes, err)
		}
	}
}

// attributeBytes returns what AWS counts for the attributes of a message.
func attributeBytes(t testing.TB, m sqswire.Marshaler, msg *message.Message) int {
	t.Helper()
	sent, err := m.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for name, value := range sent.MessageAttributes {
		sum += len(name) + len(*value.DataType) + len(*value.StringValue)
	}
	return sum
}
