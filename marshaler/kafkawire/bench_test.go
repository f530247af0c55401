package kafkawire_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

// BenchmarkMarshaler sets our marshaler beside Watermill's, which copies metadata into
// headers and leaves the payload as it is. There is no target: what ours does more is the
// digest, the JSON and the checks.
func BenchmarkMarshaler(b *testing.B) {
	for _, size := range []struct {
		name string
		body int
	}{{"body=1KiB", 1 << 10}, {"body=64KiB", 64 << 10}} {
		msg := hook()
		msg.Payload = make([]byte, size.body)
		for impl, m := range map[string]kafka.MarshalerUnmarshaler{
			"ours": kafkawire.Marshaler{}, "stock": kafka.DefaultMarshaler{},
		} {
			b.Run(size.name+"/op=marshal/impl="+impl, func(b *testing.B) { benchMarshal(b, m, msg) })
			b.Run(size.name+"/op=unmarshal/impl="+impl, func(b *testing.B) { benchUnmarshal(b, m, msg) })
		}
	}
}

func benchMarshal(b *testing.B, m kafka.Marshaler, msg *message.Message) {
	b.SetBytes(int64(len(msg.Payload)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Marshal("hooks", msg); err != nil {
			b.Fatal(err)
		}
	}
}

func benchUnmarshal(b *testing.B, m kafka.MarshalerUnmarshaler, msg *message.Message) {
	produced, err := m.Marshal("hooks", msg)
	if err != nil {
		b.Fatal(err)
	}
	record := consumed(b, produced)
	b.SetBytes(int64(len(msg.Payload)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Unmarshal(record); err != nil {
			b.Fatal(err)
		}
	}
}
