package googlecloudwire_test

import (
	"testing"

	"cloud.google.com/go/pubsub/v2"
	"github.com/ThreeDotsLabs/watermill-googlecloud/v2/pkg/googlecloud"

	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/internal/sidebyside"
	googlecloudwire "github.com/watermill-envelope/envelope/marshaler/googlecloudwire/v2"
)

// BenchmarkMarshaler sets our marshaler beside Watermill's. There is no target: what ours does
// more is the digest, the JSON and the checks.
func BenchmarkMarshaler(b *testing.B) {
	type both interface {
		googlecloud.Marshaler
		googlecloud.Unmarshaler
	}
	for _, size := range []struct {
		name string
		body int
	}{{"body=1KiB", 1 << 10}, {"body=64KiB", 64 << 10}} {
		msg := hooktest.Message()
		msg.Payload = make([]byte, size.body)
		var to, from []sidebyside.Way
		for name, m := range map[string]both{"ours": googlecloudwire.Marshaler{}, "stock": googlecloud.DefaultMarshalerUnmarshaler{}} {
			out, err := m.Marshal("hooks", msg)
			if err != nil {
				b.Fatal(err)
			}
			in := &pubsub.Message{ID: "7", Data: out.Data, Attributes: out.Attributes}
			to = append(to, sidebyside.Way{Name: name, F: func() error { _, err := m.Marshal("hooks", msg); return err }})
			from = append(from, sidebyside.Way{Name: name, F: func() error { _, err := m.Unmarshal(in); return err }})
		}
		b.Run(size.name+"/op=marshal", func(b *testing.B) { sidebyside.Run(b, to, 100) })
		b.Run(size.name+"/op=unmarshal", func(b *testing.B) { sidebyside.Run(b, from, 100) })
	}
}
