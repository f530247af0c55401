package middleware_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// A span that somebody else has put into a message's context stays there, still recording and
// untouched, unless the message came with a trace context that is to be the parent.
func TestTraceWithoutSDKInAnothersSpan(t *testing.T) {
	propagator := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	for _, c := range []struct {
		name    string
		parent  bool
		came    string
		carried bool // whether what the message came with goes on
	}{
		{"linked", false, otherOf, false},
		{"linked, without a trace context", false, "", false},
		{"parent", true, otherOf, true},
		{"parent, without a trace context", true, "", false},
		{"parent, not valid", true, "00-x", false},
	} {
		for _, tracing := range []hookmw.Trace{{Propagator: propagator}, {}} {
			tracing.TracerProvider, tracing.Parent = noop.NewTracerProvider(), c.parent
			outer := &recorded{sc: spanContext(t, parentOf)}
			msg := hook(nil)
			if c.came != "" {
				msg = hook(nil, "traceparent", c.came)
			}
			msg.SetContext(trace.ContextWithSpan(t.Context(), outer))
			var inside trace.Span
			produced, err := tracing.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				inside = trace.SpanFromContext(msg.Context())
				return []*message.Message{message.NewMessage("new", nil)}, nil
			})(msg)
			if err != nil {
				t.Fatal(err)
			}
			want := parentOf
			if c.carried {
				want = otherOf
			}
			if got := traceparent(inside.SpanContext()); got != want || inside.IsRecording() == c.carried {
				t.Errorf("%s (propagator %T): the handler had %s, recording %v; want %s", c.name, tracing.Propagator, got, inside.IsRecording(), want)
			}
			if got := produced[0].Metadata["traceparent"]; got != want {
				t.Errorf("%s (propagator %T): traceparent %q goes on, want %q", c.name, tracing.Propagator, got, want)
			}
			if outer.ends != 0 || outer.attributes != nil || outer.links != nil {
				t.Errorf("%s (propagator %T): another's span was changed: %+v", c.name, tracing.Propagator, outer)
			}
		}
	}
}
