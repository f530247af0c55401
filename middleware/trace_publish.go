package middleware

import (
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/watermill-envelope/envelope"
)

type tracePublisher struct {
	*wrapper
	tracer *tracer
}

func (p *tracePublisher) Publish(topic string, messages ...*message.Message) (err error) {
	if err := p.open(); err != nil {
		return err
	}
	var one [1]trace.Span
	spans := one[:0]
	returned := false
	defer func() {
		if returned {
			endEach(spans, err)
			return
		}
		v := recover()
		for _, span := range spans {
			endPanic(span, v)
		}
		if v != nil {
			panic(v)
		}
	}()
	var out []*message.Message
	d := p.tracer.destination(topic)
	for i, msg := range messages {
		var span trace.Span
		out, span = p.start(d, out, messages, i)
		spans = append(spans, span)
		if span.IsRecording() {
			describe(span, msg)
			if len(messages) > 1 {
				span.SetAttributes(attribute.Int("messaging.batch.message_count", len(messages)))
			}
		}
	}
	if out == nil {
		out = messages
	}
	err = p.inner.Publish(topic, out...)
	returned = true
	return err
}

// start starts the span of message i. It returns out with a copy of it that carries the span's
// context, where it is to carry one.
func (p *tracePublisher) start(d *destination, out, messages []*message.Message, i int) ([]*message.Message, trace.Span) {
	msg := messages[i]
	ctx := msg.Context()
	parent := trace.SpanContextFromContext(ctx)
	under, span, made := p.tracer.start(ctx, d, parent, func() trace.SpanContext {
		_, carried := p.tracer.context.extract(ctx, msg.Metadata)
		return carried
	})
	if !made && (!parent.IsValid() || p.tracer.context.carries(msg.Metadata)) || envelope.IsMalformed(msg) {
		return out, span
	}
	out = own(out, messages, i)
	if o := opened(msg); o != nil {
		out[i] = o
	}
	out[i].SetContext(under)
	p.tracer.context.inject(under, out[i].Metadata)
	return out, span
}

// opened opens a message that was received without being opened: what it carries is in its
// payload. It returns nil for any other, and for one that cannot be opened or sealed again.
func opened(msg *message.Message) *message.Message {
	if msg.Metadata[envelope.MetadataVersion] == "" || msg.Metadata[envelope.MetadataMalformed] != "" {
		return nil
	}
	prepared, err := envelope.Prepare(msg, envelope.Defaults{})
	if err != nil || envelope.IsMalformed(prepared) {
		return nil
	}
	return prepared
}

// endEach ends the spans of one call of Publish, each with its outcome.
func endEach(spans []trace.Span, err error) {
	outcome := func(int) error { return err }
	if err != nil {
		outcome = outcomes(err)
	}
	for i, span := range spans {
		end(span, outcome(i))
	}
}

// outcomes returns what became of each message of a call with that error: the same, where the
// error does not know better.
func outcomes(err error) func(index int) error {
	var each interface{ MessageError(index int) error }
	if errors.As(err, &each) {
		return each.MessageError
	}
	return func(int) error { return err }
}
