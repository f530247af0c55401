// Package awssuite holds the flows of SQS, embedded or real, and of SNS before SQS, embedded,
// by watermill-aws.
package awssuite

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmsqs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/sqswire"
)

const (
	region  = "us-east-1"
	account = "000000000000"

	// visibility is after how many seconds a message comes again that was not deleted. A
	// nack costs as much.
	visibility = "30"
)

// Options are how a broker differs. The zero value is our marshaler with the source "suite"
// on standard queues.
type Options struct {
	Marshaler interface {
		wmsqs.Marshaler
		wmsqs.Unmarshaler
	}
	Logger watermill.LoggerAdapter
	// FIFO makes the queues FIFO queues.
	FIFO bool
	// Visibility is the visibility timeout of queues in whole seconds; "" is 30.
	Visibility string
	// Batch is how many messages are received at a time; 0 is one. Each of them has the
	// visibility timeout from then on.
	Batch int32
	// Client makes the requests; nil is the SDK's.
	Client aws.HTTPClient
}

// config is that of the broker's own clients.
func (o Options) config(url string) aws.Config {
	c := Config(url)
	c.HTTPClient = o.Client
	return c
}

func (o Options) withDefaults() Options {
	if o.Marshaler == nil {
		o.Marshaler = sqswire.Marshaler{Source: "suite"}
	}
	if o.Logger == nil {
		o.Logger = watermill.NopLogger{}
	}
	if o.Visibility == "" {
		o.Visibility = visibility
	}
	return o
}

// Config is that of clients of a server at url.
func Config(url string) aws.Config {
	return aws.Config{
		Region: region, BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = 50 * time.Millisecond })
		},
	}
}

// Client returns a client of SQS that knows nothing of Watermill.
func Client(url string) *sqs.Client { return sqs.NewFromConfig(Config(url)) }

func (o Options) publisherConfig(url string) wmsqs.PublisherConfig {
	c := wmsqs.PublisherConfig{AWSConfig: o.config(url), Marshaler: o.Marshaler}
	if m, ok := o.Marshaler.(sqswire.Marshaler); ok {
		c = sqswire.PublisherConfig(o.config(url), m)
	}
	names := byName{o.FIFO}
	c.CreateQueueConfig = wmsqs.QueueConfigAttributes{VisibilityTimeout: o.Visibility}
	c.GenerateCreateQueueInput = names.create(c.GenerateCreateQueueInput)
	c.QueueUrlResolver = names.resolver()
	return c
}

func (o Options) subscriberConfig(url string) wmsqs.SubscriberConfig {
	c := wmsqs.SubscriberConfig{AWSConfig: o.config(url), Unmarshaler: o.Marshaler}
	if m, ok := o.Marshaler.(sqswire.Marshaler); ok {
		c = sqswire.SubscriberConfig(o.config(url), m)
	}
	names := byName{o.FIFO}
	c.QueueConfigAttributes = wmsqs.QueueConfigAttributes{VisibilityTimeout: o.Visibility}
	c.GenerateCreateQueueInput = names.create(c.GenerateCreateQueueInput)
	c.QueueUrlResolver = names.resolver()
	c.ReconnectRetrySleep = 50 * time.Millisecond
	if receive := c.GenerateReceiveMessageInput; o.Batch > 0 {
		c.GenerateReceiveMessageInput = func(ctx context.Context, url wmsqs.QueueURL) (*sqs.ReceiveMessageInput, error) {
			input, err := receive(ctx, url)
			if err == nil {
				input.MaxNumberOfMessages = o.Batch
			}
			return input, err
		}
	}
	return c
}

// SQS returns a broker on queues, one for each topic, which all subscribers share.
func SQS(url string, o Options) suite.Broker {
	o = o.withDefaults()
	sealer, _ := o.Marshaler.(marshaler.Sealer)
	return suite.Broker{
		Name: "sqs", Sealer: sealer,
		NewPublisher: func(t testing.TB) message.Publisher {
			t.Helper()
			pub, err := wmsqs.NewPublisher(o.publisherConfig(url), o.Logger)
			if err != nil {
				t.Fatal(err)
			}
			return pub
		},
		NewSubscriber: func(t testing.TB, _ string) message.Subscriber {
			t.Helper()
			sub, err := wmsqs.NewSubscriber(o.subscriberConfig(url), o.Logger)
			if err != nil {
				t.Fatal(err)
			}
			return &subscriber{Subscriber: sub}
		},
	}
}

// A subscriber can be closed, or its context end, while nobody reads: watermill-aws waits then
// until somebody takes the message that it has in hand. Who uses a router need not care, since
// that reads until the end.
type subscriber struct {
	subscribed
	message.Subscriber
}

type subscribed struct {
	mu       sync.Mutex
	channels []<-chan *message.Message
}

func (s *subscribed) add(ch <-chan *message.Message, err error) (<-chan *message.Message, error) {
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.channels = append(s.channels, ch)
	}
	return ch, err
}

// drain takes what nobody reads, so that it is not acknowledged.
func (s *subscribed) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ch := range s.channels {
		go func() {
			for range ch {
			}
		}()
	}
}

func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	return s.add(s.Subscriber.Subscribe(ctx, topic))
}

func (s *subscriber) SubscribeInitialize(topic string) error {
	return s.Subscriber.(message.SubscribeInitializer).SubscribeInitialize(topic)
}

func (s *subscriber) Close() error {
	s.drain()
	return s.Subscriber.Close()
}
