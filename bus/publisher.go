package bus

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
)

// A PublisherConfig says what a [Publisher] publishes through.
type PublisherConfig struct {
	// Publisher takes open messages: any of Watermill's, on AMQP one that was made with a
	// marshaler of bus/amqpwire. Required. It stays the caller's to close.
	Publisher message.Publisher
}

// Validate reports everything that is missing.
func (c PublisherConfig) Validate() error {
	if c.Publisher == nil {
		return errors.New("bus: PublisherConfig has no Publisher")
	}
	return nil
}

// A Publisher publishes typed messages. Its methods may be called by several goroutines at
// once, if those of the publisher below may.
//
// A topic is what the publisher below takes for one; on AMQP usually the routing key. Every
// method returns the message id, also beside an error of the transport, since the message may
// have arrived all the same; uuid.Nil when nothing was sent. To send again under the same id,
// make the envelope with [New] and use [Publisher.PublishEnvelope].
//
// Messages that [Envelope.Validate] refuses are not sent, on any transport.
type Publisher struct {
	publisher message.Publisher
}

// NewPublisher returns a Publisher. The error says all that is wrong with the configuration.
func NewPublisher(c PublisherConfig) (*Publisher, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Publisher{c.Publisher}, nil
}

// Publish publishes m, in the chain of ctx (see [WithCorrelationID]) or a new one.
func (p *Publisher) Publish(ctx context.Context, topic string, m Message) (uuid.UUID, error) {
	return p.PublishWithHeaders(ctx, topic, nil, m)
}

// PublishWithHeaders is Publish with headers.
func (p *Publisher) PublishWithHeaders(ctx context.Context, topic string, headers map[string]string, m Message) (uuid.UUID, error) {
	chain, ok := CorrelationIDFrom(ctx)
	if !ok {
		chain = NewID()
	}
	e, err := New(chain, m)
	if err != nil {
		return uuid.Nil, err
	}
	e.Headers = headers
	return p.PublishEnvelope(ctx, topic, e)
}

// PublishWithCorrelationID publishes m in this chain, whatever the one of ctx is.
func (p *Publisher) PublishWithCorrelationID(ctx context.Context, topic string, correlationID uuid.UUID, m Message) (uuid.UUID, error) {
	e, err := New(correlationID, m)
	if err != nil {
		return uuid.Nil, err
	}
	return p.PublishEnvelope(ctx, topic, e)
}

// PublishEnvelope publishes e as it is. Publishing it again sends the same message.
func (p *Publisher) PublishEnvelope(ctx context.Context, topic string, e *Envelope) (uuid.UUID, error) {
	if err := e.Validate(); err != nil {
		return uuid.Nil, err
	}
	msg := e.Message()
	msg.SetContext(ctx)
	return e.MessageID, p.publisher.Publish(topic, msg)
}

// PublishRaw publishes bytes that are JSON already, unchecked: an event out of a store under
// the id that it has there. It starts a chain of the same id.
func (p *Publisher) PublishRaw(ctx context.Context, topic string, id uuid.UUID, messageType string, payload []byte) (uuid.UUID, error) {
	return p.PublishEnvelope(ctx, topic, Restore(id, messageType, payload, id, "", nil, now()))
}
