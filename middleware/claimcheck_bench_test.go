package middleware_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

// benchHook is a message of 1 KiB: as a service makes one, with nothing but its body, or as a
// consumer has one, with that many headers of its provider.
func benchHook(tb testing.TB, received bool, headers int) *message.Message {
	msg := message.NewMessage("0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10", make([]byte, 1<<10))
	if !received {
		return msg
	}
	e := envelope.Envelope{
		ID: msg.UUID, SourceID: "github", TenantID: "acme", ContentType: "application/json", DedupeKey: "evt_1",
		Body: msg.Payload, Verification: envelope.Verification{Status: "ok"}, Region: "eu-west-1",
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}
	for i := range headers {
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

// inlineCases are what a claim check is measured with where it has nothing to do.
var inlineCases = []struct {
	name     string
	received bool
	headers  int
}{{"new", false, 0}, {"received,headers=0", true, 0}, {"received,headers=4", true, 4}, {"received,headers=16", true, 16}}

// inlinePublishers are a publisher of Kafka without its broker, and the same behind a claim
// check.
func inlinePublishers(tb testing.TB) (bare, with message.Publisher, cc *hookmw.ClaimCheck) {
	cc = claimCheck(tb, hookmw.ClaimCheckConfig{Store: noStore{}})
	b := kafkaPublisher{kafkawire.Marshaler{Source: "shop"}}
	return b, wrap(tb, cc, b, b.Marshaler), cc
}

// BenchmarkClaimCheckInline is what a claim check adds to messages that need none: for each
// message, in the best of many rounds with and without it in turn. The round is of 100
// messages, in calls of n.
func BenchmarkClaimCheckInline(b *testing.B) {
	bare, with, cc := inlinePublishers(b)
	compare := func(b *testing.B, round func(with bool)) {
		best := map[bool]time.Duration{false: time.Hour, true: time.Hour}
		for b.Loop() {
			for _, with := range []bool{false, true} {
				start := time.Now()
				round(with)
				best[with] = min(best[with], time.Since(start))
			}
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(best[false])/100, "bare-ns")
		b.ReportMetric(float64(best[true]-best[false])/100, "added-ns")
		b.ReportMetric((testing.AllocsPerRun(10, func() { round(true) })-testing.AllocsPerRun(10, func() { round(false) }))/100, "added-allocs")
	}
	for _, c := range inlineCases {
		for _, n := range []int{1, 100} {
			messages := make([]*message.Message, n)
			for i := range messages {
				messages[i] = benchHook(b, c.received, c.headers)
			}
			b.Run(fmt.Sprintf("op=publish/message=%s/n=%d", c.name, n), func(b *testing.B) {
				compare(b, func(through bool) {
					pub := bare
					if through {
						pub = with
					}
					for range 100 / n {
						if err := pub.Publish("hooks", messages...); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
		b.Run("op=handle/message="+c.name, func(b *testing.B) {
			msg := benchHook(b, c.received, c.headers)
			handler := func(*message.Message) ([]*message.Message, error) { return nil, nil }
			through := cc.Middleware(handler)
			compare(b, func(with bool) {
				h := handler
				if with {
					h = through
				}
				for range 100 {
					if _, err := h(msg); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// The claim check adds at most one allocation to a message that stays inline: for each call of
// Publish, whatever its messages.
func TestInlineAllocations(t *testing.T) {
	bare, with, cc := inlinePublishers(t)
	for _, c := range inlineCases {
		for _, n := range []int{1, 10} {
			messages := make([]*message.Message, n)
			for i := range messages {
				messages[i] = benchHook(t, c.received, c.headers)
			}
			allocs := func(pub message.Publisher) float64 {
				return testing.AllocsPerRun(100, func() {
					if err := pub.Publish("hooks", messages...); err != nil {
						t.Fatal(err)
					}
				})
			}
			if added := allocs(with) - allocs(bare); added > 1 {
				t.Errorf("%s, n=%d: %v allocations more", c.name, n, added)
			}
		}
		msg := benchHook(t, c.received, c.headers)
		h := cc.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil })
		if added := testing.AllocsPerRun(100, func() { _, _ = h(msg) }); added > 0 {
			t.Errorf("%s: handled with %v allocations", c.name, added)
		}
	}
}
