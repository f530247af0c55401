// Package amqpwire carries typed messages (package bus) over RabbitMQ (AMQP 0-9-1) as Hexeract
// does, so that Rust services read what Go publishes and the other way round. [Marshaler] is the
// Marshaler of github.com/ThreeDotsLabs/watermill-amqp, v2 and v3, and of transport/rabbitmq, and
// can be used with amqp091-go alone:
//
//	config := amqp.NewDurablePubSubConfig(uri, amqp.GenerateQueueNameTopicNameWithSuffix("billing"))
//	config.Marshaler = amqpwire.Marshaler{}
//
// Exchange and routing key come from the configuration of the transport: the marshaler is not
// told the topic.
//
// # On the wire
//
// The body is the payload. The properties are message_id and correlation_id (UUIDs in lower
// case with hyphens), type, content_type application/json, delivery_mode 2, timestamp (seconds,
// 0 before 1970), reply_to where there is one, and a table of headers, all of them long strings.
//
// A Rust consumer does not survive, and RabbitMQ dead-letters none of: a type or a name that is
// not UTF-8, and a content header over the frame size, which are refused; and a time before 1970,
// which is written as 1970.
//
// # What is not taken over
//
// Headers that are no text, or not UTF-8, do not become metadata; nor does CC or BCC. Those that
// RabbitMQ writes as text (x-first-death-queue and its kin) do, and are not published again.
package amqpwire

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/internal/amqpframe"
)

const (
	// DefaultFrameMax is RabbitMQ's frame_max when it is not configured, in bytes.
	DefaultFrameMax = amqpframe.DefaultFrameMax

	// HeaderAttempts is the header in which a consumer of ours counts the attempts at a message:
	// an integer, so that it stays out of metadata and out of a Rust consumer's headers, while
	// copies carry it along; and not under x-, whose counts RabbitMQ 4 begins again.
	HeaderAttempts = "hexeract_attempts"

	contentType = "application/json"
)

// A Marshaler turns open messages into publishings and deliveries into open messages. Its zero
// value is ready to use. It may be used by several goroutines at once.
type Marshaler struct {
	// FrameMax is the frame size of the connection, in bytes; 0 is [DefaultFrameMax]. The
	// content header (properties and headers, as encoded) must fit into one frame with 8
	// bytes to spare.
	FrameMax int64
}

// Validate reports what is wrong with m.
func (m Marshaler) Validate() error {
	if m.FrameMax != 0 && m.FrameMax < amqpframe.MinFrameMax {
		return fmt.Errorf("amqpwire: FrameMax %d is under the %d of the protocol", m.FrameMax, amqpframe.MinFrameMax)
	}
	return nil
}

// headerMax is the most that a content header may take.
func (m Marshaler) headerMax() int64 {
	if m.FrameMax >= amqpframe.MinFrameMax {
		return m.FrameMax - amqpframe.Overhead
	}
	return DefaultFrameMax - amqpframe.Overhead
}

// Marshal returns an open message as it is published. The payload is not looked at, and is
// shared.
//
// A message without a correlation id gets that of its context, else its message id; an empty
// UUID is minted and set in msg, so that a retry has the same. Ids that are no UUIDs are mapped
// as [bus.ID] says. The text of an error in Watermill's reason_poisoned has U+FFFD in the place
// of bytes that are not UTF-8.
//
// Its errors are an InvalidTopology, which is permanent: no type, or what is said about
// [bus.Envelope.Validate]; or a content header that is too large.
func (m Marshaler) Marshal(msg *message.Message) (amqp.Publishing, error) {
	p := amqp.Publishing{
		Type:         msg.Metadata[bus.MetadataType],
		ContentType:  contentType,
		DeliveryMode: amqp.Persistent,
		ReplyTo:      msg.Metadata[bus.MetadataReplyTo],
		Timestamp:    timestamp(msg),
		Body:         msg.Payload,
	}
	if err := checkType(msg); err != nil {
		return amqp.Publishing{}, err
	}
	if err := bus.CheckShortString("reply_to", p.ReplyTo); err != nil {
		return amqp.Publishing{}, err
	}
	if msg.UUID == "" {
		msg.UUID = bus.NewID().String()
	}
	p.MessageId = canonical(msg.UUID)
	if id := msg.Metadata[bus.MetadataCorrelationID]; id != "" {
		p.CorrelationId = canonical(id)
	} else {
		p.CorrelationId = bus.CorrelationIDOf(msg).String()
	}
	var err error
	if p.Headers, err = m.headers(msg, amqpframe.ContentHeader(&p)); err != nil {
		return amqp.Publishing{}, err
	}
	return p, nil
}

// headers returns the header table of msg beside properties of this many bytes.
func (m Marshaler) headers(msg *message.Message, size int64) (amqp.Table, error) {
	t := make(amqp.Table, len(msg.Metadata))
	add := func(name, value string) {
		t[name] = value
		size += amqpframe.LongString + int64(len(name)+len(value))
	}
	for key, value := range msg.Metadata {
		name, ok := bus.HeaderOfMetadata(key)
		if !ok || amqpframe.BrokerOwned(name) {
			continue
		}
		if name == reasonPoisoned {
			value = strings.ToValidUTF8(value, "\uFFFD")
		}
		if err := bus.CheckHeader(name, value); err != nil {
			return nil, err
		}
		add(name, value)
	}
	if msg.Metadata[bus.MetadataType] == "" {
		add(bus.MetadataMalformed, msg.Metadata[bus.MetadataMalformed])
	}
	if len(t) > 0 {
		size += amqpframe.Table
	}
	if size > m.headerMax() {
		return nil, &bus.Error{
			Code: bus.CodeInvalidTopology, Field: "content header", Reason: "exceeds the frame size", Size: size, Max: m.headerMax(),
		}
	}
	return t, nil
}

// reasonPoisoned is where Watermill's PoisonQueue writes the text of the error that a handler
// failed with. An error may quote bytes, and a message that fails must find its way into the
// poison queue all the same.
const reasonPoisoned = "reason_poisoned"

// checkType refuses a message without a type, but for one that came without: that one is on its
// way to a queue for dead letters.
func checkType(msg *message.Message) error {
	messageType := msg.Metadata[bus.MetadataType]
	if messageType == "" && msg.Metadata[bus.MetadataMalformed] == "" {
		return &bus.Error{Code: bus.CodeInvalidTopology, Field: "message type", Reason: "is missing"}
	}
	return bus.CheckShortString("message type", messageType)
}

// timestamp is when msg was published in seconds, 1970 where that is before.
func timestamp(msg *message.Message) time.Time {
	return time.Unix(max(0, bus.PublishedAtOf(msg).Unix()), 0)
}

// canonical returns the UUID of an id in lower case with hyphens.
func canonical(id string) string {
	if isCanonical(id) {
		return id
	}
	return bus.ID(id).String()
}

func isCanonical(id string) bool {
	if len(id) != len("00000000-0000-0000-0000-000000000000") {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || '9' < c) && (c < 'a' || 'f' < c) {
				return false
			}
		}
	}
	return true
}

// Unmarshal opens a delivery. Its error is nil whatever the delivery holds, since a subscriber
// would take the same delivery again without end; only the zero Delivery, which a closed channel
// yields, is an error.
//
// A message id or correlation id that is missing is minted, and therefore another one at each
// delivery; one that is no UUID is mapped as [bus.ID] says. Without a timestamp, or with one from
// 2^63 on, the message was published now.
//
// A delivery without a type, or with one that is not UTF-8, has [bus.MetadataMalformed] and no
// type. Whatever handles it by type refuses it, which is permanent, and it can be published
// again without a type.
func (m Marshaler) Unmarshal(d amqp.Delivery) (*message.Message, error) {
	if d.Acknowledger == nil && d.DeliveryTag == 0 {
		return nil, errNoDelivery
	}
	const properties = 4
	msg := message.NewMessage(id(d.MessageId), d.Body)
	msg.Metadata = make(message.Metadata, properties+len(d.Headers))
	for name, value := range d.Headers {
		text, ok := value.(string)
		if !ok || !utf8.ValidString(text) || !utf8.ValidString(name) || amqpframe.Routes(name) {
			continue
		}
		msg.Metadata[bus.MetadataOfHeader(name)] = text
	}
	msg.Metadata[bus.MetadataCorrelationID] = id(d.CorrelationId)
	if d.ReplyTo != "" && utf8.ValidString(d.ReplyTo) {
		msg.Metadata[bus.MetadataReplyTo] = d.ReplyTo
	}
	msg.Metadata[bus.MetadataPublishedAt] = strconv.FormatInt(publishedAt(d.Timestamp), 10)
	switch {
	case d.Type == "":
		came, ok := d.Headers[bus.MetadataMalformed].(string)
		if !ok || came == "" || !utf8.ValidString(came) {
			came = "missing_type"
		}
		delete(msg.Metadata, bus.MetadataOfHeader(bus.MetadataMalformed))
		msg.Metadata[bus.MetadataMalformed] = came
	case !utf8.ValidString(d.Type):
		msg.Metadata[bus.MetadataMalformed] = "invalid_type:" + strconv.Quote(d.Type)
	default:
		msg.Metadata[bus.MetadataType] = d.Type
	}
	return msg, nil
}

var errNoDelivery = &bus.Error{Code: bus.CodeInternal, Reason: "zero delivery: the channel is closed"}

// id returns the UUID of a property, a new one where it is missing.
func id(property string) string {
	if property == "" {
		return bus.NewID().String()
	}
	return canonical(property)
}

// publishedAt is a timestamp in milliseconds: now, where it is missing or no time of 64 bits.
func publishedAt(t time.Time) int64 {
	s := t.Unix()
	if t.IsZero() || s < 0 || s > math.MaxInt64/1000 {
		return time.Now().UnixMilli()
	}
	return s * 1000
}
