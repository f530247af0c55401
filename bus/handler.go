package bus

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
)

// TypedHandler returns an ordinary Watermill handler that calls handle with the decoded message
// and its envelope: message id, correlation id, headers, queue for a reply. What handle returns
// without a correlation id, and what it publishes with ctx (see [WithCorrelationID]), belongs to
// the chain of the message.
//
// A message without a type, of another type (see [Mux]) or that cannot be decoded is a permanent
// error, and handle is not called.
func TypedHandler[M Message](handle func(ctx context.Context, m M, e *Envelope) ([]*message.Message, error)) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		e, err := FromMessage(msg)
		if err != nil {
			return nil, err
		}
		m, err := Decode[M](e)
		if err != nil {
			return nil, err
		}
		ctx := WithCorrelationID(msg.Context(), e.CorrelationID)
		msg.SetContext(ctx)
		produced, err := handle(ctx, m, e)
		correlate(produced, e.CorrelationID)
		return produced, err
	}
}

// TypedConsumer is [TypedHandler] for a handler that returns no messages, for the router's
// AddConsumerHandler.
func TypedConsumer[M Message](handle func(ctx context.Context, m M, e *Envelope) error) message.NoPublishHandlerFunc {
	h := TypedHandler(func(ctx context.Context, m M, e *Envelope) ([]*message.Message, error) {
		return nil, handle(ctx, m, e)
	})
	return func(msg *message.Message) error {
		_, err := h(msg)
		return err
	}
}

// A Mux hands each message of a queue to the handler of its type:
//
//	bus.Mux{
//		bus.TypeOf[OrderPlaced](): bus.TypedHandler(onPlaced),
//		bus.TypeOf[OrderPaid]():   bus.TypedHandler(onPaid),
//	}.Handle
type Mux map[string]message.HandlerFunc

// Handle is a Watermill handler. A message without a type is an InvalidTopology, one of a type
// that has no handler a MissingHandler; both are permanent.
func (m Mux) Handle(msg *message.Message) ([]*message.Message, error) {
	if err := checkType(msg); err != nil {
		return nil, err
	}
	messageType := msg.Metadata[MetadataType]
	h := m[messageType]
	if h == nil {
		return nil, &Error{Code: CodeMissingHandler, Actual: messageType}
	}
	return h(msg)
}

// Consume is Handle for the router's AddConsumerHandler. A handler that returns messages, which
// nobody would publish, is an Internal error.
func (m Mux) Consume(msg *message.Message) error {
	produced, err := m.Handle(msg)
	if err == nil && len(produced) > 0 {
		return &Error{Code: CodeInternal, Reason: "a handler of Mux.Consume returned messages"}
	}
	return err
}
