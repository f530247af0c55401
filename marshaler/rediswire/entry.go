package rediswire

import (
	"fmt"
	"iter"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/marshaler"
)

// stockMetadata is the field in which the stock marshaler keeps all metadata, as msgpack.
const stockMetadata = "metadata"

// Unmarshal opens an entry. Its error is always nil, whatever the entry holds: one that cannot
// be read, or has no payload, is malformed and keeps its bytes and its fields under their
// names, "meta:" included. It is published again with the same fields, to which what was added
// to its metadata (the poison reasons) comes under its plain name; without payload, with an
// empty one.
//
// Fields that begin with "meta:" are metadata of the user, and so are fields of a foreign
// producer without it, which lose to one of the same name with it. The field metadata, in which
// the stock marshaler keeps what is not text, is not. Values are strings; other scalars become
// text, and what is none is dropped.
func (m Marshaler) Unmarshal(values map[string]any) (*message.Message, error) {
	body, _ := text(values[payloadField])
	r := marshaler.Received{
		Body:    []byte(body),
		Native:  metadata(values),
		AsCame:  fields(values),
		Receipt: receipt,
	}
	if m.Fallback != nil {
		r.Fallback = func() (*message.Message, error) { return m.Fallback.Unmarshal(values) }
	}
	w := m.wire()
	return w.Open(r), nil
}

// receipt stands for the entry, whose id is not known here.
const receipt = "redis"

// metadata yields the user's metadata and our attributes, under their own names.
func metadata(values map[string]any) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for name, value := range fields(values) {
			if own, ok := strings.CutPrefix(name, metadataPrefix); ok && !yield(own, value) {
				return
			}
		}
		for name, value := range fields(values) {
			if name != stockMetadata && !strings.HasPrefix(name, metadataPrefix) && !yield(name, value) {
				return
			}
		}
	}
}

// fields yields all fields but the payload.
func fields(values map[string]any) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for name, value := range values {
			if name == payloadField {
				continue
			}
			if s, ok := text(value); ok && !yield(name, s) {
				return
			}
		}
	}
}

// text returns a value as text. go-redis has strings only; others are for who calls us.
func text(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	case bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64:
		return fmt.Sprint(v), true
	default:
		return "", false
	}
}
