package matrix

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/internal/suite/awssuite"
	"github.com/watermill-envelope/envelope/integration/internal/suite/natssuite"
	"github.com/watermill-envelope/envelope/integration/internal/suite/redissuite"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// source is that of messages that carry no envelope.
const source = "suite"

// An end is a transport: a place that messages go out to and come in from.
type end struct {
	name string
	// publisher and subscriber are closed with the test.
	publisher  func(t testing.TB) message.Publisher
	subscriber func(t testing.TB) message.Subscriber
	// sealer is the publisher's marshaler; nil where the publisher is one itself.
	sealer marshaler.Sealer
	// create makes a topic where subscribing to it does not. It may be nil.
	create func(t testing.TB, topic string)
	// target is what a publisher calls a topic; nil: as its subscriber does.
	target func(topic string) string
}

// ends is the table of all transports.
func ends(t testing.TB) []end {
	return []end{
		goChannel(),
		of(suite.Kafka(kafkaServer.Addr(), suite.KafkaOptions{})),
		of(suite.RabbitMQv2(rabbitmqServer.URL())),
		named("rabbitmq-v3", suite.RabbitMQ(rabbitmqServer.URL(), suite.RabbitMQOptions{})),
		rabbitWorker(),
		of(natssuite.Core(natsServer.Addr(), natssuite.Options{})),
		of(natssuite.JetStream(natsServer.Addr(), natssuite.Options{})),
		of(natssuite.Pull(natsServer.Addr(), natssuite.Options{})),
		of(redissuite.Streams(redisServer.Addr(), redissuite.StreamsOptions{})),
		of(redissuite.PubSub(redisServer.Addr(), redissuite.PubSubOptions{})),
		named("sqs", awssuite.SQS(sqsServer.URL(), awssuite.Options{})),
		named("sqs-fifo", awssuite.SQS(sqsServer.URL(), awssuite.Options{FIFO: true})),
		named("sns-sqs", awssuite.SNS(snsServer.URL(), awssuite.SNSOptions{})),
		named("sns-sqs-json", awssuite.SNS(snsServer.URL(), awssuite.SNSOptions{Enveloped: true})),
		postgres(t),
		mariaDB(t),
		overHTTP(t),
	}
}

func named(name string, b suite.Broker) end {
	b.Name = name
	return of(b)
}

func of(b suite.Broker) end {
	return end{
		name: b.Name, publisher: b.Publisher, sealer: b.Sealer,
		subscriber: func(t testing.TB) message.Subscriber { return b.Subscriber(t, "matrix") },
	}
}

// wrapped is an end of a transport that knows nothing of envelopes.
func wrapped(name string, pub func(testing.TB) message.Publisher, sub func(testing.TB) message.Subscriber) end {
	return end{
		name: name,
		publisher: func(t testing.TB) message.Publisher {
			t.Helper()
			wrapped, err := marshaler.WrapPublisher(pub(t), marshaler.Options{Source: source})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = wrapped.Close() })
			return wrapped
		},
		subscriber: func(t testing.TB) message.Subscriber {
			t.Helper()
			wrapped, err := marshaler.WrapSubscriber(sub(t), marshaler.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = wrapped.Close() })
			return wrapped
		},
	}
}

func goChannel() end {
	memory := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	return wrapped("gochannel",
		func(testing.TB) message.Publisher { return memory },
		func(testing.TB) message.Subscriber { return memory })
}

// rabbitWorker is our own transport over RabbitMQ. Its topics are queues that exist.
func rabbitWorker() end {
	url, m := rabbitmq.URI(rabbitmqServer.URL()), amqpwire.Marshaler{Source: source}
	return end{
		name: "rabbitmq-worker", sealer: m,
		publisher: func(t testing.TB) message.Publisher {
			t.Helper()
			pub, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{URI: url, Marshaler: m})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pub.Close() })
			return pub
		},
		subscriber: func(t testing.TB) message.Subscriber {
			t.Helper()
			sub, err := rabbitmq.NewSubscriber(rabbitmq.SubscriberConfig{URI: url, Unmarshaler: m})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = sub.Close() })
			return sub
		},
		create: func(t testing.TB, topic string) {
			t.Helper()
			topology := rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: topic}}}
			if err := rabbitmq.EnsureTopology(suite.Context(t), url, topology); err != nil {
				t.Fatal(err)
			}
		},
	}
}
