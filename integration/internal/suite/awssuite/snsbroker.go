package awssuite

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	wmsns "github.com/ThreeDotsLabs/watermill-aws/sns"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler/snswire"
)

// SNSOptions are how a broker of SNS differs. The zero value delivers messages to queues as
// they were published.
type SNSOptions struct {
	// Enveloped turns the raw delivery off: queues get SNS's own JSON around the message.
	Enveloped bool
	// Visibility is the visibility timeout of queues in whole seconds; "" is 30.
	Visibility string
}

// SNS returns a broker on SNS topics, with a queue for each group.
func SNS(url string, o SNSOptions) suite.Broker {
	queues := Options{Visibility: o.Visibility}.withDefaults()
	resolver := topicARN{region, account}
	return suite.Broker{
		Name: "sns", Sealer: snswire.Marshaler{Source: "suite"},
		NewPublisher: func(t testing.TB) message.Publisher {
			t.Helper()
			pub, err := snswire.NewPublisher(wmsns.PublisherConfig{
				AWSConfig: Config(url), TopicResolver: resolver,
				GenerateCreateTopicInput: func(_ context.Context, topic wmsns.TopicName, _ wmsns.ConfigAttributes) (sns.CreateTopicInput, error) {
					return sns.CreateTopicInput{Name: aws.String(string(topic))}, nil
				},
			}, snswire.Marshaler{Source: "suite"}, watermill.NopLogger{})
			if err != nil {
				t.Fatal(err)
			}
			return pub
		},
		NewSubscriber: func(t testing.TB, group string) message.Subscriber {
			t.Helper()
			sub, err := wmsns.NewSubscriber(wmsns.SubscriberConfig{
				AWSConfig: Config(url), TopicResolver: resolver,
				DoNotSetQueueAccessPolicy: true, // goaws has none
				GenerateSqsQueueName: func(_ context.Context, topic wmsns.TopicArn) (string, error) {
					return queueOf(string(topic), group), nil
				},
				GenerateSubscribeInput: func(_ context.Context, p wmsns.GenerateSubscribeInputParams) (*sns.SubscribeInput, error) {
					return subscribeInput(string(p.SnsTopicArn), string(p.SqsQueueArn), !o.Enveloped), nil
				},
			}, queues.subscriberConfig(url), watermill.NopLogger{})
			if err != nil {
				t.Fatal(err)
			}
			return &subscriber{Subscriber: &snsSubscriber{sub, sns.NewFromConfig(Config(url))}}
		},
	}
}

// queueOf is the topic of the queue that a group has for an SNS topic.
func queueOf(topicARN, group string) string {
	return topicARN[strings.LastIndexByte(topicARN, ':')+1:] + "." + group
}

func subscribeInput(topic, queue string, raw bool) *sns.SubscribeInput {
	in := &sns.SubscribeInput{Protocol: aws.String("sqs"), TopicArn: &topic, Endpoint: &queue, ReturnSubscriptionArn: true}
	if raw {
		in.Attributes = map[string]string{"RawMessageDelivery": "true"}
	}
	return in
}

// A snsSubscriber makes the topics that it subscribes to.
type snsSubscriber struct {
	*wmsns.Subscriber
	client *sns.Client
}

func (s *snsSubscriber) SubscribeInitialize(topic string) error {
	if err := createTopic(context.Background(), s.client, topic); err != nil {
		return err
	}
	return s.Subscriber.SubscribeInitialize(topic)
}

func (s *snsSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := createTopic(ctx, s.client, topic); err != nil {
		return nil, err
	}
	return s.Subscriber.Subscribe(ctx, topic)
}

func createTopic(ctx context.Context, client *sns.Client, topic string) error {
	_, err := client.CreateTopic(ctx, &sns.CreateTopicInput{Name: aws.String(named(topic, false))})
	return err
}

// SNSPeer is a [suite.Peer] that publishes to topics, and reads a queue that it subscribes to
// them, with the AWS SDK alone.
type SNSPeer struct {
	Peer
	// Enveloped says that its queues get SNS's own JSON around the message.
	Enveloped bool
}

// Keep implements [suite.Peer] by subscribing a queue.
func (p SNSPeer) Keep(t testing.TB, topic string) {
	t.Helper()
	p.queue(suite.Context(t), t, topic)
}

// Watch implements [suite.Peer].
func (p SNSPeer) Watch(ctx context.Context, t testing.TB, topic string) func(int) []suite.Raw {
	t.Helper()
	p.queue(ctx, t, topic)
	return p.Peer.Watch(ctx, t, topic)
}

// queue subscribes the queue of the topic's own name.
func (p SNSPeer) queue(ctx context.Context, t testing.TB, topic string) queue {
	t.Helper()
	client := sns.NewFromConfig(Config(p.URL))
	q := ensure(ctx, t, p.URL, topic, false)
	got, err := q.client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: q.url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := createTopic(ctx, client, topic); err != nil {
		t.Fatal(err)
	}
	in := subscribeInput(p.arn(ctx, t, topic), got.Attributes[string(types.QueueAttributeNameQueueArn)], !p.Enveloped)
	if _, err := client.Subscribe(ctx, in); err != nil {
		t.Fatal(err)
	}
	return q
}

func (SNSPeer) arn(ctx context.Context, t testing.TB, topic string) string {
	t.Helper()
	arn, err := topicARN{region, account}.ResolveTopic(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	return string(arn)
}

// Put implements [suite.Peer] by publishing to the topic.
func (p SNSPeer) Put(ctx context.Context, t testing.TB, topic string, m suite.Raw) {
	t.Helper()
	attributes := map[string]snstypes.MessageAttributeValue{}
	add := func(name, value string) {
		attributes[name] = snstypes.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	if m.ID != "" {
		add(idAttribute, m.ID)
	}
	for _, h := range m.Headers {
		add(h.Name, h.Value)
	}
	p.publish(ctx, t, topic, string(m.Body), attributes)
}

func (p SNSPeer) publish(ctx context.Context, t testing.TB, topic, body string, attributes map[string]snstypes.MessageAttributeValue) {
	t.Helper()
	client := sns.NewFromConfig(Config(p.URL))
	in := &sns.PublishInput{TopicArn: aws.String(p.arn(ctx, t, topic)), Message: &body, MessageAttributes: attributes}
	_, err := client.Publish(ctx, in)
	if missing := new(snstypes.NotFoundException); errors.As(err, &missing) {
		if err = createTopic(ctx, client, topic); err == nil {
			_, err = client.Publish(ctx, in)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
