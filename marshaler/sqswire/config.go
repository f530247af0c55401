package sqswire

import (
	"context"
	"strings"

	"github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// fifo ends the names and URLs of FIFO queues.
const fifo = ".fifo"

// PublisherConfig returns the configuration of a publisher that seals with m. Topics whose names
// end in .fifo are FIFO queues, also when the publisher creates them. Set what else you need,
// such as CreateQueueConfig and QueueUrlResolver, in what it returns.
func PublisherConfig(cfg aws.Config, m Marshaler) sqs.PublisherConfig {
	return sqs.PublisherConfig{
		AWSConfig:                cfg,
		Marshaler:                m,
		GenerateSendMessageInput: m.sendMessageInput,
		GenerateCreateQueueInput: createQueueInput,
	}
}

// SubscriberConfig returns the configuration of a subscriber that opens with m, and that creates
// FIFO queues for topics whose names end in .fifo. It asks for one message at a time and waits
// up to 20 seconds for it; of a FIFO queue the group is asked for too. Set what else you need,
// such as QueueConfigAttributes, in what it returns.
func SubscriberConfig(cfg aws.Config, m Marshaler) sqs.SubscriberConfig {
	return sqs.SubscriberConfig{
		AWSConfig:                   cfg,
		Unmarshaler:                 m,
		GenerateReceiveMessageInput: receiveMessageInput,
		GenerateCreateQueueInput:    createQueueInput,
	}
}

func (m Marshaler) sendMessageInput(_ context.Context, queue sqs.QueueURL, msg *types.Message) (*awssqs.SendMessageInput, error) {
	url := string(queue)
	input := &awssqs.SendMessageInput{
		QueueUrl:          &url,
		MessageBody:       msg.Body,
		MessageAttributes: msg.MessageAttributes,
	}
	ordered := strings.HasSuffix(url, fifo)
	if group, ok := msg.Attributes[groupID]; ok && (ordered || m.Fair) {
		input.MessageGroupId = &group
	}
	if id, ok := msg.Attributes[deduplicationID]; ok && ordered {
		input.MessageDeduplicationId = &id
	}
	return input, nil
}

func receiveMessageInput(ctx context.Context, queue sqs.QueueURL) (*awssqs.ReceiveMessageInput, error) {
	input, err := sqs.GenerateReceiveMessageInputDefault(ctx, queue)
	if err == nil {
		input.MessageSystemAttributeNames = []types.MessageSystemAttributeName{types.MessageSystemAttributeNameMessageGroupId}
	}
	return input, err
}

func createQueueInput(ctx context.Context, queue sqs.QueueName, attributes sqs.QueueConfigAttributes) (*awssqs.CreateQueueInput, error) {
	if strings.HasSuffix(string(queue), fifo) {
		attributes.FifoQueue = true
	}
	return sqs.GenerateCreateQueueInputDefault(ctx, queue, attributes)
}
