package natswire_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"

	"github.com/watermill-envelope/envelope/internal/sidebyside"
	"github.com/watermill-envelope/envelope/marshaler/natswire"
)

// BenchmarkMarshaler sets our marshaler beside Watermill's. There is no target: what ours does
// more is the digest, the JSON and the checks; gob and JSON write the payload into their own.
func BenchmarkMarshaler(b *testing.B) {
	for _, size := range []struct {
		name string
		body int
	}{{"body=1KiB", 1 << 10}, {"body=64KiB", 64 << 10}} {
		msg := hook()
		msg.Payload = make([]byte, size.body)
		var to, from []sidebyside.Way
		for name, m := range map[string]nats.MarshalerUnmarshaler{
			"ours": natswire.Marshaler{}, "stock": &nats.NATSMarshaler{}, "gob": nats.GobMarshaler{}, "json": nats.JSONMarshaler{},
		} {
			out, err := m.Marshal("hooks", msg)
			if err != nil {
				b.Fatal(err)
			}
			in := delivered(b, out)
			to = append(to, sidebyside.Way{Name: name, F: func() error { _, err := m.Marshal("hooks", msg); return err }})
			from = append(from, sidebyside.Way{Name: name, F: func() error { _, err := m.Unmarshal(in); return err }})
		}
		b.Run(size.name+"/op=marshal", func(b *testing.B) { sidebyside.Run(b, to, 100) })
		b.Run(size.name+"/op=unmarshal", func(b *testing.B) { sidebyside.Run(b, from, 100) })
	}
}
