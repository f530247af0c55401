// Package sqswire seals and opens messages of Amazon SQS. [Marshaler] is the Marshaler and the
// Unmarshaler of package sqs of github.com/ThreeDotsLabs/watermill-aws, whose configurations
// [PublisherConfig] and [SubscriberConfig] fill in:
//
//	m := sqswire.Marshaler{Source: "orders"}
//	pub, err := sqs.NewPublisher(sqswire.PublisherConfig(cfg, m), log)
//	sub, err := sqs.NewSubscriber(sqswire.SubscriberConfig(cfg, m), log)
//
// With the Marshaler alone a FIFO queue is not told the group, since watermill-aws sends it only
// what its GenerateSendMessageInput knows of.
//
// # On the wire
//
// The body is the JSON. The message attributes are the attributes of the wire format, of the
// type String, without those that are empty. SQS takes ten and there can be eleven: tracestate
// gives way, which is in the JSON too, and so does an attribute with characters that SQS
// refuses. The metadata of the user are in the JSON.
//
// A FIFO queue, whose URL ends in .fifo, is told the lane key as MessageGroupId, and the id of
// [envelope.PublishID] as MessageDeduplicationId: a message that was received never goes out
// again under the id that it came with, so that a redrive or a requeue into the queue that it
// came from is stored, and a handler that runs twice for one delivery publishes once. Ids that
// SQS does not take, of more than 128 bytes or with other characters than those of ASCII that
// can be seen, are replaced by their digest.
package sqswire

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
)

const (
	// DefaultMaxMessageBytes is the limit when none is given: that of SQS.
	DefaultMaxMessageBytes = 1 << 20
	// MaxAttributes is how many message attributes SQS takes.
	MaxAttributes = 10
)

// Unmarshaler is what a Fallback has to be: the Unmarshaler of watermill-aws.
type Unmarshaler interface {
	Unmarshal(*types.Message) (*message.Message, error)
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
	// MaxMessageBytes is the most that is sent, counted as SQS counts: the body, and of each
	// attribute the name, the type and the value. 0 is [DefaultMaxMessageBytes]. It must not
	// be over MaximumMessageSize of the queue, which is 262,144 for older ones.
	MaxMessageBytes int64
	// GroupID chooses the MessageGroupId of a message that is as it will be sealed; an empty
	// one is none, which FIFO queues refuse. nil is the lane key: the ordering key, else
	// "tenant/source". It is not asked for a malformed message, which keeps the group that it
	// came with.
	GroupID func(msg *message.Message) string
	// DeduplicationID chooses the MessageDeduplicationId of a message that is as it will be
	// sealed; an empty one is none, which FIFO queues take only with
	// ContentBasedDeduplication. It must be the same whenever the same message is published
	// again, and another for every other. nil is [envelope.PublishID]. It is not asked for a
	// malformed message.
	DeduplicationID func(msg *message.Message) string
	// Fair tells standard queues the group too, for which they are fair then. FIFO queues
	// are always told.
	Fair bool
	// Fallback reads messages that are not ours, for a queue in which there still are
	// messages of another format: the Unmarshaler that was used until now. nil: they are
	// malformed. It is asked when the body is refused and no attribute is called
	// ankusa_message_version.
	Fallback Unmarshaler
	// Observer counts malformed messages and those that Fallback read; nil counts nothing.
	// The topic that it is told is empty, since a message does not say where it lay.
	Observer marshaler.Observer
}

var _ marshaler.Fitter = Marshaler{}

// Validate reports everything that is wrong with m.
func (m Marshaler) Validate() error {
	w := m.wire()
	return errors.Join(
		marshaler.ValidateDefaults(w.Defaults),
		marshaler.ValidateLimit("MaxMessageBytes", m.MaxMessageBytes),
	)
}

func (m Marshaler) wire() marshaler.Wire {
	w := marshaler.Wire{
		Defaults: envelope.Defaults{
			SourceID: m.Source, TenantID: m.Tenant, ContentType: m.ContentType,
			Instance: m.Instance, Region: m.Region,
		},
		Ordered:             m.Ordered,
		Passes:              isAttribute,
		Text:                isBody,
		Carries:             func(_, value string) bool { return isText(value) },
		EscapeNoncharacters: true,
		MaxAttributes:       MaxAttributes,
		PerAttribute:        int64(len(dataType)),
		MaxMessageBytes:     m.MaxMessageBytes,
		Observer:            m.Observer,
	}
	if w.MaxMessageBytes <= 0 {
		w.MaxMessageBytes = DefaultMaxMessageBytes
	}
	return w
}

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

// Marshal seals msg. MessageGroupId and MessageDeduplicationId are in Attributes, for a
// GenerateSendMessageInput such as that of [PublisherConfig]. Its errors are permanent: an
// [envelope.TooLargeError] or an [envelope.Error].
func (m Marshaler) Marshal(msg *message.Message) (*types.Message, error) {
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
	body := string(sealed.Body)
	out := &types.Message{
		Body:              &body,
		MessageAttributes: attributes(sealed.Attributes),
		Attributes:        make(map[string]string, 2),
	}
	if group := m.group(prepared); group != "" {
		out.Attributes[groupID] = group
	}
	if id := m.id(prepared); id != "" {
		out.Attributes[deduplicationID] = id
	}
	return out, nil
}

// attributes returns the message attributes, whose values are one allocation.
func attributes(list []marshaler.Attribute) map[string]types.MessageAttributeValue {
	if len(list) == 0 {
		return nil
	}
	kind := dataType
	all := make(map[string]types.MessageAttributeValue, len(list))
	for i := range list {
		all[list[i].Name] = types.MessageAttributeValue{DataType: &kind, StringValue: &list[i].Value}
	}
	return all
}

// dataType is the type of our attributes.
const dataType = "String"

const (
	groupID         = string(types.MessageSystemAttributeNameMessageGroupId)
	deduplicationID = string(types.MessageSystemAttributeNameMessageDeduplicationId)
)

// malformedGroup is the group of malformed messages that came without one.
const malformedGroup = "malformed"

// group is the MessageGroupId of a prepared message.
func (m Marshaler) group(prepared *message.Message) string {
	switch {
	case envelope.IsMalformed(prepared):
		if key := prepared.Metadata[envelope.MetadataKey]; key != "" {
			return token(key)
		}
		return malformedGroup
	case m.GroupID != nil:
		return token(m.GroupID(prepared))
	}
	return token(envelope.LaneKeyOf(prepared))
}

// id is the MessageDeduplicationId of a prepared message.
func (m Marshaler) id(prepared *message.Message) string {
	if m.DeduplicationID != nil && !envelope.IsMalformed(prepared) {
		return token(m.DeduplicationID(prepared))
	}
	return token(envelope.PublishID(prepared, ""))
}

// token returns an id as SQS takes it: itself or its digest. An empty one stays empty.
func token(id string) string {
	const longest = 128
	ok := len(id) <= longest
	for i := 0; i < len(id) && ok; i++ {
		ok = '!' <= id[i] && id[i] <= '~'
	}
	if ok {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}
