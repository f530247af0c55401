package embedded

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/watermill-envelope/envelope/marshaler"
)

// wrapped is one GoChannel behind both wrappers.
func wrapped(t *testing.T, config gochannel.Config) (message.Publisher, message.Subscriber) {
	t.Helper()
	inner := gochannel.NewGoChannel(config, watermill.NopLogger{})
	pub, err := marshaler.WrapPublisher(inner, marshaler.Options{Source: "suite"})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := marshaler.WrapSubscriber(inner, marshaler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return pub, sub
}

func TestGoChannelPubSub(t *testing.T) {
	for name, preserve := range map[string]bool{"own context": false, "publishers context": true} {
		t.Run(name, func(t *testing.T) {
			tests.TestPubSub(t,
				tests.Features{ // those that GoChannel declares of itself
					ExactlyOnceDelivery:   true,
					RequireSingleInstance: true,
					ContextPreserved:      preserve,
				},
				func(t *testing.T) (message.Publisher, message.Subscriber) {
					return wrapped(t, gochannel.Config{OutputChannelBuffer: 10000, Persistent: true, PreserveContext: preserve})
				},
				nil,
			)
		})
	}
}
