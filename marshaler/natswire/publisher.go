package natswire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope"
)

// What a stream says of a message, and of headers, that it does not store.
const (
	codeMessageTooLarge nats.ErrorCode = 10054
	codeHeaderTooLarge  nats.ErrorCode = 10097
)

// WrapPublisher returns a publisher that recognises the errors of watermill-nats's (pkg/nats)
// for a message that is too large all the same: one that is over max_payload of the server or
// over MaxMsgSize of the stream, because MaxMessageBytes of the [Marshaler] is larger. They
// are then permanent and [envelope.ErrMessageTooLarge], with the cause in their tree; other
// errors stay as they are.
//
// The marshaler refuses what is over its own limit, so this is for services that do not know
// the limits of their servers and streams. A wrapped publisher has the name of the inner one.
func WrapPublisher(inner message.Publisher) message.Publisher { return &publisher{inner} }

type publisher struct{ message.Publisher }

func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	err := p.Publisher.Publish(topic, messages...)
	if err != nil && isTooLarge(err) {
		return envelope.Permanent(fmt.Errorf("%w: %w", envelope.ErrMessageTooLarge, err))
	}
	return err
}

func isTooLarge(err error) bool {
	if errors.Is(err, nats.ErrMaxPayload) {
		return true
	}
	var api *nats.APIError
	return errors.As(err, &api) && (api.ErrorCode == codeMessageTooLarge || api.ErrorCode == codeHeaderTooLarge)
}

// String returns the name that Watermill gives to the inner publisher.
func (p *publisher) String() string {
	if s, ok := p.Publisher.(fmt.Stringer); ok {
		return s.String()
	}
	return strings.TrimLeft(fmt.Sprintf("%T", p.Publisher), "*")
}
