package suite

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
)

// PubSub runs Watermill's own pub/sub suite on a broker.
func PubSub(t *testing.T, b Broker, features tests.Features) {
	tests.TestPubSub(t, features,
		func(t *testing.T) (message.Publisher, message.Subscriber) {
			return b.NewPublisher(t), b.NewSubscriber(t, "test")
		},
		func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
			return b.NewPublisher(t), b.NewSubscriber(t, group)
		},
	)
}
