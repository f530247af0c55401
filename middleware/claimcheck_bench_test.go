package middleware_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// A kafkaPublisher does what a publisher of Kafka does before it calls the broker.
type kafkaPublisher struct{ kafkawire.Marshaler }

func (p kafkaPublisher) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		if _, err := p.Marshal(topic, msg); err != nil {
			return err
		}
	}
	return nil
}

func (kafkaPublisher) Close() error { return nil }

// noStore is the store of what stays inline.
type noStore struct{ claimcheck.Store }

// benchHook is a webhook as a consumer has it: with 16 provider headers, or as a service
// makes a message: with nothing but its body.
func benchHook(tb testing.TB, body int, received bool) *message.Message {
	msg := message.NewMessage("0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10", make([]byte, body))
	if !received {
		return msg
	}
	e := envelope.Envelope{
		ID: msg.UUID, SourceID: "github", TenantID: "acme", ContentType: "application/json", DedupeKey: "evt_1",
		Body: msg.Payload, Verification: envelope.Verification{Status: "ok"}, Region: "eu-west-1",
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}
	for i := range 16 {
		e.Headers = append(e.Headers, envelope.Header{Name: fmt.Sprintf("x-github-header-%d", i), Value: strings.Repeat("v", 32)})
	}
	wire, err := e.AppendWire(nil)
	if err != nil {
		tb.Fatal(err)
	}
	if msg, err = envelope.Open(wire); err != nil {
		tb.Fatal(err)
	}
	return msg
}

// BenchmarkClaimCheckInline is what a claim check adds to messages that need none: impl=with
// less impl=bare.
func BenchmarkClaimCheckInline(b *testing.B) {
	cc, err := hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: noStore{}})
	if err != nil {
		b.Fatal(err)
	}
	bare := kafkaPublisher{kafkawire.Marshaler{Source: "shop"}}
	with, err := cc.WrapPublisher(bare, bare.Marshaler)
	if err != nil {
		b.Fatal(err)
	}
	for _, kind := range []string{"new", "received"} {
		for _, n := range []int{1, 100} {
			messages := make([]*message.Message, n)
			for i := range messages {
				messages[i] = benchHook(b, 1<<10, kind == "received")
			}
			for name, pub := range map[string]message.Publisher{"bare": bare, "with": with} {
				b.Run(fmt.Sprintf("op=publish/message=%s/n=%d/impl=%s", kind, n, name), func(b *testing.B) {
					b.ReportAllocs()
					for i := 0; i < b.N; i += n {
						if err := pub.Publish("hooks", messages...); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
	msg := benchHook(b, 1<<10, true)
	for name, h := range map[string]message.HandlerFunc{
		"bare": message.PassthroughHandler, "with": cc.Middleware(message.PassthroughHandler),
	} {
		b.Run("op=handle/impl="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := h(msg); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
