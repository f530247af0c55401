package kafkawire

import (
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
)

var errNilRecord = errors.New("kafkawire: nil record")

// Unmarshal opens a record. Its error is always nil, whatever the record holds (a nil record,
// which no broker sends, is an error): one that cannot be read is malformed and keeps its
// bytes, its headers and its key. A record without a value, a tombstone, is malformed too.
//
// Header names keep their case; of several headers of one name the last counts. Headers that
// are not valid UTF-8 are dropped, except those of a malformed message.
func (m Marshaler) Unmarshal(record *sarama.ConsumerMessage) (*message.Message, error) {
	if record == nil {
		return nil, errNilRecord
	}
	r := marshaler.Received{
		Body:    record.Value,
		Native:  native(record.Headers),
		Key:     string(record.Key),
		Receipt: receipt(record),
		Topic:   record.Topic,
	}
	if m.Fallback != nil {
		r.Fallback = func() (*message.Message, error) { return m.Fallback.Unmarshal(record) }
	}
	w := m.wire()
	msg := w.Open(r)
	if record.Value == nil && envelope.IsMalformed(msg) {
		delete(msg.Metadata, envelope.MetadataRaw)
	}
	return msg, nil
}

// isTombstone reports whether a malformed message came without a value, not with an empty one.
func isTombstone(msg *message.Message) bool {
	return envelope.IsMalformed(msg) && envelope.Raw(msg) == nil
}

// native yields the headers from the last to the first. Their text is one allocation.
func native(headers []*sarama.RecordHeader) iter.Seq2[string, string] {
	size := 0
	for _, h := range headers {
		if h != nil {
			size += len(h.Key) + len(h.Value)
		}
	}
	var b strings.Builder
	b.Grow(size)
	for _, h := range headers {
		if h != nil {
			b.Write(h.Key)
			b.Write(h.Value)
		}
	}
	all := b.String()
	return func(yield func(name, value string) bool) {
		rest := all
		for _, h := range slices.Backward(headers) {
			if h == nil {
				continue
			}
			value := rest[len(rest)-len(h.Value):]
			rest = rest[:len(rest)-len(h.Value)]
			name := rest[len(rest)-len(h.Key):]
			rest = rest[:len(rest)-len(h.Key)]
			if !yield(name, value) {
				return
			}
		}
	}
}

// receipt names a record: topic/partition/offset.
func receipt(record *sarama.ConsumerMessage) string {
	b := make([]byte, 0, len(record.Topic)+32)
	b = append(b, record.Topic...)
	b = append(b, '/')
	b = strconv.AppendInt(b, int64(record.Partition), 10)
	b = append(b, '/')
	b = strconv.AppendInt(b, record.Offset, 10)
	return string(b)
}

// timestamp is the time of the record, or the zero time: that of publishing.
func timestamp(prepared *message.Message, now time.Time) time.Time {
	const ahead = 5 * time.Minute
	text := prepared.Metadata[envelope.MetadataReceivedAt]
	if text == "" || prepared.Metadata[envelope.MetadataReplayID] != "" || envelope.IsMalformed(prepared) {
		return time.Time{}
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms > now.Add(ahead).UnixMilli() {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
