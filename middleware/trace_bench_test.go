package middleware_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// traced are the ways to have no SDK.
var traced = []struct {
	name    string
	tracing hookmw.Trace
}{
	{"global", hookmw.Trace{System: "kafka"}},
	{"no-op", hookmw.Trace{System: "kafka", TracerProvider: noop.NewTracerProvider()}},
	{"parent", hookmw.Trace{System: "kafka", TracerProvider: noop.NewTracerProvider(), Parent: true}},
}

// traceMessages are with and without a trace context.
func traceMessages() map[string]*message.Message {
	plain := message.NewMessage(envelope.NewID(), []byte("{}"))
	carrying := plain.Copy()
	carrying.Metadata[envelope.MetadataTraceparent] = parentOf
	stateful := carrying.Copy()
	stateful.Metadata[envelope.MetadataTracestate] = "congo=t61rcWkgMzE"
	return map[string]*message.Message{"nothing": plain, "traceparent": carrying, "tracestate": stateful}
}

func handleNothing(*message.Message) ([]*message.Message, error) { return nil, nil }

// BenchmarkTrace is what tracing costs without an SDK, beside a publisher and a handler that
// do nothing.
func BenchmarkTrace(b *testing.B) {
	for _, name := range []string{"nothing", "traceparent", "tracestate"} {
		publish := func(pub message.Publisher) func(b *testing.B) {
			return func(b *testing.B) {
				msg := traceMessages()[name]
				b.ReportAllocs()
				for b.Loop() {
					if err := pub.Publish("hooks", msg); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		handle := func(h message.HandlerFunc) func(b *testing.B) {
			return func(b *testing.B) {
				msg := traceMessages()[name]
				ctx := msg.Context()
				b.ReportAllocs()
				for b.Loop() {
					msg.SetContext(ctx)
					if _, err := h(msg); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		nowhere := publisherFunc(func(*message.Message) {})
		b.Run("publish/"+name+"/bare", publish(nowhere))
		b.Run("handle/"+name+"/bare", handle(handleNothing))
		for _, t := range traced {
			b.Run("publish/"+name+"/"+t.name, publish(t.tracing.WrapPublisher(nowhere)))
			b.Run("handle/"+name+"/"+t.name, handle(t.tracing.Middleware(handleNothing)))
		}
	}
}

// Without an SDK nothing is allocated but the context that a message came with, in the
// context that its handler is given.
func TestTraceAllocations(t *testing.T) {
	handling := map[string]float64{"nothing": 0, "traceparent": 2, "tracestate": 3}
	for _, tt := range traced {
		for name, msg := range traceMessages() {
			messages := []*message.Message{msg}
			pub := tt.tracing.WrapPublisher(publisherFunc(func(*message.Message) {}))
			h := tt.tracing.Middleware(handleNothing)
			ctx := msg.Context()
			published := testing.AllocsPerRun(100, func() {
				if err := pub.Publish("hooks", messages...); err != nil {
					t.Fatal(err)
				}
			})
			handled := testing.AllocsPerRun(100, func() {
				msg.SetContext(ctx)
				if _, err := h(msg); err != nil {
					t.Fatal(err)
				}
			})
			if published > 0 || handled > handling[name] {
				t.Errorf("%s, %s: %v allocations to publish, and %v to handle, want at most %v", name, tt.name, published, handled, handling[name])
			}
		}
	}
}
