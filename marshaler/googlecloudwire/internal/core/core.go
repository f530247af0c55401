// Package core seals and opens messages of Google Pub/Sub for both of its clients, whose types
// differ in nothing but their packages.
package core

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
)

// The limits of Pub/Sub (https://cloud.google.com/pubsub/quotas#resource_limits).
const (
	// DefaultMaxMessageBytes is the size of a publish request, in which a message may be alone.
	DefaultMaxMessageBytes = 10_000_000
	maxAttributes          = 100
	maxName                = 256
	maxValue               = 1024
	maxOrderingKey         = 1024

	// What the request takes beside what it holds: the full name of the topic (project and
	// topic, of at most 255 bytes) and the fields around; and the three fields of an
	// attribute, with a length of one or two bytes each.
	perMessage   = 512
	perAttribute = 9
)

// Options are the fields of both Marshalers, with their meaning.
type Options struct {
	Source, Tenant, ContentType, Instance, Region string
	Ordered                                       bool
	MaxMessageBytes                               int64
	OrderingKey                                   func(topic string, msg *message.Message) string
	Observer                                      marshaler.Observer
}

// A Message is one of either client.
type Message struct {
	Data        []byte
	Attributes  map[string]string
	OrderingKey string
}

// Validate reports everything that is wrong with o.
func (o Options) Validate() error {
	return errors.Join(
		marshaler.ValidateDefaults(o.wire(0).Defaults),
		marshaler.ValidateLimit("MaxMessageBytes", o.MaxMessageBytes),
	)
}

// wire is for a message with an ordering key of this many bytes.
func (o Options) wire(key int) marshaler.Wire {
	w := marshaler.Wire{
		Defaults: envelope.Defaults{
			SourceID: o.Source, TenantID: o.Tenant, ContentType: o.ContentType,
			Instance: o.Instance, Region: o.Region,
		},
		Ordered:         o.Ordered,
		Native:          native,
		Carries:         carries,
		Text:            notEmpty,
		MaxAttributes:   maxAttributes,
		PerAttribute:    perAttribute,
		PerMessage:      perMessage + int64(key),
		MaxMessageBytes: o.MaxMessageBytes,
		Observer:        o.Observer,
	}
	if w.MaxMessageBytes <= 0 {
		w.MaxMessageBytes = DefaultMaxMessageBytes
	}
	return w
}

// native reports whether an attribute holds this entry. Names that begin with goog are
// Google's. A malformed message may have metadata that are no text, which gRPC refuses.
func native(name, value string) bool {
	const reserved = "goog"
	return name != "" && len(name) <= maxName && (len(name) < len(reserved) || !strings.EqualFold(name[:len(reserved)], reserved)) &&
		value != "" && carries(name, value) && utf8.ValidString(name) && utf8.ValidString(value)
}

func carries(_, value string) bool { return len(value) <= maxValue }

// notEmpty reports whether a message may have this for data: an empty one needs attributes.
func notEmpty(raw []byte) bool { return len(raw) > 0 }

// Prepare is that of a [marshaler.Sealer].
func (o Options) Prepare(topic string, msg *message.Message) (*message.Message, error) {
	// How much room the key takes matters only to a malformed message, which has its own.
	key := 0
	if envelope.IsMalformed(msg) {
		key = len(o.orderingKey(topic, msg))
	}
	w := o.wire(key)
	return w.Prepare(msg)
}

// Size is that of a [marshaler.Sealer].
func (o Options) Size(topic string, prepared *message.Message, tenant string) (inline, claim, limit int64) {
	w := o.wire(len(o.orderingKey(topic, prepared)))
	s := w.Size(prepared, tenant)
	return s.Inline, s.Claim, w.MaxMessageBytes
}

// Fits is that of a [marshaler.Fitter].
func (o Options) Fits(topic string, prepared *message.Message) bool {
	w := o.wire(len(o.orderingKey(topic, prepared)))
	return w.Fits(prepared)
}

// Marshal seals msg.
func (o Options) Marshal(topic string, msg *message.Message) (Message, error) {
	prepared, err := o.Prepare(topic, msg)
	if err != nil {
		return Message{}, err
	}
	key := o.orderingKey(topic, prepared)
	w := o.wire(len(key))
	size := w.Size(prepared, "")
	if err := w.Check(size); err != nil {
		return Message{}, err
	}
	sealed, err := w.Seal(prepared, size)
	if err != nil {
		return Message{}, err
	}
	attributes := make(map[string]string, len(sealed.Attributes))
	for _, a := range sealed.Attributes {
		attributes[a.Name] = a.Value
	}
	return Message{Data: sealed.Body, Attributes: attributes, OrderingKey: key}, nil
}

// orderingKey is the key of a prepared message: the digest of one that is too long.
func (o Options) orderingKey(topic string, prepared *message.Message) string {
	var key string
	switch {
	case envelope.IsMalformed(prepared):
		key = prepared.Metadata[envelope.MetadataKey]
	case o.OrderingKey != nil:
		key = o.OrderingKey(topic, prepared)
	default:
		key = prepared.Metadata[envelope.MetadataOrderingKey]
	}
	if len(key) <= maxOrderingKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Unmarshal opens a message that the server calls id. It never fails.
func (o Options) Unmarshal(m Message, id string, fallback func() (*message.Message, error)) *message.Message {
	r := marshaler.Received{
		Body:     m.Data,
		Native:   all(m.Attributes),
		ID:       id,
		Key:      m.OrderingKey,
		Receipt:  id,
		Fallback: fallback,
	}
	if r.Receipt == "" {
		// Not from a server, which names every message: a copy of its own.
		r.Receipt = "pubsub/" + envelope.NewID()
	}
	w := o.wire(0)
	return w.Open(r)
}

func all(attributes map[string]string) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		for name, value := range attributes {
			if !yield(name, value) {
				return
			}
		}
	}
}
