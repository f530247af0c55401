package main

import (
	"context"

	"github.com/ThreeDotsLabs/watermill"
	wmsns "github.com/ThreeDotsLabs/watermill-aws/sns"
	wmsqs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/watermill-envelope/envelope/examples/internal/goaws"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/snswire"
	"github.com/watermill-envelope/envelope/marshaler/sqswire"
)

// sqsNext is a server of SQS. snsNext is one of SNS too: what is published to a topic is read from
// a queue of the same name.
type (
	sqsNext struct{ config aws.Config }
	snsNext struct{ sqsNext }
)

func startSQS(config) (next, func(), error) {
	n, stop := startAWS()
	return n, stop, nil
}

func startSNS(config) (next, func(), error) {
	n, stop := startAWS()
	return snsNext{n}, stop, nil
}

func startAWS() (sqsNext, func()) {
	server := goaws.Start()
	return sqsNext{aws.Config{
		Region: goaws.Region, BaseEndpoint: aws.String(server.URL),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "key", SecretAccessKey: "secret"}, nil
		}),
	}}, server.Close
}

func (n sqsNext) publisher(queue string, log watermill.LoggerAdapter) (message.Publisher, marshaler.Sealer, error) {
	wire := sqswire.Marshaler{}
	if _, err := n.create(context.Background(), queue); err != nil {
		return nil, nil, err
	}
	pub, err := wmsqs.NewPublisher(sqswire.PublisherConfig(n.config, wire), log)
	return pub, wire, err
}

// create makes a queue, or finds it, and returns its URL.
func (n sqsNext) create(ctx context.Context, queue string) (url *string, err error) {
	out, err := sqs.NewFromConfig(n.config).CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &queue})
	if err != nil {
		return nil, err
	}
	return out.QueueUrl, nil
}

func (n snsNext) publisher(topic string, log watermill.LoggerAdapter) (message.Publisher, marshaler.Sealer, error) {
	ctx, client := context.Background(), sns.NewFromConfig(n.config)
	if _, err := n.create(ctx, topic); err != nil {
		return nil, nil, err
	}
	created, err := client.CreateTopic(ctx, &sns.CreateTopicInput{Name: &topic})
	if err != nil {
		return nil, nil, err
	}
	_, err = client.Subscribe(ctx, &sns.SubscribeInput{
		TopicArn: created.TopicArn, Protocol: aws.String("sqs"), Attributes: map[string]string{"RawMessageDelivery": "true"},
		Endpoint: aws.String("arn:aws:sqs:" + goaws.Region + ":" + goaws.AccountID + ":" + topic),
	})
	if err != nil {
		return nil, nil, err
	}
	topics, err := wmsns.NewGenerateArnTopicResolver(goaws.AccountID, goaws.Region)
	if err != nil {
		return nil, nil, err
	}
	pub, err := snswire.NewPublisher(wmsns.PublisherConfig{AWSConfig: n.config, TopicResolver: topics}, snswire.Marshaler{}, log)
	return pub, nil, err // it seals itself
}

type sqsWitness struct {
	client *sqs.Client
	queue  string
	url    *string
}

func (n sqsNext) witness(ctx context.Context, queue string) (witness, error) {
	url, err := n.create(ctx, queue)
	return &sqsWitness{sqs.NewFromConfig(n.config), queue, url}, err
}

func (w *sqsWitness) next(ctx context.Context) (delivery, error) {
	for {
		out, err := w.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: w.url, MessageAttributeNames: []string{"All"}, WaitTimeSeconds: 20,
		})
		if err != nil {
			return delivery{}, waiting("SQS", err)
		}
		if len(out.Messages) == 0 {
			continue
		}
		msg := out.Messages[0]
		_, err = w.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: w.url, ReceiptHandle: msg.ReceiptHandle})
		if err != nil {
			return delivery{}, waiting("SQS", err)
		}
		attributes := make(map[string]string, len(msg.MessageAttributes))
		for name, value := range msg.MessageAttributes {
			attributes[name] = aws.ToString(value.StringValue)
		}
		return delivery{
			place: w.queue + "  message " + aws.ToString(msg.MessageId), body: []byte(aws.ToString(msg.Body)), attributes: attributes,
			open: func() (*message.Message, error) { return sqswire.Marshaler{}.Unmarshal(&msg) },
		}, nil
	}
}

func (*sqsWitness) remove() error { return nil }

func (*sqsWitness) close() {}
