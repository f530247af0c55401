package awssuite

import (
	"net/http"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

// NoGoroutineIsLeft closes a publisher and a subscriber in the middle of their work.
func NoGoroutineIsLeft(t *testing.T, url string) {
	ctx, topic := suite.Context(t), topicName(t, "leak")
	before := goleak.IgnoreCurrent()
	transport := new(http.Transport)
	b := SQS(url, Options{Client: &http.Client{Transport: transport}})
	pub, sub := b.NewPublisher(t), b.NewSubscriber(t, "")
	messages, err := sub.Subscribe(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := pub.Publish(topic, message.NewMessage("", []byte("body"))); err != nil {
			t.Fatal(err)
		}
	}
	(<-messages).Ack()
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
	if err := pub.Close(); err != nil {
		t.Error(err)
	}
	transport.CloseIdleConnections()
	goleak.VerifyNone(t, before)
}
