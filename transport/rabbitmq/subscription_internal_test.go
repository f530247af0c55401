package rabbitmq

import (
	"context"
	"runtime"
	"testing"
	"weak"

	"github.com/watermill-envelope/envelope/bus/amqpwire"
)

// A subscriber outlives its subscriptions: it keeps nothing of one that has ended, nor of the
// context that it was made with.
func TestEndedSubscriptionIsForgotten(t *testing.T) {
	s, err := NewSubscriber(SubscriberConfig{URI: "amqp://127.0.0.1/", Unmarshaler: amqpwire.Marshaler{}})
	if err != nil {
		t.Fatal(err)
	}
	type key struct{}
	value := new([64]byte)
	sub := newSubscription(context.WithValue(t.Context(), key{}, value), s, "orders")
	sub.close()
	sub.abandon(nil)
	kept := weak.Make(value)
	runtime.GC()
	if kept.Value() != nil {
		t.Error("the context is still there")
	}
	runtime.KeepAlive(s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
