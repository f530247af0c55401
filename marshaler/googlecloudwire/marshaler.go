// Package googlecloudwire seals and opens messages of Google Pub/Sub. [Marshaler] is the
// Marshaler and the Unmarshaler of github.com/ThreeDotsLabs/watermill-googlecloud, whose client
// is cloud.google.com/go/pubsub; for its v2 take package v2 beside this one.
//
//	m := googlecloudwire.Marshaler{Source: "orders", Fallback: googlecloud.DefaultMarshalerUnmarshaler{}}
//	pub, err := googlecloud.NewPublisher(googlecloud.PublisherConfig{ProjectID: id, Marshaler: m}, log)
//	sub, err := googlecloud.NewSubscriber(googlecloud.SubscriberConfig{ProjectID: id, Unmarshaler: m}, log)
//
// # On the wire
//
// The data is the JSON. The attributes are those of the wire format that are not empty, and the
// metadata of the user. These metadata travel in the JSON: empty ones, values of over 1,024
// bytes, and names of over 256 bytes or that begin with goog, in any letter case; and all of
// them where the attributes would be more than 100. An attribute with a value of over 1,024
// bytes is left out. The ordering key is that of the envelope, if it has one: publisher and
// subscription must be set up for it (EnableMessageOrdering).
//
// It is a module of its own, because the clients bring many others.
package googlecloudwire

import (
	"errors"

	"cloud.google.com/go/pubsub" //nolint:staticcheck // v1 of watermill-googlecloud is made of it
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/googlecloudwire/internal/core"
)

// DefaultMaxMessageBytes is the limit when none is given: that of a publish request, in which a
// message may be alone.
const DefaultMaxMessageBytes = core.DefaultMaxMessageBytes

var errNilMessage = errors.New("googlecloudwire: nil message")

// Unmarshaler is what a Fallback has to be: the Unmarshaler of watermill-googlecloud.
type Unmarshaler interface {
	Unmarshal(*pubsub.Message) (*message.Message, error)
}

// A Marshaler seals messages and opens them. Its zero value is ready to use: it refuses to
// publish a message that has no source. It may be used by several goroutines at once.
type Marshaler struct {
	// Source, Tenant, ContentType, Instance and Region fill in what a message lacks that
	// carries no envelope. They never override what it has.
	Source, Tenant, ContentType, Instance, Region string
	// Ordered writes the lane key ("tenant/source") as ordering key on messages that have
	// none.
	Ordered bool
	// MaxMessageBytes is the most that is sent, counted as the data, the ordering key, the
	// names and values of the attributes, 9 bytes for each of these, and 512 bytes: never
	// less than the request takes, and at most that much more. 0 is
	// [DefaultMaxMessageBytes].
	MaxMessageBytes int64
	// OrderingKey chooses the ordering key of Pub/Sub for a message that is as it will be
	// sealed; an empty one is none. nil is the ordering key of the envelope. It is not asked
	// for a malformed message, which keeps the one that it came with. A key of over 1,024
	// bytes is replaced by its digest.
	OrderingKey func(topic string, msg *message.Message) string
	// Fallback reads messages that are not ours, for a topic that still holds messages of
	// another format: the Unmarshaler that was used until now. nil: they are malformed. It is
	// asked when the data is refused and no attribute is called ankusa_message_version.
	Fallback Unmarshaler
	// Observer counts malformed messages and those that Fallback read; nil counts nothing.
	// The marshaler is not told the subscription, so the topic is always empty.
	Observer marshaler.Observer
}

var _ marshaler.Fitter = Marshaler{}

func (m Marshaler) options() core.Options {
	return core.Options{
		Source: m.Source, Tenant: m.Tenant, ContentType: m.ContentType, Instance: m.Instance, Region: m.Region,
		Ordered: m.Ordered, MaxMessageBytes: m.MaxMessageBytes, OrderingKey: m.OrderingKey, Observer: m.Observer,
	}
}

// Validate reports everything that is wrong with m.
func (m Marshaler) Validate() error { return m.options().Validate() }

// Prepare implements [marshaler.Sealer].
func (m Marshaler) Prepare(topic string, msg *message.Message) (*message.Message, error) {
	return m.options().Prepare(topic, msg)
}

// Size implements [marshaler.Sealer]. With an OrderingKey of your own, it allocates what that
// does.
func (m Marshaler) Size(topic string, prepared *message.Message, tenant string) (inline, claim, limit int64) {
	return m.options().Size(topic, prepared, tenant)
}

// Fits implements [marshaler.Fitter]. With an OrderingKey of your own, it allocates what that
// does.
func (m Marshaler) Fits(topic string, prepared *message.Message) bool {
	return m.options().Fits(topic, prepared)
}

// Marshal seals msg. Its errors are permanent: an [envelope.TooLargeError] or an
// [envelope.Error]. A message that the server would refuse is thus refused before the client
// has it, which pauses an ordering key for good when one of its messages fails. A message
// without Metadata gets an empty one: the publisher writes the server's id there.
func (m Marshaler) Marshal(topic string, msg *message.Message) (*pubsub.Message, error) {
	out, err := m.options().Marshal(topic, msg)
	if err != nil {
		return nil, err
	}
	if msg.Metadata == nil {
		msg.Metadata = message.Metadata{}
	}
	return &pubsub.Message{Data: out.Data, Attributes: out.Attributes, OrderingKey: out.OrderingKey}, nil
}

// Unmarshal opens a message. Its error is always nil, whatever the message holds (a nil one,
// which no client delivers, is an error): one that cannot be read is malformed and keeps its
// data, its attributes and its ordering key. The time of publishing and the id that the server
// gave are no metadata; the id is the receipt.
func (m Marshaler) Unmarshal(msg *pubsub.Message) (*message.Message, error) {
	if msg == nil {
		return nil, errNilMessage
	}
	var fallback func() (*message.Message, error)
	if m.Fallback != nil {
		fallback = func() (*message.Message, error) { return m.Fallback.Unmarshal(msg) }
	}
	in := core.Message{Data: msg.Data, Attributes: msg.Attributes, OrderingKey: msg.OrderingKey}
	return m.options().Unmarshal(in, msg.ID, fallback), nil
}
