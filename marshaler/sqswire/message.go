package sqswire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-envelope/envelope/marshaler"
)

var errNilMessage = errors.New("sqswire: nil message")

// Unmarshal opens a message. Its error is always nil, whatever the message holds (a nil one,
// which no client delivers, is an error): one that cannot be read is malformed and keeps its
// bytes and its attributes.
//
// A body that is SNS's JSON around a message, as a queue gets it whose subscription has no raw
// delivery, is opened as that message with its attributes. Attributes of other types than
// String are metadata as text; those of the type Binary only where they are text that SQS
// would take.
func (m Marshaler) Unmarshal(msg *types.Message) (*message.Message, error) {
	if msg == nil {
		return nil, errNilMessage
	}
	r := marshaler.Received{
		Native:  native(msg.MessageAttributes),
		Key:     msg.Attributes[groupID],
		ID:      text(msg.MessageId),
		Receipt: text(msg.MessageId),
	}
	body := text(msg.Body)
	if n, ok := notificationOf(body); ok {
		body, r.Native = *n.Message, n.native
	}
	r.Body = []byte(body)
	if m.Fallback != nil {
		r.Fallback = func() (*message.Message, error) { return m.Fallback.Unmarshal(msg) }
	}
	w := m.wire()
	return w.Open(r), nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// native yields attributes as text.
func native(attributes map[string]types.MessageAttributeValue) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for name, value := range attributes {
			if s, ok := valueOf(value); ok && !yield(name, s) {
				return
			}
		}
	}
}

func valueOf(value types.MessageAttributeValue) (string, bool) {
	switch {
	case value.StringValue != nil:
		return *value.StringValue, true
	case value.BinaryValue != nil:
		s := string(value.BinaryValue)
		return s, isText(s)
	}
	return "", false
}

// A notification is what SNS puts around a message.
type notification struct {
	Type              string
	TopicArn          string
	Message           *string
	MessageAttributes map[string]struct {
		Type, Value           string
		DataType, StringValue string // as goaws writes it
	}
}

// notificationOf returns what SNS put around a message, if it did.
func notificationOf(body string) (notification, bool) {
	// A quote inside a text of JSON has a backslash before it, so this costs our own messages
	// a search.
	if !strings.Contains(body, `"Notification"`) || !strings.Contains(body, `"TopicArn"`) {
		return notification{}, false
	}
	var n notification
	if err := json.Unmarshal([]byte(body), &n); err != nil {
		return notification{}, false
	}
	return n, n.Type == "Notification" && n.TopicArn != "" && n.Message != nil
}

// native yields the attributes of the message inside.
func (n notification) native(yield func(name, value string) bool) {
	for name, a := range n.MessageAttributes {
		value := a.Value + a.StringValue
		if hasPrefixFold(a.Type, "Binary") {
			decoded, err := base64.StdEncoding.DecodeString(value)
			if value = string(decoded); err != nil || !isText(value) {
				continue
			}
		}
		if !yield(name, value) {
			return
		}
	}
}
