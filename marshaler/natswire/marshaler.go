// Package natswire seals and opens messages of NATS: of subjects (core NATS) and of streams
// (JetStream). [Marshaler] is the Marshaler and the Unmarshaler of pkg/nats of
// github.com/ThreeDotsLabs/watermill-nats/v2, and can be used with nats.go alone:
//
//	m := natswire.Marshaler{Source: "orders", Fallback: nats.GobMarshaler{}}
//	pub, err := nats.NewPublisher(nats.PublisherConfig{URL: url, Marshaler: m, JetStream: js}, log)
//	sub, err := nats.NewSubscriber(nats.SubscriberConfig{URL: url, Unmarshaler: m, JetStream: js}, log)
//
// [JetStreamUnmarshaler] is the Unmarshaler of pkg/jetstream, whose publisher takes no
// marshaler: publish with that of pkg/nats.
//
// # On the wire
//
// The data is the JSON. The headers are Nats-Msg-Id, the attributes, and the metadata of the
// user, in the order that the client gives them.
//
// These metadata travel in the JSON and not as headers: names that are no tokens of HTTP,
// which the client refuses or drops; names that begin with Nats-, in any letter case, which
// are orders to the server; values with line ends, or with blanks at their edges, which the
// client changes; and what contains the text Nats-Msg-Id, which servers before 2.10 take for
// the header. An attribute with such a value is left out. All metadata go into the JSON where
// the headers would be over [MaxHeaderBytes].
//
// # Deduplication
//
// JetStream acknowledges a message and throws it away when its stream has stored one of the
// same Nats-Msg-Id within the stream's window (two minutes by default), on whatever subject.
// The id is therefore that of [envelope.PublishID]: a message that was received never goes
// out again under the id that it came with, so that a poison subject, a next step and a
// requeue may all lie in the stream that it came from, and a handler that runs twice for one
// delivery publishes once.
//
// Leave TrackMsgId of watermill-nats off. It knows only Watermill's own header, which
// messages of ours do not have, and a malformed one that was sent by the stock marshaler
// does: its poison copy would go out under the id that it came with.
package natswire

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
)

const (
	// DefaultMaxMessageBytes is the limit when none is given: the default max_payload of a
	// server.
	DefaultMaxMessageBytes = 1 << 20
	// MaxHeaderBytes is the most that the headers of a message may take as they are written,
	// which is the most that a stream stores.
	MaxHeaderBytes = 65_535
)

// Unmarshaler is what a Fallback has to be: the Unmarshaler of pkg/nats.
type Unmarshaler interface {
	Unmarshal(*nats.Msg) (*message.Message, error)
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
	// MaxMessageBytes is the most that is sent, counted as the server counts for max_payload
	// and for MaxMsgSize of a stream: the data, and the headers as they are written. 0 is
	// [DefaultMaxMessageBytes]. It must not be over the smaller of the two.
	MaxMessageBytes int64
	// DeduplicationID chooses the Nats-Msg-Id of a message that is as it will be sealed; an
	// empty one is none, and the stream stores whatever comes. It must be the same whenever
	// the same message is published again, and another for every other. nil is
	// [envelope.PublishID]. It is not asked for a malformed message. An id that a header
	// cannot hold is replaced by its digest.
	DeduplicationID func(topic string, msg *message.Message) string
	// Fallback reads messages that are not ours, for a subject on which there still are
	// messages of another format: the Unmarshaler that was used until now. nil: they are
	// malformed. It is asked when the data is refused and no header is called
	// ankusa_message_version.
	Fallback Unmarshaler
	// Observer counts malformed messages and those that Fallback read, by subject; nil counts
	// nothing.
	Observer marshaler.Observer
}

var _ marshaler.Fitter = Marshaler{}

// Validate reports everything that is wrong with m.
func (m Marshaler) Validate() error {
	return errors.Join(
		marshaler.ValidateDefaults(m.wire(0).Defaults),
		marshaler.ValidateLimit("MaxMessageBytes", m.MaxMessageBytes),
	)
}

// wire is for a message whose headers take fixed bytes beside those of the attributes.
func (m Marshaler) wire(fixed int64) marshaler.Wire {
	w := marshaler.Wire{
		Defaults: envelope.Defaults{
			SourceID: m.Source, TenantID: m.Tenant, ContentType: m.ContentType,
			Instance: m.Instance, Region: m.Region,
		},
		Ordered:           m.Ordered,
		Native:            native,
		Carries:           carries,
		TenantAlways:      true,
		MaxAttributeBytes: MaxHeaderBytes - fixed,
		PerAttribute:      headerOverhead,
		PerMessage:        fixed,
		MaxMessageBytes:   m.MaxMessageBytes,
		Observer:          m.Observer,
	}
	if w.MaxMessageBytes <= 0 {
		w.MaxMessageBytes = DefaultMaxMessageBytes
	}
	return w
}

// fixed is what the headers take beside the attributes.
func (m Marshaler) fixed(topic string, msg *message.Message) int64 {
	n := int64(len(headerLine) + len(lineEnd))
	if id := m.idSize(topic, msg); id > 0 {
		n += int64(len(nats.MsgIdHdr)+id) + headerOverhead
	}
	return n
}

// Prepare implements [marshaler.Sealer]. Headers that are too large are found here.
func (m Marshaler) Prepare(topic string, msg *message.Message) (*message.Message, error) {
	prepared, _, err := m.prepare(topic, msg)
	return prepared, err
}

// prepare also measures, with the body inline.
func (m Marshaler) prepare(topic string, msg *message.Message) (*message.Message, marshaler.Size, error) {
	// How much room the id takes matters only to a malformed message, which has it already.
	fixed := int64(0)
	if envelope.IsMalformed(msg) {
		fixed = m.fixed(topic, msg)
	}
	w := m.wire(fixed)
	prepared, err := w.Prepare(msg)
	if err != nil {
		return nil, marshaler.Size{}, err
	}
	fixed = m.fixed(topic, prepared)
	w = m.wire(fixed)
	size := w.Size(prepared, "")
	if header := size.Attributes + fixed; header > MaxHeaderBytes {
		return nil, size, &envelope.TooLargeError{Size: header, Max: MaxHeaderBytes, What: "header"}
	}
	return prepared, size, nil
}

// Size implements [marshaler.Sealer]. With a DeduplicationID of your own, it allocates what
// that does.
func (m Marshaler) Size(topic string, prepared *message.Message, tenant string) (inline, claim, limit int64) {
	w := m.wire(m.fixed(topic, prepared))
	s := w.Size(prepared, tenant)
	return s.Inline, s.Claim, w.MaxMessageBytes
}

// Fits implements [marshaler.Fitter]. With a DeduplicationID of your own, it allocates what
// that does.
func (m Marshaler) Fits(topic string, prepared *message.Message) bool {
	w := m.wire(m.fixed(topic, prepared))
	return w.Fits(prepared)
}

// Marshal seals msg into a message for the subject topic. Its errors are permanent: an
// [envelope.TooLargeError] or an [envelope.Error].
func (m Marshaler) Marshal(topic string, msg *message.Message) (*nats.Msg, error) {
	prepared, size, err := m.prepare(topic, msg)
	if err != nil {
		return nil, err
	}
	w := m.wire(m.fixed(topic, prepared))
	if err := w.Check(size); err != nil {
		return nil, err
	}
	sealed, err := w.Seal(prepared, size)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{
		Subject: topic,
		Header:  header(m.id(topic, prepared), sealed.Attributes),
		Data:    sealed.Body,
	}, nil
}

// header returns the headers, whose values are one allocation.
func header(id string, attributes []marshaler.Attribute) nats.Header {
	h := make(nats.Header, 1+len(attributes))
	values := make([]string, 0, 1+len(attributes))
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	if id != "" {
		set(nats.MsgIdHdr, id)
	}
	for _, a := range attributes {
		set(a.Name, a.Value)
	}
	return h
}

// The form of an id that a header cannot hold.
const (
	digestPrefix = "sha256:"
	digestSize   = len(digestPrefix) + 2*sha256.Size
)

// id is the Nats-Msg-Id of a prepared message; "" is none.
func (m Marshaler) id(topic string, prepared *message.Message) string {
	var id string
	if m.DeduplicationID != nil && !envelope.IsMalformed(prepared) {
		id = m.DeduplicationID(topic, prepared)
	} else {
		id = envelope.PublishID(prepared, topic)
	}
	if holds(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return digestPrefix + hex.EncodeToString(sum[:])
}

// idSize is the length of id, without making it.
func (m Marshaler) idSize(topic string, prepared *message.Message) int {
	malformed := envelope.IsMalformed(prepared)
	if m.DeduplicationID != nil && !malformed {
		return len(m.id(topic, prepared))
	}
	const (
		replayed = len(":replay:")
		received = len(":") + 16 // digits of a digest
	)
	size, first, last := len(prepared.UUID), prepared.UUID, prepared.UUID
	if replay := prepared.Metadata[envelope.MetadataReplayID]; replay != "" && !malformed {
		size, last = size+replayed+len(replay), replay
	}
	ok := !hasLineEnd(first) && !hasLineEnd(last) && !startsBlank(first)
	if prepared.Metadata[envelope.MetadataReceipt] != "" {
		size += received
	} else {
		ok = ok && !endsBlank(last)
	}
	if !ok {
		return digestSize
	}
	return size
}
