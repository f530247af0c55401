package rabbitmq_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// plain is a marshaler of the message's id and body.
type plain struct{}

func (plain) Marshal(msg *message.Message) (amqp.Publishing, error) {
	return amqp.Publishing{MessageId: msg.UUID, Body: msg.Payload}, nil
}

func (plain) Unmarshal(d amqp.Delivery) (*message.Message, error) {
	return message.NewMessage(d.MessageId, d.Body), nil
}

// Every mistake of a configuration is reported at once.
func TestConfigsAreValidated(t *testing.T) {
	_, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{
		Exchange: "a\n", MaxChannels: -1, MaxInFlight: -1, PublishTimeout: -1,
	})
	wants(t, err, "URI is missing", "Marshaler is missing", "exchange name", "MaxChannels", "MaxInFlight", "PublishTimeout")
	_, err = rabbitmq.NewSubscriber(rabbitmq.SubscriberConfig{
		URI: "http://broker", Prefetch: -1, Concurrency: -1, MaxAttempts: -1, RetryDelay: -1, MaxPayloadBytes: -1,
		HandlerTimeout: -1, CloseTimeout: -1, DeadLetterQueue: strings.Repeat("a", 128),
	})
	wants(t, err, "URI is no amqp://", "Unmarshaler is missing", "dead-letter queue", "128 bytes, at most 127", "Prefetch", "Concurrency",
		"MaxAttempts", "RetryDelay", "MaxPayloadBytes", "HandlerTimeout", "CloseTimeout", "whole number of milliseconds")
	_, err = rabbitmq.NewSubscriber(rabbitmq.SubscriberConfig{
		URI: "amqp://broker", Unmarshaler: plain{}, Prefetch: 2, Concurrency: 3, RetryDelay: time.Microsecond,
	})
	wants(t, err, "Prefetch 2 feeds no 3 handlers", "RetryDelay 1µs")
	_, err = rabbitmq.NewSubscriber(rabbitmq.SubscriberConfig{URI: "amqp://broker", Unmarshaler: plain{}, Prefetch: 65536})
	wants(t, err, "Prefetch 65536 is over the 65535")
}

func wants(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is missing in: %v", text, err)
		}
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != len(texts) && !strings.Contains(err.Error(), "at most 127") {
		t.Errorf("%d mistakes reported, want %d: %v", got, len(texts), err)
	}
}

// typed is plain, with the metadata as headers.
type typed struct{ plain }

func (typed) Marshal(msg *message.Message) (amqp.Publishing, error) {
	p := amqp.Publishing{MessageId: msg.UUID, Body: msg.Payload, Headers: amqp.Table{}}
	for name, value := range msg.Metadata {
		p.Headers[name] = value
	}
	return p, nil
}
