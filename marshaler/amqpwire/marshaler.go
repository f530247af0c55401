// Package amqpwire seals and opens messages of RabbitMQ (AMQP 0-9-1). [Marshaler] is the
// Marshaler of github.com/ThreeDotsLabs/watermill-amqp, v2 and v3, and can be used with
// amqp091-go alone:
//
//	config := amqp.NewDurablePubSubConfig(uri, amqp.GenerateQueueNameTopicNameWithSuffix("audit"))
//	config.Marshaler = amqpwire.Marshaler{Source: "orders", Fallback: amqp.DefaultMarshaler{}}
//
// Exchange and routing key come from the configuration of the transport: the marshaler is
// not told the topic.
//
// # On the wire
//
// The body is the JSON. The properties are content_type application/json, message_id (the
// id; left out when it is over 255 bytes, the JSON has it), delivery_mode 2 and timestamp
// (ReceivedAt in seconds, 0 before 1970). The headers are the attributes and the user's
// metadata, all of them long strings.
//
// These metadata of the user travel in the JSON and not as headers: names over 255 bytes; CC
// and BCC, by which RabbitMQ routes; and those that RabbitMQ writes itself (x-death and its
// kin). The same goes for all of them where the content header would be over the frame size.
package amqpwire

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/amqpframe"
	"github.com/watermill-envelope/envelope/marshaler"
)

const (
	// DefaultMaxMessageBytes is the limit of the body when none is given.
	DefaultMaxMessageBytes = 1 << 20
	// DefaultFrameMax is RabbitMQ's frame_max when it is not configured, in bytes.
	DefaultFrameMax = amqpframe.DefaultFrameMax
)

// Unmarshaler is what a Fallback has to be: the Unmarshal of watermill-amqp's Marshaler.
type Unmarshaler interface {
	Unmarshal(amqp.Delivery) (*message.Message, error)
}

// A Marshaler seals messages into publishings and opens deliveries. Its zero value is ready
// to use: it refuses to publish a message that has no source. It may be used by several
// goroutines at once.
type Marshaler struct {
	// Source, Tenant, ContentType, Instance and Region fill in what a message lacks that
	// carries no envelope. They never override what it has.
	Source, Tenant, ContentType, Instance, Region string
	// Ordered writes the lane key ("tenant/source") as ordering key on messages that have
	// none.
	Ordered bool
	// MaxMessageBytes is the most that is sent, counted as RabbitMQ's max_message_size: the
	// body only. 0 is [DefaultMaxMessageBytes].
	MaxMessageBytes int64
	// FrameMax is the frame size of the connection, in bytes; 0 is [DefaultFrameMax]. The
	// content header (properties and headers, as encoded) must fit into one frame with 8
	// bytes to spare: over that the broker closes the connection, so it is refused before.
	FrameMax int64
	// Fallback reads deliveries that are not ours, for a queue that still holds messages of
	// another format: the Marshaler that was used until now. nil: they are malformed. It is
	// asked when the body is refused and no header is called ankusa_message_version.
	Fallback Unmarshaler
	// Observer counts malformed messages and those that Fallback read; nil counts nothing.
	Observer marshaler.Observer
}

var _ marshaler.Fitter = Marshaler{}

// Validate reports everything that is wrong with m.
func (m Marshaler) Validate() error {
	var frame error
	if m.FrameMax != 0 && m.FrameMax < amqpframe.MinFrameMax {
		frame = fmt.Errorf("amqpwire: FrameMax %d is under the %d of the protocol", m.FrameMax, amqpframe.MinFrameMax)
	}
	return errors.Join(
		marshaler.ValidateDefaults(m.wire(nil).Defaults),
		marshaler.ValidateLimit("MaxMessageBytes", m.MaxMessageBytes),
		frame,
	)
}

// wire is for this message; nil is for opening.
func (m Marshaler) wire(msg *message.Message) marshaler.Wire {
	w := marshaler.Wire{
		Defaults: envelope.Defaults{
			SourceID: m.Source, TenantID: m.Tenant, ContentType: m.ContentType,
			Instance: m.Instance, Region: m.Region,
		},
		Ordered:           m.Ordered,
		Native:            native,
		TenantAlways:      true,
		MaxAttributeBytes: m.headerMax() - propertyBytes(msg),
		PerAttribute:      amqpframe.LongString,
		Apart:             true,
		MaxMessageBytes:   m.MaxMessageBytes,
		Observer:          m.Observer,
	}
	if w.MaxMessageBytes <= 0 {
		w.MaxMessageBytes = DefaultMaxMessageBytes
	}
	return w
}

// headerMax is the most that a content header may take.
func (m Marshaler) headerMax() int64 {
	if m.FrameMax >= amqpframe.MinFrameMax {
		return m.FrameMax - amqpframe.Overhead
	}
	return DefaultFrameMax - amqpframe.Overhead
}

// Prepare implements [marshaler.Sealer]. A content header that is too large is found here.
func (m Marshaler) Prepare(_ string, msg *message.Message) (*message.Message, error) {
	w := m.wire(msg)
	prepared, err := w.Prepare(msg)
	if err != nil {
		return nil, err
	}
	w = m.wire(prepared)
	return prepared, m.checkHeader(prepared, w.Size(prepared, ""))
}

func (m Marshaler) checkHeader(prepared *message.Message, s marshaler.Size) error {
	size := s.Attributes + propertyBytes(prepared)
	if size <= m.headerMax() {
		return nil
	}
	return &envelope.TooLargeError{Size: size, Max: m.headerMax(), What: "content header"}
}

// Size implements [marshaler.Sealer].
func (m Marshaler) Size(_ string, prepared *message.Message, tenant string) (inline, claim, limit int64) {
	w := m.wire(prepared)
	s := w.Size(prepared, tenant)
	return s.Inline, s.Claim, w.MaxMessageBytes
}

// Fits implements [marshaler.Fitter].
func (m Marshaler) Fits(_ string, prepared *message.Message) bool {
	w := m.wire(prepared)
	return w.Fits(prepared)
}

// Marshal seals msg. Its errors are permanent: an [envelope.TooLargeError] or an
// [envelope.Error].
func (m Marshaler) Marshal(msg *message.Message) (amqp.Publishing, error) {
	w := m.wire(msg)
	prepared, err := w.Prepare(msg)
	if err != nil {
		return amqp.Publishing{}, err
	}
	w = m.wire(prepared)
	size := w.Size(prepared, "")
	if err := w.Check(size); err != nil {
		return amqp.Publishing{}, err
	}
	if err := m.checkHeader(prepared, size); err != nil {
		return amqp.Publishing{}, err
	}
	sealed, err := w.Seal(prepared, size)
	if err != nil {
		return amqp.Publishing{}, err
	}
	p := amqp.Publishing{
		Headers:      make(amqp.Table, len(sealed.Attributes)),
		DeliveryMode: amqp.Persistent,
		MessageId:    messageID(prepared.UUID),
		Body:         sealed.Body,
	}
	for _, a := range sealed.Attributes {
		p.Headers[a.Name] = a.Value
	}
	if !envelope.IsMalformed(prepared) {
		p.ContentType = contentType
		p.Timestamp = timestamp(prepared)
	}
	return p, nil
}

// messageID is the property for this id: none where the property has no room for it.
func messageID(id string) string {
	if len(id) > amqpframe.MaxShortString || !utf8.ValidString(id) {
		return ""
	}
	return id
}
