package snswire

import (
	"context"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-aws/sns"
	"github.com/ThreeDotsLabs/watermill/message"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/watermill-envelope/envelope/marshaler"
)

// A Publisher is that of watermill-aws, except that it says why a message cannot be sealed. It
// may be used by several goroutines at once.
type Publisher struct {
	*sns.Publisher
	m        Marshaler
	resolver sns.TopicResolver
}

var (
	_ message.Publisher = (*Publisher)(nil)
	_ marshaler.Fitter  = (*Publisher)(nil)
)

// NewPublisher returns a publisher with the configuration c that seals with m. Topics whose names
// end in .fifo are FIFO topics, also when the publisher creates them. A nil logger logs nothing.
func NewPublisher(c sns.PublisherConfig, m Marshaler, logger watermill.LoggerAdapter) (*Publisher, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = watermill.NopLogger{} // a nil one panics
	}
	c.Marshaler = sealed{}
	if c.GenerateCreateTopicInput == nil {
		c.GenerateCreateTopicInput = createTopicInput
	}
	inner, err := sns.NewPublisher(c, logger)
	if err != nil {
		return nil, err
	}
	return &Publisher{Publisher: inner, m: m, resolver: c.TopicResolver}, nil
}

func createTopicInput(ctx context.Context, topic sns.TopicName, attributes sns.ConfigAttributes) (awssns.CreateTopicInput, error) {
	if strings.HasSuffix(string(topic), fifo) {
		attributes.FifoTopic = "true"
	}
	return sns.GenerateCreateTopicInputDefault(ctx, topic, attributes)
}

// Publish seals all messages before it publishes any, in order: when one of them is refused,
// nothing is sent, and the error is permanent.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	arn, err := p.resolver.ResolveTopic(context.Background(), topic)
	if err != nil {
		return err
	}
	s := p.m.sqs(string(arn))
	out := make([]*message.Message, len(messages))
	for i, msg := range messages {
		one, err := s.Marshal(msg)
		if err != nil {
			return fmt.Errorf("snswire: %w", err)
		}
		out[i] = message.NewMessage(msg.UUID, nil)
		out[i].SetContext(context.WithValue(msg.Context(), sealedKey{}, input(string(arn), one)))
	}
	return p.Publisher.Publish(topic, out...)
}

// Prepare implements [marshaler.Sealer].
func (p *Publisher) Prepare(topic string, msg *message.Message) (*message.Message, error) {
	return p.m.Prepare(topic, msg)
}

// Size implements [marshaler.Sealer].
func (p *Publisher) Size(topic string, prepared *message.Message, tenant string) (inline, claim, limit int64) {
	return p.m.Size(topic, prepared, tenant)
}

// Fits implements [marshaler.Fitter].
func (p *Publisher) Fits(topic string, prepared *message.Message) bool {
	return p.m.Fits(topic, prepared)
}

// String returns the name that Watermill gives to the inner publisher.
func (p *Publisher) String() string { return "sns.Publisher" }

// sealed is a marshaler of messages that are sealed already.
type sealed struct{}

type sealedKey struct{}

func (sealed) Marshal(_ sns.TopicArn, msg *message.Message) *awssns.PublishInput {
	return msg.Context().Value(sealedKey{}).(*awssns.PublishInput)
}
