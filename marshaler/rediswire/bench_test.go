package rediswire_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/internal/sidebyside"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
)

// BenchmarkMarshaler sets our marshaler beside Watermill's, which writes metadata as msgpack
// and leaves the payload as it is. There is no target: what ours does more is the digest, the
// JSON and the checks.
func BenchmarkMarshaler(b *testing.B) {
	for _, size := range []struct {
		name string
		body int
	}{{"body=1KiB", 1 << 10}, {"body=64KiB", 64 << 10}} {
		msg := hook()
		msg.Payload = make([]byte, size.body)
		all := []struct {
			name string
			m    redisstream.MarshallerUnmarshaller
		}{{"ours", rediswire.Marshaler{}}, {"stock", stock}}
		var to, from []sidebyside.Way
		for _, w := range all {
			fields, err := w.m.Marshal("hooks", msg)
			if err != nil {
				b.Fatal(err)
			}
			values := stored(b, fields)
			to = append(to, sidebyside.Way{Name: w.name, F: func() error { _, err := w.m.Marshal("hooks", msg); return err }})
			from = append(from, sidebyside.Way{Name: w.name, F: func() error { return read(w.m, values) }})
		}
		b.Run(size.name+"/op=marshal", func(b *testing.B) { sidebyside.Run(b, to, 100) })
		b.Run(size.name+"/op=unmarshal", func(b *testing.B) { sidebyside.Run(b, from, 100) })
	}
}

func read(m redisstream.Unmarshaller, values map[string]any) error {
	var msg *message.Message
	msg, err := m.Unmarshal(values)
	if err == nil {
		msg.Ack()
	}
	return err
}
