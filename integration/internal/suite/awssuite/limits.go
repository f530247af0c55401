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

// Limits checks what a strict server takes, and that what we send is no more.
func Limits(t *testing.T, url string) {
	t.Run("the server's", func(t *testing.T) { serverLimits(t, url) })
	t.Run("ours", func(t *testing.T) { ourLimit(t, url) })
	t.Run("a body that is past our check", func(t *testing.T) { pastOurCheck(t, url) })
}

// serverLimits says what the server enforces: the size of the body alone, and ten attributes.
func serverLimits(t *testing.T, url string) {
	ctx := suite.Context(t)
	q := ensure(ctx, t, url, topicName(t, "limit"), false)
	for n, ok := range map[int]bool{limit - 1: true, limit: true, limit + 1: false} {
		if err := q.send(ctx, strings.Repeat("x", n), nil); ok != (err == nil) {
			t.Errorf("a body of %d bytes: %v", n, err)
		}
		if err := q.send(ctx, strings.Repeat("x", n), map[string]types.MessageAttributeValue{"a": text("1")}); ok != (err == nil) {
			t.Errorf("a body of %d bytes and an attribute: %v", n, err)
		}
	}
	for n, ok := range map[int]bool{maxAttributes: true, maxAttributes + 1: false} {
		attributes := map[string]types.MessageAttributeValue{}
		for i := range n {
			attributes[fmt.Sprint("a", i)] = text("1")
		}
		if err := q.send(ctx, "x", attributes); ok != (err == nil) {
			t.Errorf("%d attributes: %v", n, err)
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
