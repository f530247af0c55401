package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/marshaler"
)

// A transport is what a hook may leave on: the handler publishes to it, and the next service
// reads from it. The first one is always Kafka.
type transport struct {
	name   string // of the flag, and of the system in spans
	title  string // for people
	client string // that reads what stands on it, for the report
	beside beside // the JSON, which has the rest in it
	// start starts a server inside this process.
	start func(c config) (n next, stop func(), err error)
}

// beside says what a transport carries beside the JSON.
type beside int

const (
	everything beside = iota // attributes, and what the handler adds
	attributes
	nothing
)

var transports = []transport{
	{"rabbitmq", "RabbitMQ", "amqp091-go", everything, startRabbit},
	{"kafka", "Kafka", "franz-go", everything, func(c config) (next, func(), error) { return kafkaNext(c.kafka), func() {}, nil }},
	{"nats", "NATS", "nats.go", everything, startNATS},
	{"redis", "Redis streams", "go-redis", everything, startRedis(false)},
	{"redis-channels", "Redis channels", "go-redis", nothing, startRedis(true)},
	{"sqs", "SQS", "the SDK of AWS", attributes, startSQS},
	{"sns", "SNS", "the SDK of AWS, from a queue", attributes, startSNS},
	{"googlecloud", "Google Pub/Sub", "Google's client", everything, startGoogle},
	{"gochannel", "GoChannel", "GoChannel itself", everything, startGoChannel},
}

// transportNames lists the values of the flag.
func transportNames() string {
	var names []string
	for _, t := range transports {
		names = append(names, t.name)
	}
	return strings.Join(names, ", ")
}

func findTransport(name string) (transport, error) {
	for _, t := range transports {
		if t.name == name {
			return t, nil
		}
	}
	return transport{}, fmt.Errorf("-transport %s is none of %s", name, transportNames())
}

// next is one server of a transport.
type next interface {
	// publisher makes the topic, and returns a publisher with the marshaler that it was made with.
	publisher(topic string, log watermill.LoggerAdapter) (message.Publisher, marshaler.Sealer, error)
	// witness reads what is published to the topic from now on.
	witness(ctx context.Context, topic string) (witness, error)
}

// A witness reads what stands on a transport with the transport's own client. It knows neither
// Watermill nor this library.
type witness interface {
	next(ctx context.Context) (delivery, error)
	remove() error // deletes the topic, where the server may go on without the demo
	close()
}

// A delivery is a message as it stands on a transport.
type delivery struct {
	place      string            // for people
	id         string            // that the transport gives it room for; empty where there is none
	body       []byte            // the JSON
	attributes map[string]string // beside it
	open       func() (*message.Message, error)
}

// waiting says for what the end of a context came too early.
func waiting(title string, err error) error { return fmt.Errorf("reading from %s: %w", title, err) }
