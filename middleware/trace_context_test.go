package middleware_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

var sourced = kafkawire.Marshaler{Source: "shop"}

const (
	ids = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
)

// members is a tracestate of n members.
func members(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(string(rune('a'+i/26)) + string(rune('a'+i%26)) + "=1")
	}
	return b.String()
}

// traceContexts are what a message may come with, and whether it is a trace context.
var traceContexts = []struct {
	rule                    string
	traceparent, tracestate string
	valid                   bool
	state                   string // what is made of the tracestate
	// differs: the propagator of OpenTelemetry does not do what W3C says: it refuses version 00
	// with flags that it does not know, takes a dash at its end, and has no tracestate where
	// this one has too many members.
	differs bool
}{
	{rule: "version 00", traceparent: "00-" + ids + "-01", valid: true},
	{rule: "not sampled", traceparent: "00-" + ids + "-00", valid: true},
	{rule: "random trace id", traceparent: "00-" + ids + "-03", valid: true, differs: true},
	{rule: "flags that mean nothing yet", traceparent: "00-" + ids + "-ff", valid: true, differs: true},
	{rule: "a later version", traceparent: "cc-" + ids + "-01", valid: true},
	{rule: "a later version with more", traceparent: "cc-" + ids + "-01-what-the-future", valid: true},
	{rule: "a later version with something", traceparent: "cc-" + ids + "-01.what-the-future"},
	{rule: "version 00 with more", traceparent: "00-" + ids + "-01-more"},
	{rule: "version 00 with a dash", traceparent: "00-" + ids + "-01-", differs: true},
	{rule: "version ff", traceparent: "ff-" + ids + "-01"},
	{rule: "version in upper case", traceparent: "CC-" + ids + "-01"},
	{rule: "ids in upper case", traceparent: "00-" + strings.ToUpper(ids) + "-01"},
	{rule: "no trace id", traceparent: "00-00000000000000000000000000000000-00f067aa0ba902b7-01"},
	{rule: "no span id", traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"},
	{rule: "all zero", traceparent: "00-00000000000000000000000000000000-0000000000000000-00"},
	{rule: "not hex", traceparent: "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01"},
	{rule: "short", traceparent: "00-" + ids + "-0"},
	{rule: "cut", traceparent: "00-" + ids},
	{rule: "blanks around", traceparent: " 00-" + ids + "-01 "},
	{rule: "twice in one", traceparent: "00-" + ids + "-01,00-" + ids + "-01"},
	{rule: "empty"},
	{rule: "a tracestate alone", tracestate: "congo=1"},

	{rule: "a tracestate", traceparent: "00-" + ids + "-01", tracestate: "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", valid: true, state: "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"},
	{rule: "a tracestate with blanks", traceparent: "00-" + ids + "-01", tracestate: "rojo=1 ,\tcongo=2", valid: true, state: "rojo=1,congo=2"},
	{rule: "a tracestate that is none", traceparent: "00-" + ids + "-01", tracestate: "rojo", valid: true},
	{rule: "a tracestate with a member twice", traceparent: "00-" + ids + "-01", tracestate: "rojo=1,rojo=2", valid: true},
	{rule: "32 members", traceparent: "00-" + ids + "-01", tracestate: members(32), valid: true, state: members(32)},
	{rule: "100 members", traceparent: "00-" + ids + "-01", tracestate: members(100), valid: true, state: members(32), differs: true},
	{rule: "a long member", traceparent: "00-" + ids + "-01", tracestate: "a=1,b=" + strings.Repeat("x", 250) + ",c=" + strings.Repeat("y", 250) + ",d=2", valid: true, state: "a=1,d=2", differs: true},
}

// extracted is the span context that a handler continues from with that trace context.
func extracted(t testing.TB, tracing hookmw.Trace, md message.Metadata) trace.SpanContext {
	t.Helper()
	var sc trace.SpanContext
	msg := hook([]byte("{}"))
	maps.Copy(msg.Metadata, md)
	if _, err := tracing.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		sc = trace.SpanContextFromContext(msg.Context())
		return nil, nil
	})(msg); err != nil {
		t.Fatal(err)
	}
	return sc
}

func TestTraceContext(t *testing.T) {
	for _, tt := range traceContexts {
		t.Run(tt.rule, func(t *testing.T) {
			md := message.Metadata{"traceparent": tt.traceparent, "tracestate": tt.tracestate}
			got := extracted(t, hookmw.Trace{TracerProvider: noop.NewTracerProvider()}, md)
			if got.IsValid() != tt.valid || got.TraceState().String() != tt.state || tt.valid && !got.IsRemote() {
				t.Errorf("span context %v, tracestate %q; want one: %v, with tracestate %q", got, got.TraceState(), tt.valid, tt.state)
			}
			if tt.valid && (got.TraceID().String() != ids[:32] || got.SpanID().String() != ids[33:]) {
				t.Errorf("ids %s-%s", got.TraceID(), got.SpanID())
			}
			theirs := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(md)))
			if same := theirs.Equal(got); same == tt.differs {
				t.Errorf("OpenTelemetry says %v, tracestate %q; the same as ours: %v", theirs, theirs.TraceState(), same)
			}

			// What is published next has a valid context, and a link only to one.
			r, b := &spanRecorder{}, &broker{Marshaler: sourced}
			msg := message.NewMessage("new", []byte("{}"))
			maps.Copy(msg.Metadata, md)
			if err := (hookmw.Trace{TracerProvider: r}).WrapPublisher(b).Publish("hooks", msg); err != nil {
				t.Fatal(err)
			}
			span := r.want(t, 0, "send hooks")
			e, err := envelope.ParseWire(wire(t, b, 0))
			if err != nil {
				t.Fatal(err)
			}
			if e.Traceparent != traceparent(span.sc) || e.Tracestate != "" || len(e.Metadata) != 0 {
				t.Errorf("published traceparent %q, tracestate %q, metadata %v", e.Traceparent, e.Tracestate, e.Metadata)
			}
			if link := span.link(t); !link.Equal(got) {
				t.Errorf("linked to %v, want %v", link, got)
			}
		})
	}
}

// Nothing that a message comes with makes tracing fail or send what is no trace context, and
// OpenTelemetry reads what is sent.
func FuzzTraceContext(f *testing.F) {
	for _, tt := range traceContexts {
		f.Add(tt.traceparent, tt.tracestate)
	}
	f.Fuzz(func(t *testing.T, parent, state string) {
		md := message.Metadata{"traceparent": parent, "tracestate": state}
		got := extracted(t, hookmw.Trace{TracerProvider: noop.NewTracerProvider()}, md)
		if got.IsValid() != envelope.ValidTraceparent(parent) {
			t.Fatalf("a span context: %v, from %q", got.IsValid(), parent)
		}
		theirs := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(md)))
		if theirs.IsValid() && !strings.HasSuffix(parent, "-") &&
			(theirs.TraceID() != got.TraceID() || theirs.SpanID() != got.SpanID() || theirs.IsSampled() != got.IsSampled()) {
			t.Fatalf("OpenTelemetry reads %v, this %v", theirs, got)
		}
		r := &spanRecorder{}
		var given *message.Message
		pub := hookmw.Trace{TracerProvider: r}.WrapPublisher(publisherFunc(func(msg *message.Message) { given = msg }))
		msg := message.NewMessageWithContext(trace.ContextWithRemoteSpanContext(context.Background(), got), "new", nil)
		if err := pub.Publish("hooks", msg); err != nil {
			t.Fatal(err)
		}
		read := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(given.Metadata)))
		if sent := r.spans[0].sc; read.TraceID() != sent.TraceID() || read.SpanID() != sent.SpanID() {
			t.Fatalf("sent %v as %v, which OpenTelemetry reads as %v", sent, given.Metadata, read)
		}
	})
}

type publisherFunc func(msg *message.Message)

func (f publisherFunc) Publish(_ string, messages ...*message.Message) error {
	for _, msg := range messages {
		f(msg)
	}
	return nil
}

func (publisherFunc) Close() error { return nil }

// Without an SDK a trace goes on, as it came.
func TestTraceWithoutSDK(t *testing.T) {
	const came, state = "cc-" + ids + "-ff-more", "rojo=1 ,congo=2"
	for name, tracing := range map[string]hookmw.Trace{
		"zero value": {}, "no-op": {TracerProvider: noop.NewTracerProvider()}, "parent": {TracerProvider: noop.NewTracerProvider(), Parent: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := &broker{Marshaler: sourced}
			pub := tracing.WrapPublisher(b)
			var inside trace.SpanContext
			h := tracing.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				inside = trace.SpanContextFromContext(msg.Context())
				if err := pub.Publish("own", message.NewMessageWithContext(msg.Context(), "own", nil)); err != nil {
					return nil, err
				}
				return []*message.Message{message.NewMessage("returned", nil), msg}, nil
			})
			msg := hook([]byte("{}"), "traceparent", came, "tracestate", state)
			for range 2 { // another attempt is no other
				produced, err := h(msg)
				if err != nil {
					t.Fatal(err)
				}
				if err := pub.Publish("hooks", produced...); err != nil {
					t.Fatal(err)
				}
				if b.given[1] != produced[0] || b.given[2] != msg {
					t.Error("messages were copied that did not change")
				}
				if inside.SpanID().String() != ids[33:] {
					t.Errorf("the handler had %v", inside)
				}
				for i, want := range [][2]string{{"00-" + ids + "-01", "rojo=1,congo=2"}, {came, state}, {came, state}} {
					if e, err := envelope.ParseWire(wire(t, b, i)); err != nil || e.Traceparent != want[0] || e.Tracestate != want[1] {
						t.Errorf("message %d: traceparent %q, tracestate %q, error %v; want %q", i, e.Traceparent, e.Tracestate, err, want)
					}
				}
				b.given, b.records = nil, nil
			}

			// A message that a handler returns in another context is of that.
			made := tracing.Middleware(func(*message.Message) ([]*message.Message, error) {
				return []*message.Message{message.NewMessageWithContext(trace.ContextWithSpanContext(context.Background(), spanContext(t, otherOf)), "made", nil)}, nil
			})
			produced, err := made(msg)
			if err != nil || produced[0].Metadata["traceparent"] != otherOf {
				t.Errorf("metadata %v, error %v, want %s", produced[0].Metadata, err, otherOf)
			}

			// And where there is none, none is made up.
			produced, err = tracing.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				if trace.SpanContextFromContext(msg.Context()).IsValid() {
					t.Error("a span context from nowhere")
				}
				return []*message.Message{hook(nil)}, nil
			})(hook(nil))
			if err != nil || pub.Publish("hooks", produced...) != nil {
				t.Fatal(err)
			}
			if e, err := envelope.ParseWire(wire(t, b, 0)); err != nil || e.Traceparent != "" || b.given[0] != produced[0] {
				t.Errorf("traceparent %q, error %v", e.Traceparent, err)
			}
		})
	}
}

// A provider may begin to make spans at any time, and end.
func TestTraceProviderThatComesLater(t *testing.T) {
	r, b := &spanRecorder{off: true}, &broker{}
	tracing := hookmw.Trace{TracerProvider: r}
	pub, h := tracing.WrapPublisher(b), tracing.Middleware(message.PassthroughHandler)
	both := func() {
		if err := pub.Publish("hooks", hook(nil, "traceparent", parentOf)); err != nil {
			t.Fatal(err)
		}
		if _, err := h(hook(nil, "traceparent", parentOf)); err != nil {
			t.Fatal(err)
		}
	}
	both()
	both()
	r.off = false
	both()
	both()
	r.off = true
	both()
	if len(r.spans) != 4 {
		t.Fatalf("%d spans", len(r.spans))
	}
	for i := range r.spans {
		span := r.want(t, i, [...]string{"send hooks", "process"}[i%2])
		if id(span.link(t)) != parentID {
			t.Errorf("span %d is linked to %v", i, span.links)
		}
		if i > 1 && r.spans[i].shown != 1 {
			t.Errorf("span %d: a sampler is shown no link", i)
		}
	}
	if got := b.receive(t, 4).Metadata["traceparent"]; got != parentOf {
		t.Errorf("in the end traceparent is %q", got)
	}
}

// Baggage is left alone, unless a propagator is set that carries it.
func TestTraceBaggage(t *testing.T) {
	r := &spanRecorder{}
	plain := hookmw.Trace{TracerProvider: r}
	carrying := hookmw.Trace{TracerProvider: r, Propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})}
	member, err := baggage.NewMember("tenant", "acme")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		rule                 string
		tracing              hookmw.Trace
		has, written, inside string
	}{
		{rule: "left alone", tracing: plain},
		{rule: "left alone where there is some", tracing: plain, has: "a=b", written: "a=b"},
		{rule: "carried", tracing: carrying, written: "tenant=acme", inside: "tenant=acme"},
		{rule: "set", tracing: carrying, has: "a=b", written: "tenant=acme", inside: "tenant=acme"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			b := &broker{}
			msg := hook(nil, "traceparent", parentOf, "tracestate", "congo=1", "baggage", tt.has)
			msg.SetContext(baggage.ContextWithBaggage(msg.Context(), bag))
			if err := tt.tracing.WrapPublisher(b).Publish("hooks", msg); err != nil {
				t.Fatal(err)
			}
			sent := r.spans[len(r.spans)-1]
			got := b.receive(t, 0)
			if got.Metadata["baggage"] != tt.written || got.Metadata["traceparent"] != traceparent(sent.sc) || got.Metadata["tracestate"] != "" || id(sent.link(t)) != parentID {
				t.Errorf("metadata %v, links %v", got.Metadata, sent.links)
			}
			produced, err := tt.tracing.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				if inside := baggage.FromContext(msg.Context()).String(); inside != tt.inside {
					t.Errorf("the handler has baggage %q, want %q", inside, tt.inside)
				}
				return []*message.Message{message.NewMessage("new", nil)}, nil
			})(got)
			if err != nil {
				t.Fatal(err)
			}
			process := r.spans[len(r.spans)-1]
			if process.link(t).SpanID() != sent.sc.SpanID() || process.parent.IsValid() || produced[0].Metadata["traceparent"] != traceparent(process.sc) {
				t.Errorf("linked to %v, under %v; goes on as %v", process.links, process.parent, produced[0].Metadata)
			}
		})
	}
}
