package bus

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/internal/typedjson"
)

// CQRSMarshaler is the Marshaler of Watermill's CommandBus, EventBus and their processors, for
// commands and events that are a [Message]. Their name is the message type.
//
// What a bus publishes while a message is handled belongs to its chain when the router has
// [Correlate] and the marshaler of the transport is that of bus/amqpwire. On other transports
// the bus needs [Continue] as well.
type CQRSMarshaler struct{}

// Marshal returns v as an open message, with a new message id. The correlation id is left to
// the one that publishes, which knows the context. Its errors are permanent.
func (CQRSMarshaler) Marshal(v any) (*message.Message, error) {
	m, err := asMessage(v)
	if err != nil {
		return nil, err
	}
	e := &Envelope{MessageType: m.MessageType()}
	if err := e.Validate(); err != nil {
		return nil, err
	}
	payload, err := encodeMessage(v)
	if err != nil {
		return nil, err
	}
	msg := message.NewMessage(NewID().String(), payload)
	msg.Metadata[MetadataType] = e.MessageType
	msg.Metadata[MetadataPublishedAt] = strconv.FormatInt(now().UnixMilli(), 10)
	return msg, nil
}

// Unmarshal decodes an open message into v, a pointer, by the rules of [Decode].
func (CQRSMarshaler) Unmarshal(msg *message.Message, v any) error {
	if err := checkType(msg); err != nil {
		return err
	}
	m, err := asMessage(v)
	if err != nil {
		return err
	}
	return decode(msg.Metadata[MetadataType], msg.Payload, m.MessageType(), v)
}

// Name returns the message type of v, a message or a pointer to one, and "" for anything else.
func (CQRSMarshaler) Name(v any) string {
	m, err := asMessage(v)
	if err != nil {
		return ""
	}
	return m.MessageType()
}

// NameFromMessage returns the type of an open message, and "" when it has none. A processor
// acknowledges what it has no name for: [RequireType] in the router refuses it.
func (CQRSMarshaler) NameFromMessage(msg *message.Message) string { return msg.Metadata[MetadataType] }

// Continue puts a message that has no correlation id into the chain of its context. It is for
// OnSend of a CommandBus and OnPublish of an EventBus.
func Continue(msg *message.Message) { correlate([]*message.Message{msg}, CorrelationIDOf(msg)) }

// RequireType is a router middleware that refuses messages without a type, which handlers by
// name pass over, as a permanent error.
func RequireType(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		if err := checkType(msg); err != nil {
			return nil, err
		}
		return h(msg)
	}
}

// asMessage returns v, or a pointer to a copy of it where only the pointer has the method.
func asMessage(v any) (Message, error) {
	if m, ok := v.(Message); ok && !typedjson.IsNil(v) {
		return m, nil
	}
	t := reflect.TypeOf(v)
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem() // a nil pointer
	}
	if t != nil {
		if m, ok := reflect.TypeAssert[Message](reflect.New(t)); ok {
			return m, nil
		}
	}
	return nil, &Error{Code: CodeSerialization, Reason: fmt.Sprintf("%T is no bus.Message", v)}
}
