package kafkawire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// WrapPublisher returns a publisher that recognises the errors of watermill-kafka's for a
// record that is too large all the same: one that is over sarama's Producer.MaxMessageBytes
// because MaxMessageBytes of the [Marshaler] is larger, or over the message.max.bytes of the
// broker or its topic. They are then permanent and [envelope.ErrMessageTooLarge], with the
// cause in their tree; other errors stay as they are.
//
// The marshaler refuses what is over its own limit, so this is for services that do not know
// the limits of their brokers. A wrapped publisher has the name of the inner one.
func WrapPublisher(inner message.Publisher) message.Publisher { return &publisher{inner} }

type publisher struct{ message.Publisher }

func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	err := p.Publisher.Publish(topic, messages...)
	if err != nil && isTooLarge(err) {
		return envelope.Permanent(fmt.Errorf("%w: %w", envelope.ErrMessageTooLarge, err))
	}
	return err
}

// isTooLarge reports whether err is the broker's refusal, or sarama's, which is a
// ConfigurationError that only its text tells from others.
func isTooLarge(err error) bool {
	if errors.Is(err, sarama.ErrMessageSizeTooLarge) {
		return true
	}
	var config sarama.ConfigurationError
	return errors.As(err, &config) && strings.Contains(string(config), "Producer.MaxMessageBytes")
}

// String returns the name that Watermill gives to the inner publisher.
func (p *publisher) String() string {
	if s, ok := p.Publisher.(fmt.Stringer); ok {
		return s.String()
	}
	return strings.TrimLeft(fmt.Sprintf("%T", p.Publisher), "*")
}
