package bus

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
)

type correlationKey struct{}

// WithCorrelationID returns a context whose messages belong to this chain: what is published
// with it by a [Publisher], or through bus/amqpwire without a correlation id of its own.
// [TypedHandler] and [Correlate] give handlers such a context.
func WithCorrelationID(ctx context.Context, id uuid.UUID) context.Context {
	return context.WithValue(ctx, correlationKey{}, id)
}

// CorrelationIDFrom returns the chain that ctx belongs to.
func CorrelationIDFrom(ctx context.Context) (uuid.UUID, bool) {
	id, ok := ctx.Value(correlationKey{}).(uuid.UUID)
	return id, ok
}

// CorrelationIDOf returns the chain that an open message belongs to: that of its metadata (see
// [ID]), else that of its context, else one of its own, its message id.
func CorrelationIDOf(msg *message.Message) uuid.UUID {
	if text := msg.Metadata[MetadataCorrelationID]; text != "" {
		return ID(text)
	}
	if id, ok := CorrelationIDFrom(msg.Context()); ok {
		return id
	}
	return ID(msg.UUID)
}

// Correlate is a router middleware for handlers that are no [TypedHandler], such as those of
// Watermill's CQRS processors: what the handler returns and what it publishes with its context
// belongs to the chain of the message that it handles, unless it has a correlation id of its
// own.
func Correlate(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		id := CorrelationIDOf(msg)
		msg.SetContext(WithCorrelationID(msg.Context(), id))
		produced, err := h(msg)
		correlate(produced, id)
		return produced, err
	}
}

// correlate puts messages that have no correlation id into this chain.
func correlate(produced []*message.Message, id uuid.UUID) {
	for _, msg := range produced {
		if msg.Metadata[MetadataCorrelationID] != "" {
			continue
		}
		if msg.Metadata == nil {
			msg.Metadata = make(message.Metadata)
		}
		msg.Metadata[MetadataCorrelationID] = id.String()
	}
}
