package rabbit

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// declaring is a subscriber for callers that expect it to make its queue.
type declaring struct {
	*rabbitmq.Subscriber
	uri rabbitmq.URI
}

func (d declaring) SubscribeInitialize(topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), suite.Timeout)
	defer cancel()
	return rabbitmq.EnsureTopology(ctx, d.uri, rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: topic}}})
}

func (d declaring) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := d.SubscribeInitialize(topic); err != nil {
		return nil, err
	}
	return d.Subscriber.Subscribe(ctx, topic)
}

// broker makes our publishers and subscribers, with the marshaler of webhooks.
func broker(url string) suite.Broker {
	m := amqpwire.Marshaler{Source: "suite"}
	return suite.Broker{
		Name: "rabbit",
		NewPublisher: func(t testing.TB) message.Publisher {
			t.Helper()
			return publisher(t, rabbitmq.PublisherConfig{URI: rabbitmq.URI(url), Marshaler: m})
		},
		NewSubscriber: func(t testing.TB, _ string) message.Subscriber {
			t.Helper()
			return declaring{subscriber(t, rabbitmq.SubscriberConfig{
				URI: rabbitmq.URI(url), Unmarshaler: m,
				MaxAttempts: 1000, // the suite nacks some messages a hundred times
			}), rabbitmq.URI(url)}
		},
	}
}

// TestPubSub is Watermill's own suite.
func TestPubSub(t *testing.T) {
	suite.PubSub(t, broker(server.URL()), tests.Features{
		ConsumerGroups:                      false, // a queue has one group; others have queues of their own
		GuaranteedOrder:                     true,
		GuaranteedOrderWithSingleSubscriber: true,
		Persistent:                          true,
	})
}
