package real

import (
	"errors"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

// We count as sarama does: at its limit client and broker take a record, one byte over we
// refuse it before sarama would.
func TestKafkaMessageLimit(t *testing.T) {
	ctx := suite.Context(t)
	const limit = 1 << 20 // sarama's own default
	options := suite.KafkaOptions{Marshaler: kafkawire.Marshaler{Source: "suite", MaxMessageBytes: limit}}
	pub := suite.Kafka(kafkaServer.Addr(), options).Publisher(t)
	publish := func(pub message.Publisher, note int) error {
		msg := message.NewMessage("limit", []byte("body"))
		msg.Metadata.Set("note", strings.Repeat("n", note))
		return pub.Publish(t.Name(), msg)
	}
	var tooLarge *envelope.TooLargeError
	if err := publish(pub, 2*limit); !errors.As(err, &tooLarge) {
		t.Fatalf("a note of 2 MiB: %v, want it refused", err)
	}
	note := 2*limit - int(tooLarge.Size-tooLarge.Max)
	if err := publish(pub, note+1); !errors.Is(err, envelope.ErrMessageTooLarge) {
		t.Errorf("one byte over: %v, want it refused", err)
	}
	if err := publish(pub, note); err != nil {
		t.Fatalf("at the limit: %v", err)
	}
	got := suite.KafkaPeer{Addr: kafkaServer.Addr()}.Watch(ctx, t, t.Name())(1)[0]
	if value, _ := got.Header("note"); len(value) != note {
		t.Errorf("the broker has a note of %d bytes, want %d", len(value), note)
	}
	options.Marshaler = kafkawire.Marshaler{Source: "suite", MaxMessageBytes: 2 * limit}
	var refused sarama.ConfigurationError
	if err := publish(suite.Kafka(kafkaServer.Addr(), options).Publisher(t), note+1); !errors.As(err, &refused) {
		t.Errorf("one byte over, past our check: %v, want sarama to refuse it", err)
	}
}
