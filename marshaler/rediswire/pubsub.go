package rediswire

import (
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
)

// PubSubUnmarshaler is what the Fallback of a [PubSubMarshaler] has to be: that of package
// transport/redispubsub.
type PubSubUnmarshaler interface {
	Unmarshal(channel string, payload []byte) (*message.Message, error)
}

// A PubSubMarshaler seals messages for PUBLISH and opens what SUBSCRIBE brings. Its zero value
// is ready to use: it refuses to publish a message that has no source. It may be used by
// several goroutines at once.
//
// A channel carries nothing beside the JSON. All metadata of the user are in it; a message
// that cannot be read is passed on as its bytes alone, so poison reasons do not go with it.
type PubSubMarshaler struct {
	// Source, Tenant, ContentType, Instance and Region fill in what a message lacks that
	// carries no envelope. They never override what it has.
	Source, Tenant, ContentType, Instance, Region string
	// Ordered writes the lane key ("tenant/source") as ordering key on messages that have
	// none.
	Ordered bool
	// MaxMessageBytes is the most that is sent, counted as Redis counts: the JSON. 0 is
	// [DefaultMaxMessageBytes]. It must not be over proto-max-bulk-len, and a subscriber is
	// cut off when more waits for it than client-output-buffer-limit says (32 MiB).
	MaxMessageBytes int64
	// Fallback reads messages that are not ours, for a channel that other programs publish
	// to as well. nil: they are malformed. It is asked about everything that is refused: there
	// is nothing to tell a broken message of ours by.
	Fallback PubSubUnmarshaler
	// Observer counts malformed messages and those that Fallback read, by channel; nil counts
	// nothing.
	Observer marshaler.Observer
}

var _ marshaler.Fitter = PubSubMarshaler{}

// Validate reports everything that is wrong with m.
func (m PubSubMarshaler) Validate() error {
	return errors.Join(
		marshaler.ValidateDefaults(m.wire().Defaults),
		marshaler.ValidateLimit("MaxMessageBytes", m.MaxMessageBytes),
	)
}

func (m PubSubMarshaler) wire() marshaler.Wire {
	w := marshaler.Wire{
		Defaults: envelope.Defaults{
			SourceID: m.Source, TenantID: m.Tenant, ContentType: m.ContentType,
			Instance: m.Instance, Region: m.Region,
		},
		Ordered:         m.Ordered,
		Apart:           true, // there are no attributes, so they do not count
		MaxMessageBytes: m.MaxMessageBytes,
		Observer:        m.Observer,
	}
	if w.MaxMessageBytes <= 0 {
		w.MaxMessageBytes = DefaultMaxMessageBytes
	}
	return w
}

// Prepare implements [marshaler.Sealer].
func (m PubSubMarshaler) Prepare(_ string, msg *message.Message) (*message.Message, error) {
	w := m.wire()
	return w.Prepare(msg)
}

// Size implements [marshaler.Sealer].
func (m PubSubMarshaler) Size(_ string, prepared *message.Message, tenant string) (inline, claim, limit int64) {
	w := m.wire()
	s := w.Size(prepared, tenant)
	return s.Inline, s.Claim, w.MaxMessageBytes
}

// Fits implements [marshaler.Fitter].
func (m PubSubMarshaler) Fits(_ string, prepared *message.Message) bool {
	w := m.wire()
	return w.Fits(prepared)
}

// Marshal seals msg. Its errors are permanent: an [envelope.TooLargeError] or an
// [envelope.Error].
func (m PubSubMarshaler) Marshal(_ string, msg *message.Message) ([]byte, error) {
	w := m.wire()
	sealed, err := w.Marshal(msg)
	if err != nil {
		return nil, err
	}
	return sealed.Body, nil
}

// Unmarshal opens a message. Its error is always nil, whatever the message is: one that cannot
// be read is malformed and keeps its bytes.
func (m PubSubMarshaler) Unmarshal(channel string, payload []byte) (*message.Message, error) {
	r := marshaler.Received{Body: payload, Receipt: receipt + "/" + channel, Topic: channel}
	if m.Fallback != nil {
		r.Fallback = func() (*message.Message, error) { return m.Fallback.Unmarshal(channel, payload) }
	}
	w := m.wire()
	return w.Open(r), nil
}
