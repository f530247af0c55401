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

// OldMessages runs the one test of that suite that is for subscribers without a group of
// consumers: a new one reads what was published before it, and read before.
func OldMessages(t *testing.T, b Broker) {
	features := tests.Features{Persistent: true, NewSubscriberReceivesOldMessages: true}
	tests.TestNewSubscriberReceivesOldMessages(t, tests.TestContext{TestID: tests.NewTestID(), Features: features},
		func(t *testing.T) (message.Publisher, message.Subscriber) {
			return b.NewPublisher(t), b.NewSubscriber(t, "")
		})
}
