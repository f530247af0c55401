// Package redissuite holds the flows of Redis, embedded or real: streams by
// watermill-redisstream, and channels by transport/redispubsub.
package redissuite

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
	"github.com/watermill-envelope/envelope/transport/redispubsub"
)

// newClient returns a client that whoever it is given to closes.
func newClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
}

// Client returns a client that knows nothing of Watermill, closed with the test.
func Client(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := newClient(addr)
	t.Cleanup(func() { _ = client.Close() }) // the test may have stopped the server
	return client
}

// topicName is a topic of the test's own, and of this run of it.
func topicName(t testing.TB, suffix string) string {
	return strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()) + "." + envelope.NewID() + "." + suffix
}

// StreamsOptions are how a broker of streams differs. The zero value is our marshaler with the
// source "suite".
type StreamsOptions struct {
	Marshaler redisstream.MarshallerUnmarshaller
	Logger    watermill.LoggerAdapter
}

// Streams returns a broker on streams. Its publishers and subscribers close their clients, each
// its own.
func Streams(addr string, o StreamsOptions) suite.Broker {
	if o.Marshaler == nil {
		o.Marshaler = rediswire.Marshaler{Source: "suite"}
	}
	if o.Logger == nil {
		o.Logger = watermill.NopLogger{}
	}
	sealer, _ := o.Marshaler.(marshaler.Sealer)
	return suite.Broker{
		Name: "redis-streams", Sealer: sealer,
		NewPublisher: func(t testing.TB) message.Publisher {
			t.Helper()
			pub, err := redisstream.NewPublisher(redisstream.PublisherConfig{
				Client: newClient(addr), Marshaller: o.Marshaler,
			}, o.Logger)
			if err != nil {
				t.Fatal(err)
			}
			return pub
		},
		NewSubscriber: func(t testing.TB, group string) message.Subscriber {
			t.Helper()
			sub, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
				Client: newClient(addr), Unmarshaller: o.Marshaler, ConsumerGroup: group,
				NackResendSleep: 10 * time.Millisecond, // or a nack is a hot loop
				// What a consumer that has gone left pending is claimed soon.
				ClaimInterval: 200 * time.Millisecond, MaxIdleTime: 2 * time.Second,
				FanOutOldestId: "0",
				// Or a reader that waits for a first entry outlives Close.
				DisableIndefiniteInitialBlock: true,
			}, o.Logger)
			if err != nil {
				t.Fatal(err)
			}
			return sub
		},
	}
}

// PubSubOptions are how a broker of channels differs. The zero value is our marshaler with the
// source "suite".
type PubSubOptions struct {
	Marshaler rediswire.PubSubMarshaler
	// AllowNoSubscribers and Subscriber are those of the transport's configurations.
	AllowNoSubscribers bool
	Subscriber         redispubsub.SubscriberConfig
	Logger             *slog.Logger
}

// PubSub returns a broker on channels. It keeps nothing: subscribe before publishing. Groups
// mean nothing to it.
func PubSub(addr string, o PubSubOptions) suite.Broker {
	if o.Marshaler.Source == "" {
		o.Marshaler.Source = "suite"
	}
	return suite.Broker{
		Name: "redis-pubsub", Sealer: o.Marshaler,
		NewPublisher: func(t testing.TB) message.Publisher {
			t.Helper()
			pub, err := redispubsub.NewPublisher(redispubsub.PublisherConfig{
				Client: Client(t, addr), Marshaler: o.Marshaler, AllowNoSubscribers: o.AllowNoSubscribers,
			})
			if err != nil {
				t.Fatal(err)
			}
			return pub
		},
		NewSubscriber: func(t testing.TB, _ string) message.Subscriber {
			t.Helper()
			c := o.Subscriber
			c.Client, c.Unmarshaler, c.Logger = Client(t, addr), o.Marshaler, o.Logger
			if c.RetryDelay == 0 {
				c.RetryDelay = 10 * time.Millisecond
			}
			sub, err := redispubsub.NewSubscriber(c)
			if err != nil {
				t.Fatal(err)
			}
			return sub
		},
	}
}
