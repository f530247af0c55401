// Package rediswire seals and opens messages of Redis: entries of streams by [Marshaler], and
// messages of channels (PUBLISH and SUBSCRIBE) by [PubSubMarshaler]. It imports no client.
//
// [Marshaler] is the Marshaller and the Unmarshaller of
// github.com/ThreeDotsLabs/watermill-redisstream:
//
//	m := rediswire.Marshaler{Source: "orders", Fallback: redisstream.DefaultMarshallerUnmarshaller{}}
//	pub, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: a, Marshaller: m}, log)
//	sub, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
//		Client: b, Unmarshaller: m, ConsumerGroup: "g", NackResendSleep: time.Second,
//	}, log)
//
// Give each of them a client of its own: Close closes it. Set NackResendSleep: without it a
// message that was nacked comes again at once, for ever.
//
// [PubSubMarshaler] is for the publisher and the subscriber of package
// transport/redispubsub.
//
// # An entry of a stream
//
// The field payload is the JSON. Each attribute is a field of its name, and each entry of the
// user's metadata a field of its name with "meta:" before it. The order of the fields is not
// fixed. To read an entry takes nothing but payload.
//
// # A message of a channel
//
// It is the JSON and nothing else: what other transports carry beside it is in it.
//
// # Receipts
//
// Redis shows a stream's subscriber the id of an entry, but watermill-redisstream does not
// show it to the marshaler. The receipt of what is read here is thus the same for all entries
// ("redis"), and for all messages of a channel ("redis/" and its name): enough that a broker
// that deduplicates does not take the next step or the poison copy for the message that came.
// A message that was read from Redis twice, as two copies, and is published to one topic of
// such a broker is one message there.
package rediswire

import (
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
)

// DefaultMaxMessageBytes is the limit when none is given: what every Redis takes, whose
// proto-max-bulk-len cannot be set lower.
const DefaultMaxMessageBytes = 1 << 20

// The names of the fields of an entry that are not attributes.
const (
	payloadField   = "payload"
	metadataPrefix = "meta:"
)

// Unmarshaler is what a Fallback has to be: the Unmarshaller of watermill-redisstream.
type Unmarshaler interface {
	Unmarshal(values map[string]any) (*message.Message, error)
}

// A Marshaler seals messages into entries of streams and opens entries. Its zero value is
// ready to use: it refuses to publish a message that has no source. It may be used by several
// goroutines at once.
type Marshaler struct {
	// Source, Tenant, ContentType, Instance and Region fill in what a message lacks that
	// carries no envelope. They never override what it has.
	Source, Tenant, ContentType, Instance, Region string
	// Ordered writes the lane key ("tenant/source") as ordering key on messages that have
	// none.
	Ordered bool
	// MaxMessageBytes is the most that is sent, counted as the names and the values of all
	// fields. 0 is [DefaultMaxMessageBytes].
	//
	// Redis counts each name and each value for itself and refuses one that is over
	// proto-max-bulk-len (512 MiB by default, at least 1 MiB), by closing the connection. A
	// whole entry must be under 1 GiB. So a limit that is not over proto-max-bulk-len is on
	// the safe side: what is sent is refused by nobody.
	MaxMessageBytes int64
	// Fallback reads entries that are not ours, for a stream that still holds messages of
	// another format: the Unmarshaller that was used until now. nil: they are malformed. It
	// is asked when payload is refused and no field is called ankusa_message_version.
	Fallback Unmarshaler
	// Observer counts malformed messages and those that Fallback read; nil counts nothing.
	// The marshaler is not told the stream, so the topic is always empty.
	Observer marshaler.Observer
}

var _ marshaler.Fitter = Marshaler{}

// Validate reports everything that is wrong with m.
func (m Marshaler) Validate() error {
	return errors.Join(
		marshaler.ValidateDefaults(m.wire().Defaults),
		marshaler.ValidateLimit("MaxMessageBytes", m.MaxMessageBytes),
	)
}

func (m Marshaler) wire() marshaler.Wire {
	w := marshaler.Wire{
		Defaults: envelope.Defaults{
			SourceID: m.Source, TenantID: m.Tenant, ContentType: m.ContentType,
			Instance: m.Instance, Region: m.Region,
		},
		Ordered:         m.Ordered,
		Native:          native,
		TenantAlways:    true,
		PerMessage:      int64(len(payloadField)),
		PerMetadata:     int64(len(metadataPrefix)),
		MaxMessageBytes: m.MaxMessageBytes,
		Observer:        m.Observer,
	}
	if w.MaxMessageBytes <= 0 {
		w.MaxMessageBytes = DefaultMaxMessageBytes
	}
	return w
}

// native is what a field can hold: names and values are bytes of any length. A malformed
// message is passed on with its fields as they came, so one named payload cannot be among
// them.
func native(name, _ string) bool { return name != payloadField }

// Prepare implements [marshaler.Sealer].
func (m Marshaler) Prepare(_ string, msg *message.Message) (*message.Message, error) {
	w := m.wire()
	return w.Prepare(msg)
}

// Size implements [marshaler.Sealer].
func (m Marshaler) Size(_ string, prepared *message.Message, tenant string) (inline, claim, limit int64) {
	w := m.wire()
	s := w.Size(prepared, tenant)
	return s.Inline, s.Claim, w.MaxMessageBytes
}

// Fits implements [marshaler.Fitter].
func (m Marshaler) Fits(_ string, prepared *message.Message) bool {
	w := m.wire()
	return w.Fits(prepared)
}

// Marshal seals msg into the fields of an entry: payload is a []byte, all others are strings.
// Its errors are permanent: an [envelope.TooLargeError] or an [envelope.Error].
func (m Marshaler) Marshal(_ string, msg *message.Message) (map[string]any, error) {
	w := m.wire()
	prepared, err := w.Prepare(msg)
	if err != nil {
		return nil, err
	}
	size := w.Size(prepared, "")
	if err := w.Check(size); err != nil {
		return nil, err
	}
	sealed, err := w.Seal(prepared, size)
	if err != nil {
		return nil, err
	}
	asCame := envelope.IsMalformed(prepared)
	fields := make(map[string]any, 1+len(sealed.Attributes))
	for _, a := range sealed.Attributes {
		if asCame || isAttribute(a.Name) {
			fields[a.Name] = a.Value
		} else {
			fields[metadataPrefix+a.Name] = a.Value
		}
	}
	fields[payloadField] = sealed.Body
	return fields, nil
}

// isAttribute reports whether a name beside the body is ours, and not the user's.
func isAttribute(name string) bool { return name == "content_type" || envelope.IsReserved(name) }
