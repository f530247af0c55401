package middleware

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/watermill-envelope/envelope"
)

const (
	traceScope  = "github.com/watermill-envelope/envelope/middleware"
	traceSchema = "https://opentelemetry.io/schemas/1.28.0"
)

// A tracer makes the spans of one side.
type tracer struct {
	trace.Tracer
	context    traceContext
	operation  string
	kind       trace.SpanKind
	attributes []attribute.KeyValue // of every span

	// last is the destination that was used last: mostly there is only one.
	last atomic.Pointer[destination]
	// idle: the last call made no span, as none does without an SDK. It saves what a span
	// would have been given, and most calls of a global provider that is still the same.
	idle   atomic.Bool
	global trace.TracerProvider // nil, or the global one that the tracer is of
	saved  atomic.Uint32        // calls
	none   bool                 // the tracer is one that does nothing
}

// One in so many calls is made while idle, since a provider may begin to make spans without
// being replaced: that of OpenTelemetry does when a process is instrumented from outside.
const idleCalls = 64

func (t Trace) tracer(operation string, kind trace.SpanKind) *tracer {
	provider, global := t.TracerProvider, trace.TracerProvider(nil)
	if provider == nil {
		provider = otel.GetTracerProvider()
		if reflect.ValueOf(provider).Comparable() {
			global = provider
		}
	}
	_, none := provider.(noop.TracerProvider)
	attributes := []attribute.KeyValue{
		attribute.String("messaging.operation.name", operation),
		attribute.String("messaging.operation.type", operation),
	}
	if t.System != "" {
		attributes = append(attributes, attribute.String("messaging.system", t.System))
	}
	return &tracer{
		Tracer:     provider.Tracer(traceScope, trace.WithSchemaURL(traceSchema)),
		context:    traceContext{t.Propagator},
		operation:  operation,
		kind:       kind,
		attributes: append(attributes, t.Attributes...),
		global:     global,
		none:       none,
	}
}

// A destination is what the spans of one topic have in common: all that a sampler is shown.
type destination struct {
	topic, name string
	options     []trace.SpanStartOption
}

func (t *tracer) destination(topic string) *destination {
	if d := t.last.Load(); d != nil && d.topic == topic {
		return d
	}
	d := &destination{topic: topic, name: t.operation}
	attributes := t.attributes
	if topic != "" {
		d.name += " " + topic
		attributes = append(slices.Clip(attributes), attribute.String("messaging.destination.name", topic))
	}
	d.options = []trace.SpanStartOption{trace.WithSpanKind(t.kind), trace.WithAttributes(attributes...)}
	t.last.Store(d)
	return d
}

// start starts a span under ctx, which has the span context parent, with a link to the other
// span context that its message has to do with. It reports whether a span was made: without an
// SDK none is, and the one that it returns does nothing.
func (t *tracer) start(ctx context.Context, d *destination, parent trace.SpanContext, other func() trace.SpanContext) (context.Context, trace.Span, bool) {
	idle := t.idle.Load()
	if t.none || idle && t.global != nil && t.global == otel.GetTracerProvider() && t.saved.Add(1)%idleCalls != 0 {
		return ctx, trace.SpanFromContext(context.Background()), false
	}
	options := d.options
	if !idle {
		if link := other(); link.IsValid() && !sameSpan(link, parent) {
			options = append(slices.Clip(options), trace.WithLinks(trace.Link{SpanContext: link}))
		}
	}
	ctx, span := t.Start(ctx, d.name, options...)
	sc := span.SpanContext()
	made := sc.IsValid() && !sameSpan(sc, parent)
	if made == idle {
		t.idle.Store(!made)
	}
	if made && idle {
		if link := other(); link.IsValid() && !sameSpan(link, parent) {
			span.AddLink(trace.Link{SpanContext: link})
		}
	}
	return ctx, span, made
}

// describe sets what a span says about its message.
func describe(span trace.Span, msg *message.Message) {
	if msg.UUID != "" {
		span.SetAttributes(attribute.String("messaging.message.id", msg.UUID))
	}
	if size, ok := bodySize(msg); ok {
		span.SetAttributes(attribute.Int("messaging.message.body.size", size))
	}
}

// bodySize is the size of a message's body in bytes, also where it is somewhere else. That of a
// message that nobody has opened is not known.
func bodySize(msg *message.Message) (int, bool) {
	switch {
	case msg.Metadata[envelope.MetadataMalformed] != "" || msg.Metadata[envelope.MetadataVersion] != "":
		return 0, false
	case isUnredeemed(msg):
		size, err := strconv.Atoi(msg.Metadata[envelope.MetadataSize])
		return size, err == nil
	}
	return len(msg.Payload), true
}

// end ends a span with the outcome of what it was about.
func end(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		code, _ := codeOf(err)
		if code == "" {
			code = "_OTHER"
		}
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		span.SetAttributes(attribute.String("error.type", code))
	}
	span.End()
}

var errGoexit = errors.New("the goroutine was ended")

// endPanic ends a span whose work did not return: it panicked with v, or, where that is nil,
// ended its goroutine.
func endPanic(span trace.Span, v any) {
	err, ok := v.(error)
	switch {
	case v == nil:
		err = errGoexit
	case !ok:
		err = fmt.Errorf("%v", v)
	}
	span.RecordError(err, trace.WithStackTrace(true))
	span.SetStatus(codes.Error, "panic: "+err.Error())
	span.SetAttributes(attribute.String("error.type", "panic"))
	span.End()
}

// sameSpan reports whether two contexts are of one span.
func sameSpan(a, b trace.SpanContext) bool {
	return a.SpanID() == b.SpanID() && a.TraceID() == b.TraceID()
}
