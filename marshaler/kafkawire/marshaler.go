// Package kafkawire seals and opens messages of Kafka. [Marshaler] is the Marshaler and the
// Unmarshaler of github.com/ThreeDotsLabs/watermill-kafka/v3, and can be used with sarama
// alone:
//
//	m := kafkawire.Marshaler{Source: "orders", Fallback: kafka.DefaultMarshaler{}}
//	pub, err := kafka.NewPublisher(kafka.PublisherConfig{Brokers: b, Marshaler: m}, log)
//	sub, err := kafka.NewSubscriber(kafka.SubscriberConfig{Brokers: b, Unmarshaler: m, ConsumerGroup: "g"}, log)
//
// Set it explicitly: watermill-kafka from v3.1 on uses Watermill's own format, without a
// word, where none is given.
//
// # On the wire
//
// The value is the JSON, the key the lane key, and the headers are the attributes in their
// order, then the user's metadata sorted by name. The timestamp is the hook's ReceivedAt
// where that lies between 1970 and five minutes from now and the hook is no replay, else the
// time of publishing: brokers refuse records from the future, and retention deletes old ones
// at once.
//
// Ankusa's own producer hashes keys in another way, so that one key lands on different
// partitions when both write to a topic.
package kafkawire

import (
	"errors"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
)

// DefaultMaxMessageBytes is the limit when none is given: a little less than the defaults of
// sarama (1,048,576) and of brokers (1,048,588, for a whole batch).
const DefaultMaxMessageBytes = 1_000_000

// What sarama counts for a record, and for each of its headers, beside the bytes that it is
// given: see ProducerMessage.ByteSize.
const (
	recordOverhead = 36
	headerOverhead = 10
)

// Unmarshaler is what a Fallback has to be: the Unmarshaler of watermill-kafka.
type Unmarshaler interface {
	Unmarshal(*sarama.ConsumerMessage) (*message.Message, error)
}

// A Marshaler seals messages into records and opens records. Its zero value is ready to use:
// it refuses to publish a message that has no source. It may be used by several goroutines
// at once.
type Marshaler struct {
	// Source, Tenant, ContentType, Instance and Region fill in what a message lacks that
	// carries no envelope. They never override what it has.
	Source, Tenant, ContentType, Instance, Region string
	// Ordered writes the lane key ("tenant/source") as ordering key on messages that have
	// none.
	Ordered bool
	// MaxMessageBytes is the most that is sent, counted as sarama counts: value and key, 36
	// bytes, and for every header its name, its value and 10 bytes. 0 is
	// [DefaultMaxMessageBytes]. It must not be over sarama's Producer.MaxMessageBytes.
	MaxMessageBytes int64
	// Key chooses the record key of a message that is as it will be sealed; an empty key is
	// no key. nil is the lane key: the ordering key, else "tenant/source". It is not asked
	// for a malformed message, which keeps the key that it came with.
	Key func(topic string, msg *message.Message) string
	// Fallback reads records that are not ours, for a topic that still holds messages of
	// another format: the Unmarshaler that was used until now. nil: they are malformed. It
	// is asked when the value is refused and no header is called ankusa_message_version.
	Fallback Unmarshaler
	// Observer counts malformed messages and those that Fallback read; nil counts nothing.
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
		Native:          anything,
		TenantAlways:    true,
		PerAttribute:    headerOverhead,
		PerMessage:      recordOverhead,
		MaxMessageBytes: m.MaxMessageBytes,
		Observer:        m.Observer,
	}
	if w.MaxMessageBytes <= 0 {
		w.MaxMessageBytes = DefaultMaxMessageBytes
	}
	return w
}

// anything is what a record header can hold: names and values are bytes of any length.
func anything(_, _ string) bool { return true }

// Prepare implements [marshaler.Sealer].
func (m Marshaler) Prepare(_ string, msg *message.Message) (*message.Message, error) {
	w := m.wire()
	w.PerMessage += int64(len(msg.Metadata[envelope.MetadataKey]))
	return w.Prepare(msg)
}

// Size implements [marshaler.Sealer]. With a Key of your own, it allocates what that does.
func (m Marshaler) Size(topic string, prepared *message.Message, tenant string) (inline, claim, limit int64) {
	w := m.wire()
	w.PerMessage += m.keySize(topic, prepared)
	s := w.Size(prepared, tenant)
	return s.Inline, s.Claim, w.MaxMessageBytes
}

// Fits implements [marshaler.Fitter]. With a Key of your own, it allocates what that does.
func (m Marshaler) Fits(topic string, prepared *message.Message) bool {
	w := m.wire()
	if m.Key != nil {
		w.PerMessage += m.keySize(topic, prepared)
	}
	return w.Fits(prepared)
}

// Marshal seals msg into a record for topic. Its errors are permanent: an
// [envelope.TooLargeError] or an [envelope.Error].
func (m Marshaler) Marshal(topic string, msg *message.Message) (*sarama.ProducerMessage, error) {
	prepared, err := m.Prepare(topic, msg)
	if err != nil {
		return nil, err
	}
	w := m.wire()
	key := m.key(topic, prepared)
	w.PerMessage += int64(len(key))
	size := w.Size(prepared, "")
	if err := w.Check(size); err != nil {
		return nil, err
	}
	sealed, err := w.Seal(prepared, size)
	if err != nil {
		return nil, err
	}
	record := &sarama.ProducerMessage{
		Topic:     topic,
		Timestamp: timestamp(prepared, time.Now()),
		Headers:   headers(sealed.Attributes),
	}
	if key != "" {
		record.Key = sarama.StringEncoder(key)
	}
	if !isTombstone(prepared) {
		record.Value = sarama.ByteEncoder(sealed.Body)
	}
	return record, nil
}

// headers returns the attributes as record headers, whose bytes are one allocation.
func headers(attributes []marshaler.Attribute) []sarama.RecordHeader {
	size := 0
	for _, a := range attributes {
		size += len(a.Name) + len(a.Value)
	}
	room := make([]byte, 0, size)
	cut := func(s string) []byte {
		start := len(room)
		room = append(room, s...)
		return room[start:len(room):len(room)]
	}
	list := make([]sarama.RecordHeader, len(attributes))
	for i, a := range attributes {
		list[i] = sarama.RecordHeader{Key: cut(a.Name), Value: cut(a.Value)}
	}
	return list
}

func (m Marshaler) key(topic string, prepared *message.Message) string {
	switch {
	case envelope.IsMalformed(prepared):
		return prepared.Metadata[envelope.MetadataKey]
	case m.Key != nil:
		return m.Key(topic, prepared)
	default:
		return envelope.LaneKeyOf(prepared)
	}
}

// keySize is the length of key, without making it.
func (m Marshaler) keySize(topic string, prepared *message.Message) int64 {
	if m.Key != nil || envelope.IsMalformed(prepared) {
		return int64(len(m.key(topic, prepared)))
	}
	if key := prepared.Metadata[envelope.MetadataOrderingKey]; key != "" {
		return int64(len(key))
	}
	return int64(len(prepared.Metadata[envelope.MetadataTenantID]) + len("/") +
		len(prepared.Metadata[envelope.MetadataSourceID]))
}
