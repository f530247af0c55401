package amqpwire_test

import (
	"strconv"
	"testing"

	amqp3 "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"

	"github.com/watermill-envelope/envelope/bus/amqpwire"
	"github.com/watermill-envelope/envelope/internal/sidebyside"
)

// BenchmarkSideBySide sets the marshaler beside Watermill's, which copies metadata into headers.
// To reach: at most 1.5 times stock.
func BenchmarkSideBySide(b *testing.B) {
	for name, headers := range map[string]int{"headers=0": 0, "headers=4": 4, "headers=16": 16} {
		msg := open("hexeract_reply_to", "amq.gen-x")
		for i := range headers {
			msg.Metadata["header-"+strconv.Itoa(i)] = "a value of some thirty-two bytes"
		}
		ways := func(f func(amqp3.Marshaler) func() error) []sidebyside.Way {
			return []sidebyside.Way{{Name: "ours", F: f(amqpwire.Marshaler{})}, {Name: "stock", F: f(amqp3.DefaultMarshaler{})}}
		}
		b.Run("marshal/"+name, func(b *testing.B) {
			sidebyside.Run(b, ways(func(m amqp3.Marshaler) func() error {
				return func() error { _, err := m.Marshal(msg); return err }
			}), 64)
		})
		b.Run("unmarshal/"+name, func(b *testing.B) {
			sidebyside.Run(b, ways(func(m amqp3.Marshaler) func() error {
				p, err := m.Marshal(msg)
				if err != nil {
					b.Fatal(err)
				}
				d := delivered(p)
				return func() error { _, err := m.Unmarshal(d); return err }
			}), 64)
		})
	}
}
