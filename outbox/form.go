package outbox

import (
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
)

// A Form makes the message that a [Relay] publishes of an event. It is called for each attempt,
// and must make the same message of the same event: above all with the same UUID. An error, or a
// panic, is a failed attempt at this event.
type Form func(*Envelope) (*message.Message, error)

// TypedMessage is the Form of a typed message of package bus, which a Rust service on Hexeract
// reads when it is published through bus/amqpwire: its message id is the event's id, its
// correlation id too, since each event begins a chain of its own, and it was published when the
// event was written. The subject is a header under [MetadataSubjectID].
//
// The table has no place for a correlation id or a trace. Where a payload has them, a Form of
// one's own hands them on:
//
//	Form: func(e *outbox.Envelope) (*message.Message, error) {
//		msg, err := outbox.TypedMessage(e)
//		if err == nil {
//			msg.Metadata["traceparent"] = traceparentOf(e.Payload)
//		}
//		return msg, err
//	}
func TypedMessage(e *Envelope) (*message.Message, error) {
	var headers map[string]string
	if e.SubjectID.Valid {
		headers = map[string]string{MetadataSubjectID: e.SubjectID.UUID.String()}
	}
	typed := bus.Restore(e.EventID, e.EventType, e.Payload, e.EventID, "", headers, e.CreatedAt)
	if err := typed.Validate(); err != nil {
		return nil, err
	}
	return typed.Message(), nil
}

// A HookForm makes hooks of events, which consumers of Ankusa's format read: the event is the
// body, the event's id the hook's. The subject is the ordering key, so that transports that keep
// an order keep that of a subject. The event's type is metadata under [MetadataEventType].
type HookForm struct {
	Source string // of every hook. Required.
	Tenant string // or empty
}

// Validate reports whether the Source is missing.
func (f HookForm) Validate() error {
	if f.Source == "" {
		return errors.New("outbox: HookForm has no Source")
	}
	return nil
}

// Form returns the [Form] of f, or what is wrong with f.
func (f HookForm) Form() (Form, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return f.message, nil
}

func (f HookForm) message(e *Envelope) (*message.Message, error) {
	hook := envelope.Envelope{
		ID: e.EventID.String(), SourceID: f.Source, TenantID: f.Tenant,
		ReceivedAt: e.CreatedAt, ContentType: "application/json", Body: e.Payload, Size: int64(len(e.Payload)),
		Verification: envelope.Verification{Status: envelope.VerificationSkipped},
		Metadata:     map[string]string{MetadataEventType: e.EventType},
	}
	if e.SubjectID.Valid {
		hook.OrderingKey = e.SubjectID.UUID.String()
	}
	return hook.Message(), nil
}
