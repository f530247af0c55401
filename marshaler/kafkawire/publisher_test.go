package kafkawire_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

// failing is a publisher that fails with its error.
type failing struct {
	err    error
	topic  string
	count  int
	closed bool
}

func (f *failing) Publish(topic string, messages ...*message.Message) error {
	f.topic, f.count = topic, len(messages)
	return f.err
}

func (f *failing) Close() error {
	f.closed = true
	return f.err
}

// tooLargeForSarama is the error that sarama itself makes.
func tooLargeForSarama(t *testing.T) error {
	t.Helper()
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	config.Producer.MaxMessageBytes = 100
	broker := sarama.NewMockBroker(t, 1)
	t.Cleanup(broker.Close)
	broker.SetHandlerByMap(map[string]sarama.MockResponse{
		"MetadataRequest": sarama.NewMockMetadataResponse(t).SetBroker(broker.Addr(), 1).SetController(1),
	})
	producer, err := sarama.NewSyncProducer([]string{broker.Addr()}, config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = producer.Close() }()
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: "hooks", Value: sarama.ByteEncoder(make([]byte, 101))})
	if err == nil {
		t.Fatal("sarama sends it")
	}
	return err
}

func TestWrapPublisher(t *testing.T) {
	outage := envelope.Transient(errors.New("no broker"))
	tests := []struct {
		rule     string
		err      error
		tooLarge bool
	}{
		{"nothing went wrong", nil, false},
		{"the broker refuses a batch", fmt.Errorf("cannot produce message: %w", sarama.ErrMessageSizeTooLarge), true},
		{"sarama refuses a record", fmt.Errorf("cannot produce message: %w", tooLargeForSarama(t)), true},
		{"another mistake of configuration", sarama.ConfigurationError("Net.MaxOpenRequests must be > 0"), false},
		{"an outage", outage, false},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			inner := &failing{err: tt.err}
			pub := kafkawire.WrapPublisher(inner)
			err := pub.Publish("hooks", hook(), hook())
			if !errors.Is(err, tt.err) || inner.topic != "hooks" || inner.count != 2 {
				t.Errorf("error %v of %d messages to %s", err, inner.count, inner.topic)
			}
			if errors.Is(err, envelope.ErrMessageTooLarge) != tt.tooLarge || envelope.IsPermanent(err) != tt.tooLarge {
				t.Errorf("%v: too large %v, permanent %v", err, errors.Is(err, envelope.ErrMessageTooLarge), envelope.IsPermanent(err))
			}
			if envelope.IsTransient(err) != errors.Is(tt.err, outage) {
				t.Errorf("%v: transient %v", err, envelope.IsTransient(err))
			}
			if err := pub.Close(); !errors.Is(err, tt.err) || !inner.closed {
				t.Errorf("Close: %v", err)
			}
			if got := fmt.Sprint(pub); got != "kafkawire_test.failing" {
				t.Errorf("name %q", got)
			}
		})
	}
}
