package middleware_test

import (
	"strconv"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/inbox"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// What Deduplicate adds to a handler, with a Memory: a message that is new, one that is not, and
// the key alone.
func BenchmarkDeduplicate(b *testing.B) {
	m, err := inbox.NewMemory(inbox.MemoryConfig{})
	if err != nil {
		b.Fatal(err)
	}
	d, err := hookmw.NewDeduplicate(hookmw.DeduplicateConfig{Seen: m, Scope: "orders"})
	if err != nil {
		b.Fatal(err)
	}
	h := d.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil })
	msg := open("{}", envelope.MetadataID, dedupeID, envelope.MetadataSourceID, "shop", envelope.MetadataTenantID, "acme")
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			msg.Metadata[envelope.MetadataDedupeKey] = strconv.Itoa(n)
			if _, err := h(msg); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("duplicate", func(b *testing.B) {
		msg.Metadata[envelope.MetadataDedupeKey] = "again"
		b.ReportAllocs()
		for b.Loop() {
			if _, err := h(msg); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("key", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := hookmw.DeduplicationKey(msg); err != nil {
				b.Fatal(err)
			}
		}
	})
}
