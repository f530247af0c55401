package middleware_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
)

// A spanRecorder is a tracer provider that keeps its spans. It makes ids as the API asks: the
// trace of the parent, or a new one. While off it makes none, as a provider that is not there.
type spanRecorder struct {
	embedded.TracerProvider

	off  bool
	drop bool // make spans that a sampler has not taken: they have ids, and record nothing

	mu    sync.Mutex
	scope string
	spans []*recorded
}

// A recorded is one span.
type recorded struct {
	embedded.Span

	name       string
	kind       trace.SpanKind
	parent, sc trace.SpanContext
	links      []trace.SpanContext
	shown      int                               // of the links, to a sampler
	sampler    map[attribute.Key]attribute.Value // what a sampler is shown
	attributes map[attribute.Key]attribute.Value
	errors     []error
	stack      string // of the last error that was recorded with one
	status     codes.Code
	text       string
	ends       int
	dropped    bool
}

func (r *spanRecorder) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	c := trace.NewTracerConfig(options...)
	r.scope = name + " " + c.SchemaURL()
	return recordingTracer{r: r}
}

type recordingTracer struct {
	embedded.Tracer
	r *spanRecorder
}

func (t recordingTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if t.r.off {
		return noop.Tracer{}.Start(ctx, name, options...)
	}
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	c := trace.NewSpanStartConfig(options...)
	s := &recorded{
		name: name, kind: c.SpanKind(), parent: trace.SpanContextFromContext(ctx),
		sampler: make(map[attribute.Key]attribute.Value), attributes: make(map[attribute.Key]attribute.Value),
	}
	for _, a := range c.Attributes() {
		s.sampler[a.Key], s.attributes[a.Key] = a.Value, a.Value
	}
	for _, l := range c.Links() {
		s.links = append(s.links, l.SpanContext)
		s.shown++
	}
	n := uint64(len(t.r.spans)) + 1
	sc := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled | s.parent.TraceFlags(), TraceID: s.parent.TraceID(), TraceState: s.parent.TraceState()}
	if !s.parent.IsValid() {
		binary.BigEndian.PutUint64(sc.TraceID[8:], n)
	}
	binary.BigEndian.PutUint64(sc.SpanID[:], n)
	if t.r.drop {
		sc.TraceFlags = 0
	}
	s.sc, s.dropped = trace.NewSpanContext(sc), t.r.drop
	t.r.spans = append(t.r.spans, s)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *recorded) SpanContext() trace.SpanContext         { return s.sc }
func (s *recorded) IsRecording() bool                      { return s.ends == 0 && !s.dropped }
func (s *recorded) SetStatus(code codes.Code, text string) { s.status, s.text = code, text }
func (s *recorded) SetName(name string)                    { s.name = name }
func (s *recorded) AddEvent(string, ...trace.EventOption)  {}
func (s *recorded) AddLink(l trace.Link)                   { s.links = append(s.links, l.SpanContext) }
func (s *recorded) TracerProvider() trace.TracerProvider   { return noop.NewTracerProvider() }
func (s *recorded) End(...trace.SpanEndOption)             { s.ends++ }
func (s *recorded) SetAttributes(list ...attribute.KeyValue) {
	for _, a := range list {
		s.attributes[a.Key] = a.Value
	}
}

func (s *recorded) RecordError(err error, options ...trace.EventOption) {
	s.errors = append(s.errors, err)
	if c := trace.NewEventConfig(options...); c.StackTrace() {
		s.stack = string(debug.Stack())
	}
}

// want returns the span at index i, which has that name and was ended once, as all of them are.
func (r *spanRecorder) want(t testing.TB, i int, name string) *recorded {
	t.Helper()
	if i >= len(r.spans) {
		t.Fatalf("%d spans, want one more: %s", len(r.spans), name)
	}
	if got := r.spans[i].name; got != name {
		t.Fatalf("span %d is %q, want %q", i, got, name)
	}
	for _, s := range r.spans {
		if s.ends != 1 {
			t.Errorf("span %q was ended %d times", s.name, s.ends)
		}
	}
	return r.spans[i]
}

// link returns the span context that s is linked to, or an invalid one.
func (s *recorded) link(t testing.TB) trace.SpanContext {
	t.Helper()
	if len(s.links) == 0 {
		return trace.SpanContext{}
	}
	if len(s.links) > 1 {
		t.Errorf("%d links", len(s.links))
	}
	return s.links[0]
}

// traceparent is how a span context is written.
func traceparent(sc trace.SpanContext) string {
	return fmt.Sprintf("00-%s-%s-%s", sc.TraceID(), sc.SpanID(), sc.TraceFlags())
}

// said returns attributes as text.
func said(attributes map[attribute.Key]attribute.Value) map[string]string {
	text := make(map[string]string, len(attributes))
	for k, v := range attributes {
		text[string(k)] = v.Emit()
	}
	return text
}
