// Package snswire seals messages of Amazon SNS, of which SQS queues get copies that
// [github.com/watermill-envelope/envelope/marshaler/sqswire] opens, with raw delivery and
// without:
//
//	pub, err := snswire.NewPublisher(sns.PublisherConfig{AWSConfig: cfg, TopicResolver: r}, snswire.Marshaler{Source: "orders"}, log)
//	sub, err := sns.NewSubscriber(sns.SubscriberConfig{...}, sqswire.SubscriberConfig(cfg, sqswire.Marshaler{}), log)
//
// On the wire a message is what it is in SQS. A topic whose ARN ends in .fifo is told the group
// and the deduplication id.
package snswire

import (
	"strings"

	"github.com/ThreeDotsLabs/watermill-aws/sns"
	"github.com/ThreeDotsLabs/watermill/message"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/sqswire"
)

// DefaultMaxMessageBytes is the limit when none is given: that of an SNS topic which does not
// say otherwise, and of the queues that were created when SQS had no other.
const DefaultMaxMessageBytes = 256 << 10

// A Marshaler seals messages. Its zero value is ready to use: it refuses to publish a message
// that has no source. It may be used by several goroutines at once.
type Marshaler struct {
	// Source, Tenant, ContentType, Instance and Region fill in what a message lacks that
	// carries no envelope. They never override what it has.
	Source, Tenant, ContentType, Instance, Region string
	// Ordered writes the lane key ("tenant/source") as ordering key on messages that have
	// none.
	Ordered bool
	// MaxMessageBytes is the most that is sent, counted as SNS counts: the body, and of each
	// attribute the name, the type and the value. 0 is [DefaultMaxMessageBytes]. It must not
	// be over what the topic takes and what the subscribed queues take. Without raw delivery
	// queues get SNS's JSON around it, which is larger.
	MaxMessageBytes int64
	// GroupID chooses the MessageGroupId of a message that is as it will be sealed; an empty
	// one is none, which FIFO topics refuse. nil is the lane key: the ordering key, else
	// "tenant/source". It is not asked for a malformed message, which keeps the group that it
	// came with.
	GroupID func(topicARN string, msg *message.Message) string
	// DeduplicationID chooses the MessageDeduplicationId of a message that is as it will be
	// sealed; an empty one is none, which FIFO topics take only with
	// ContentBasedDeduplication. It must be the same whenever the same message is published
	// again, and another for every other. nil is [envelope.PublishID]. It is not asked for a
	// malformed message.
	DeduplicationID func(topicARN string, msg *message.Message) string
}

var (
	_ marshaler.Fitter = Marshaler{}
	_ sns.Marshaler    = Marshaler{}
)

// Validate reports everything that is wrong with m.
func (m Marshaler) Validate() error { return m.sqs("").Validate() }

// sqs is the marshaler of what the queues of a topic get.
func (m Marshaler) sqs(topicARN string) sqswire.Marshaler {
	s := sqswire.Marshaler{
		Source: m.Source, Tenant: m.Tenant, ContentType: m.ContentType, Instance: m.Instance, Region: m.Region,
		Ordered: m.Ordered, MaxMessageBytes: m.MaxMessageBytes,
		DeduplicationID: func(msg *message.Message) string {
			if m.DeduplicationID != nil {
				return m.DeduplicationID(topicARN, msg)
			}
			return envelope.PublishID(msg, topicARN)
		},
	}
	if s.MaxMessageBytes == 0 {
		s.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if m.GroupID != nil {
		s.GroupID = func(msg *message.Message) string { return m.GroupID(topicARN, msg) }
	}
	return s
}

// Prepare implements [marshaler.Sealer].
func (m Marshaler) Prepare(topic string, msg *message.Message) (*message.Message, error) {
	return m.sqs(topic).Prepare(topic, msg)
}

// Size implements [marshaler.Sealer].
func (m Marshaler) Size(topic string, prepared *message.Message, tenant string) (inline, claim, limit int64) {
	return m.sqs(topic).Size(topic, prepared, tenant)
}

// Fits implements [marshaler.Fitter].
func (m Marshaler) Fits(topic string, prepared *message.Message) bool {
	return m.sqs(topic).Fits(topic, prepared)
}

// Marshal seals msg. It cannot return an error: of a message that cannot be sealed it returns an
// input without Message, which the SDK refuses before it calls SNS. [NewPublisher] says why.
func (m Marshaler) Marshal(topicARN sns.TopicArn, msg *message.Message) *awssns.PublishInput {
	sealed, err := m.sqs(string(topicARN)).Marshal(msg)
	if err != nil {
		topic := string(topicARN)
		return &awssns.PublishInput{TopicArn: &topic}
	}
	return input(string(topicARN), sealed)
}

func input(topic string, sealed *sqstypes.Message) *awssns.PublishInput {
	in := &awssns.PublishInput{TopicArn: &topic, Message: sealed.Body}
	if len(sealed.MessageAttributes) > 0 {
		in.MessageAttributes = make(map[string]types.MessageAttributeValue, len(sealed.MessageAttributes))
		for name, value := range sealed.MessageAttributes {
			in.MessageAttributes[name] = types.MessageAttributeValue{DataType: value.DataType, StringValue: value.StringValue}
		}
	}
	if strings.HasSuffix(topic, fifo) {
		if group, ok := sealed.Attributes[string(sqstypes.MessageSystemAttributeNameMessageGroupId)]; ok {
			in.MessageGroupId = &group
		}
		if id, ok := sealed.Attributes[string(sqstypes.MessageSystemAttributeNameMessageDeduplicationId)]; ok {
			in.MessageDeduplicationId = &id
		}
	}
	return in
}

// fifo ends the names and ARNs of FIFO topics.
const fifo = ".fifo"
