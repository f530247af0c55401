package bus

import (
	"errors"
	"maps"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// maxShortString is the most bytes of an AMQP short string: a type, a name, a property.
const maxShortString = 255

// An Envelope is a message and what travels with it. It is plain data: it may be copied, and
// used by several goroutines as long as none of them writes to it.
//
// Its printed forms ([Envelope.Format] and what is beside it) never show the payload.
type Envelope struct {
	// MessageID names the message; the same however often it is published or delivered. A
	// UUIDv7 where we mint it, but any UUID is read.
	MessageID uuid.UUID
	// MessageType is the stable name of the payload's type.
	MessageType string
	// Payload is JSON. Of a foreign producer it may be any bytes, until it is decoded.
	Payload []byte
	// CorrelationID names the chain of messages that caused each other.
	CorrelationID uuid.UUID
	// ReplyTo is the queue that a reply should go to, or empty.
	ReplyTo string
	// Headers are free text beside the payload. A handler of a Rust worker does not see them:
	// nothing that it must know may be in them only.
	Headers map[string]string
	// PublishedAt is when the message was made, not when it was sent. AMQP carries whole
	// seconds from 1970 on, other transports milliseconds.
	PublishedAt time.Time
}

// New returns the envelope of m, with a new message id. The correlation id is the caller's,
// whatever it is: that of the message being handled, or [NewID] for a new chain.
//
// The payload is compact JSON without HTML escaping, as Rust writes it. The error is a
// Serialization: m is nil, cannot be encoded, or is encoded to something that no consumer decodes
// (more than 127 nested objects and arrays, text that is not UTF-8).
func New(correlationID uuid.UUID, m Message) (*Envelope, error) {
	payload, err := encodeMessage(m)
	if err != nil {
		return nil, err
	}
	return &Envelope{
		MessageID: NewID(), MessageType: m.MessageType(), Payload: payload,
		CorrelationID: correlationID, PublishedAt: now(),
	}, nil
}

// Restore returns the envelope with these fields, whatever they are: for messages that were
// made elsewhere or stored. Nothing is checked before it is published or decoded. Payload and
// headers are not copied.
func Restore(
	messageID uuid.UUID, messageType string, payload []byte, correlationID uuid.UUID,
	replyTo string, headers map[string]string, publishedAt time.Time,
) *Envelope {
	return &Envelope{messageID, messageType, payload, correlationID, replyTo, headers, publishedAt}
}

// WithHeaders returns a copy of e that has a copy of these headers, and none of its own.
func (e *Envelope) WithHeaders(headers map[string]string) *Envelope {
	c := *e
	c.Headers = maps.Clone(headers)
	return &c
}

// WithReplyTo returns a copy of e that asks for a reply in this queue.
func (e *Envelope) WithReplyTo(queue string) *Envelope {
	c := *e
	c.ReplyTo = queue
	return &c
}

// Validate reports everything in e that keeps it from being published: each an InvalidTopology,
// joined. These are AMQP's limits and what a Rust consumer cannot survive, and hold on every
// transport, so that a message never depends on the one it took:
//
//   - the type has 1 to 255 bytes of UTF-8, the reply queue and each name of a header at most
//     255;
//   - a header is not called CC or BCC, by which RabbitMQ routes;
//   - header values are UTF-8, or the consumer drops them.
func (e *Envelope) Validate() error {
	var errs []error
	if e.MessageType == "" {
		errs = append(errs, invalid("message type", "is empty"))
	}
	errs = append(errs, CheckShortString("message type", e.MessageType), CheckShortString("reply_to", e.ReplyTo))
	for name, value := range e.Headers {
		errs = append(errs, CheckHeader(name, value))
	}
	return errors.Join(errs...)
}

// CheckHeader refuses a header that AMQP cannot carry to every consumer, by the rules of
// [Envelope.Validate]: an InvalidTopology.
func CheckHeader(name, value string) error {
	if name == "CC" || name == "BCC" {
		return invalid("header key", name+" is what RabbitMQ routes by")
	}
	if !utf8.ValidString(value) {
		return invalid("header value", "is not UTF-8")
	}
	return CheckShortString("header key", name)
}

// CheckShortString refuses what does not fit into an AMQP short string: more than 255 bytes, or
// bytes that are not UTF-8. The InvalidTopology names the field.
func CheckShortString(field, s string) error {
	if len(s) > maxShortString {
		return &Error{
			Code: CodeInvalidTopology, Field: field, Reason: "exceeds the AMQP short-string limit",
			Size: int64(len(s)), Max: maxShortString,
		}
	}
	if !utf8.ValidString(s) {
		return invalid(field, "is not UTF-8")
	}
	return nil
}

// NewID mints a message id or a correlation id, a UUIDv7. Like package crypto/rand, it ends the
// program when the system has no randomness.
func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// now has the precision that every transport but AMQP keeps.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
