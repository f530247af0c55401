package suite

import (
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	amqp2 "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp3 "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

// A Broker makes Watermill publishers and subscribers on one server. What it makes is not
// closed with the test unless it says so: Watermill's own suite closes everything itself.
type Broker struct {
	Name string
	// NewPublisher confirms every message before Publish returns.
	NewPublisher func(t testing.TB) message.Publisher
	// NewSubscriber reads a topic from its start, for a group of consumers that share it.
	NewSubscriber func(t testing.TB, group string) message.Subscriber
	// Sealer is the marshaler of what NewPublisher makes; nil where it is not one of ours.
	Sealer marshaler.Sealer
}

// Publisher returns a publisher that is closed with the test.
func (b Broker) Publisher(t testing.TB) message.Publisher {
	t.Helper()
	pub := b.NewPublisher(t)
	t.Cleanup(func() { _ = pub.Close() }) // the test may have stopped the server
	return pub
}

// Subscriber returns a subscriber that is closed with the test.
func (b Broker) Subscriber(t testing.TB, group string) message.Subscriber {
	t.Helper()
	sub := b.NewSubscriber(t, group)
	t.Cleanup(func() { _ = sub.Close() })
	return sub
}

// KafkaOptions are how a Kafka broker of a flow differs. The zero value is our marshaler
// with the source "suite" on topics of one partition.
type KafkaOptions struct {
	Marshaler  kafka.MarshalerUnmarshaler
	Partitions int32
	Logger     watermill.LoggerAdapter
}

// Kafka returns a broker on a Kafka server.
func Kafka(addr string, o KafkaOptions) Broker {
	if o.Marshaler == nil {
		o.Marshaler = kafkawire.Marshaler{Source: "suite"}
	}
	if o.Logger == nil {
		o.Logger = watermill.NopLogger{}
	}
	sealer, _ := o.Marshaler.(marshaler.Sealer)
	return Broker{
		Name: "kafka", Sealer: sealer,
		NewPublisher: func(t testing.TB) message.Publisher {
			t.Helper()
			config := kafka.DefaultSaramaSyncPublisherConfig()
			config.Producer.RequiredAcks = sarama.WaitForAll
			config.Metadata.Retry.Backoff = 100 * time.Millisecond
			pub, err := kafka.NewPublisher(kafka.PublisherConfig{
				Brokers: []string{addr}, Marshaler: o.Marshaler, OverwriteSaramaConfig: config,
			}, o.Logger)
			if err != nil {
				t.Fatal(err)
			}
			return pub
		},
		NewSubscriber: func(t testing.TB, group string) message.Subscriber {
			t.Helper()
			config := kafka.DefaultSaramaSubscriberConfig()
			config.Consumer.Offsets.Initial = sarama.OffsetOldest
			config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
			config.Consumer.Group.Rebalance.Timeout = 3 * time.Second
			config.Metadata.Retry.Backoff = 100 * time.Millisecond
			sub, err := kafka.NewSubscriber(kafka.SubscriberConfig{
				Brokers: []string{addr}, Unmarshaler: o.Marshaler, OverwriteSaramaConfig: config, ConsumerGroup: group,
				InitializeTopicDetails: &sarama.TopicDetail{NumPartitions: max(1, o.Partitions), ReplicationFactor: 1},
			}, o.Logger)
			if err != nil {
				t.Fatal(err)
			}
			return kafkaSubscriber{sub, addr}
		},
	}
}

// RabbitMQOptions are how a RabbitMQ broker of a flow differs. The zero value is our
// marshaler with the source "suite".
type RabbitMQOptions struct {
	Marshaler amqp3.Marshaler
	Logger    watermill.LoggerAdapter
	// Queue, when set, makes both sides use the durable queue of the topic's name instead of
	// one queue per group behind a fanout exchange of the topic's name.
	Queue bool
	// PoolSize is the number of the publisher's channels; 0: one for each publish.
	PoolSize int
}

// RabbitMQ returns a broker on a RabbitMQ node, by watermill-amqp/v3.
func RabbitMQ(url string, o RabbitMQOptions) Broker {
	if o.Marshaler == nil {
		o.Marshaler = amqpwire.Marshaler{Source: "suite"}
	}
	if o.Logger == nil {
		o.Logger = watermill.NopLogger{}
	}
	config := func(group string) amqp3.Config {
		c := amqp3.NewDurablePubSubConfig(url, amqp3.GenerateQueueNameTopicNameWithSuffix(group))
		if o.Queue {
			c = amqp3.NewDurableQueueConfig(url)
		}
		c.Marshaler = o.Marshaler
		c.Publish.ConfirmDelivery = true
		c.Publish.ChannelPoolSize = o.PoolSize
		return c
	}
	sealer, _ := o.Marshaler.(marshaler.Sealer)
	return Broker{
		Name: "rabbitmq", Sealer: sealer,
		NewPublisher: func(t testing.TB) message.Publisher {
			t.Helper()
			pub, err := amqp3.NewPublisher(config(""), o.Logger)
			if err != nil {
				t.Fatal(err)
			}
			return pub
		},
		NewSubscriber: func(t testing.TB, group string) message.Subscriber {
			t.Helper()
			sub, err := amqp3.NewSubscriber(config(group), o.Logger)
			if err != nil {
				t.Fatal(err)
			}
			return sub
		},
	}
}

// NewRabbitMQSubscriber is what [RabbitMQ] with Queue and our marshaler makes, for a process
// that is no test. It logs nothing.
func NewRabbitMQSubscriber(url string) (message.Subscriber, error) {
	c := amqp3.NewDurableQueueConfig(url)
	c.Marshaler = amqpwire.Marshaler{}
	return amqp3.NewSubscriber(c, watermill.NopLogger{})
}

// RabbitMQv2 is [RabbitMQ] by watermill-amqp/v2 and our marshaler.
func RabbitMQv2(url string) Broker {
	config := func(group string) amqp2.Config {
		c := amqp2.NewDurablePubSubConfig(url, amqp2.GenerateQueueNameTopicNameWithSuffix(group))
		c.Marshaler = amqpwire.Marshaler{Source: "suite"}
		c.Publish.ConfirmDelivery = true
		return c
	}
	return Broker{
		Name: "rabbitmq-v2", Sealer: amqpwire.Marshaler{Source: "suite"},
		NewPublisher: func(t testing.TB) message.Publisher {
			t.Helper()
			pub, err := amqp2.NewPublisher(config(""), watermill.NopLogger{})
			if err != nil {
				t.Fatal(err)
			}
			return pub
		},
		NewSubscriber: func(t testing.TB, group string) message.Subscriber {
			t.Helper()
			sub, err := amqp2.NewSubscriber(config(group), watermill.NopLogger{})
			if err != nil {
				t.Fatal(err)
			}
			return sub
		},
	}
}
