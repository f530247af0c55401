package middleware

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel/trace"

	"github.com/watermill-envelope/envelope"
)

type traceConsumer struct {
	tracer *tracer
	parent bool
}

func (c *traceConsumer) handle(h message.HandlerFunc, msg *message.Message) (produced []*message.Message, err error) {
	span, now := c.start(msg)
	returned := false
	defer func() {
		if returned {
			end(span, err)
			return
		}
		v := recover()
		endPanic(span, v)
		if v != nil {
			panic(v)
		}
	}()
	produced, err = h(msg)
	returned = true
	for _, p := range produced {
		if p != nil {
			c.tracer.context.pass(now, msg, p)
		}
	}
	return produced, err
}

// An attempt is the value of a context that has the span of an attempt to handle a message: the
// next attempt starts from what was there before.
type attempt struct {
	msg  *message.Message
	base trace.Span
}

type attemptKey struct{}

// A current is what the messages continue from that a handler returns.
type current struct {
	ctx context.Context // with a span, or, where nobody made one, with what the message came with
	// The trace context as it came, where that is the one in ctx.
	traceparent, tracestate string
}

// start starts the span of an attempt and puts it into the message's context.
func (c *traceConsumer) start(msg *message.Message) (trace.Span, current) {
	ctx := msg.Context()
	base := trace.SpanFromContext(ctx)
	if base.SpanContext().IsValid() {
		if a, ok := ctx.Value(attemptKey{}).(*attempt); ok && a.msg == msg {
			base = a.base
			ctx = trace.ContextWithSpan(ctx, base)
		}
	}
	ctx, carried := c.tracer.context.extract(ctx, msg.Metadata)
	came := carried.IsValid()
	parent, other := base.SpanContext(), carried
	if c.parent && came {
		ctx = trace.ContextWithSpanContext(ctx, carried)
		parent, other = carried, parent
	}
	d := c.tracer.destination(message.SubscribeTopicFromCtx(ctx))
	under, span, made := c.tracer.start(ctx, d, parent, func() trace.SpanContext { return other })
	if span.IsRecording() {
		describe(span, msg)
	}
	now := current{ctx: ctx}
	switch {
	case made:
		now.ctx = context.WithValue(under, attemptKey{}, &attempt{msg, base})
	case came && !parent.IsValid():
		now.ctx = trace.ContextWithSpanContext(ctx, carried)
		parent = carried
	}
	if came && !made && sameSpan(carried, parent) {
		now.traceparent, now.tracestate = msg.Metadata[envelope.MetadataTraceparent], msg.Metadata[envelope.MetadataTracestate]
	}
	msg.SetContext(now.ctx)
	return span, now
}

// pass puts what is current into a message p that the handler of msg returned.
func (c traceContext) pass(now current, msg, p *message.Message) {
	span := trace.SpanFromContext(now.ctx)
	if !span.SpanContext().IsValid() {
		return
	}
	ctx := p.Context()
	if own := trace.SpanContextFromContext(ctx); !own.IsValid() {
		ctx = trace.ContextWithSpan(ctx, span)
		p.SetContext(ctx)
	} else if !sameSpan(own, span.SpanContext()) {
		now.traceparent = ""
	}
	if p == msg || envelope.IsMalformed(p) || envelope.ValidTraceparent(p.Metadata[envelope.MetadataTraceparent]) {
		return
	}
	if p.Metadata == nil {
		p.Metadata = make(message.Metadata)
	}
	if c.propagator != nil || now.traceparent == "" {
		c.inject(ctx, p.Metadata)
		return
	}
	p.Metadata[envelope.MetadataTraceparent] = now.traceparent
	if now.tracestate != "" {
		p.Metadata[envelope.MetadataTracestate] = now.tracestate
	} else {
		delete(p.Metadata, envelope.MetadataTracestate)
	}
}
