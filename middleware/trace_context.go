package middleware

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/watermill-envelope/envelope"
)

// A traceContext reads and writes span contexts in metadata.
type traceContext struct {
	propagator propagation.TextMapPropagator // nil: W3C Trace Context, as below
}

// extract returns the span context in md, or one that is not valid. The context that it
// returns is ctx, with the same span, and whatever else a propagator found.
func (c traceContext) extract(ctx context.Context, md message.Metadata) (context.Context, trace.SpanContext) {
	if c.propagator == nil {
		return ctx, readSpanContext(md)
	}
	span := trace.SpanFromContext(ctx)
	found := c.propagator.Extract(trace.ContextWithSpanContext(ctx, trace.SpanContext{}), propagation.MapCarrier(md))
	return trace.ContextWithSpan(found, span), trace.SpanContextFromContext(found)
}

// carries reports whether extract would find a span context in md.
func (c traceContext) carries(md message.Metadata) bool {
	if c.propagator == nil {
		return envelope.ValidTraceparent(md[envelope.MetadataTraceparent])
	}
	_, sc := c.extract(context.Background(), md)
	return sc.IsValid()
}

// inject writes the span context of ctx, which is valid, to md in the place of any other.
func (c traceContext) inject(ctx context.Context, md message.Metadata) {
	if c.propagator == nil {
		writeSpanContext(md, trace.SpanContextFromContext(ctx))
		return
	}
	if slices.Contains(c.propagator.Fields(), envelope.MetadataTracestate) {
		delete(md, envelope.MetadataTracestate) // that of the other; an empty one is not written
	}
	c.propagator.Inject(ctx, propagation.MapCarrier(md))
}

func readSpanContext(md message.Metadata) trace.SpanContext {
	parent := md[envelope.MetadataTraceparent]
	if !envelope.ValidTraceparent(parent) {
		return trace.SpanContext{}
	}
	c := trace.SpanContextConfig{TraceState: readTracestate(md[envelope.MetadataTracestate]), Remote: true}
	_, _ = hex.Decode(c.TraceID[:], []byte(parent[3:35])) // it is valid
	_, _ = hex.Decode(c.SpanID[:], []byte(parent[36:52]))
	if strings.IndexByte("13579bdf", parent[54]) >= 0 {
		c.TraceFlags = trace.FlagsSampled
	}
	return trace.NewSpanContext(c)
}

// The most members of a tracestate (W3C Trace Context, section 3.3.1.1).
const maxTracestateMembers = 32

// readTracestate parses a tracestate, without the members that are too many. One that is not
// valid is empty, and says nothing against its traceparent.
func readTracestate(s string) trace.TraceState {
	if s == "" {
		return trace.TraceState{}
	}
	s = envelope.TruncateTracestate(s)
	members := 0
	for i := range len(s) {
		if s[i] != ',' {
			continue
		}
		if members++; members == maxTracestateMembers {
			s = s[:i]
			break
		}
	}
	state, _ := trace.ParseTraceState(s)
	return state
}

func writeSpanContext(md message.Metadata, sc trace.SpanContext) {
	const hyphens = "00-00000000000000000000000000000000-0000000000000000-00"
	traceID, spanID := sc.TraceID(), sc.SpanID()
	text := [len(hyphens)]byte([]byte(hyphens))
	hex.Encode(text[3:35], traceID[:])
	hex.Encode(text[36:52], spanID[:])
	if sc.IsSampled() { // other flags make older readers refuse all of it
		text[54] = '1'
	}
	md[envelope.MetadataTraceparent] = string(text[:])
	if state := envelope.TruncateTracestate(sc.TraceState().String()); state != "" {
		md[envelope.MetadataTracestate] = state
	} else {
		delete(md, envelope.MetadataTracestate)
	}
}
