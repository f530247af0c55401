package suite

import (
	"context"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
)

// An UnstoredTest is one of the tests of Watermill's suite.
type UnstoredTest func(*testing.T, tests.TestContext, tests.PubSubConstructor)

// PubSubUnstored runs tests of Watermill's suite on a broker that keeps nothing for those who are
// not there. The suite publishes first and subscribes then, so a topic is subscribed to when it is
// initialized.
//
// The suite's other tests want what came before: TestContinueAfterSubscribeClose,
// TestConcurrentClose, TestSubscribeCtx and TestContinueAfterErrors subscribe again,
// TestNewSubscriberReceivesOldMessages says so itself, and TestReconnect publishes during the
// restart.
func PubSubUnstored(t *testing.T, b Broker, features tests.Features, run map[string]UnstoredTest) {
	for name, test := range run {
		t.Run(name, func(t *testing.T) {
			test(t, tests.TestContext{TestID: tests.NewTestID(), Features: features},
				func(t *testing.T) (message.Publisher, message.Subscriber) {
					return b.NewPublisher(t), &early{Subscriber: b.NewSubscriber(t, ""), subscribed: map[string]<-chan *message.Message{}}
				})
		})
	}
}

// early subscribes to a topic when it is initialized.
type early struct {
	message.Subscriber
	mu         sync.Mutex
	subscribed map[string]<-chan *message.Message
}

func (e *early) SubscribeInitialize(topic string) error {
	ch, err := e.Subscriber.Subscribe(context.Background(), topic)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscribed[topic] = ch
	return nil
}

func (e *early) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	e.mu.Lock()
	ch, ok := e.subscribed[topic]
	delete(e.subscribed, topic)
	e.mu.Unlock()
	if ok {
		return ch, nil
	}
	return e.Subscriber.Subscribe(ctx, topic)
}
