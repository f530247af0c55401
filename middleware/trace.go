package middleware

import (
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Trace makes OpenTelemetry spans of what is published and handled, and carries the W3C trace
// context (https://www.w3.org/TR/trace-context/) from one to the other in the envelope, where
// programs find it that know nothing of Watermill.
//
//	tracing := hookmw.Trace{System: "kafka"}
//	pub = tracing.WrapPublisher(pub)
//	router.AddMiddleware(tracing.Middleware)
//
// It is the outermost of the publisher's wrappers, and belongs on the outside of the others
// in a router too, but inside PoisonQueue and Retry: each attempt has a span of its own.
//
// Only the API of OpenTelemetry is used. Where no SDK is installed there are no spans, and the
// context that a message came with is passed on to what is made of it, unchanged.
//
// Names, kinds and attributes follow the semantic conventions for messaging, version 1.28:
// messaging.system, messaging.operation.name and .type, messaging.destination.name,
// messaging.message.id, messaging.message.body.size, messaging.batch.message_count, error.type.
// Nothing else of a message is recorded but the texts of errors.
//
// The zero value is ready to use. A Trace may be used for any number of publishers and
// handlers at once.
type Trace struct {
	// TracerProvider makes the spans. nil is OpenTelemetry's global one, also when that is
	// set later.
	TracerProvider trace.TracerProvider
	// Propagator writes the context of a span into metadata, and reads it there. nil is W3C
	// Trace Context by the rules of [envelope.ValidTraceparent] and
	// [envelope.TruncateTracestate], which leaves baggage alone. Metadata that another one
	// writes, such as baggage, must be names that messages can carry.
	Propagator propagation.TextMapPropagator
	// Parent makes a consumer's span the child of the span that sent its message, so that
	// one trace holds all that comes of a hook. Without it the two are linked, and the
	// consumer's span is a child of what its context holds, or the root of a new trace: the
	// better choice where messages wait long, or fan out far.
	Parent bool
	// System is the messaging.system of all spans: kafka, rabbitmq, aws_sqs, aws.sns,
	// gcp_pubsub, or another name. Where it is empty, spans have none.
	System string
	// Attributes are given to all spans. They must not be changed afterwards.
	Attributes []attribute.KeyValue
}

// Validate reports Attributes that are none: without a key or a value.
func (t Trace) Validate() error {
	var errs []error
	for i, a := range t.Attributes {
		// Not Valid, which from otel v1.47 on takes an attribute without a value for valid.
		if a.Key == "" || a.Value.Type() == attribute.INVALID {
			errs = append(errs, fmt.Errorf("trace: Attributes[%d] (%.100q) has no key or no value", i, string(a.Key)))
		}
	}
	return errors.Join(errs...)
}

// WrapPublisher returns a publisher with a span for each message: "send", a blank and the topic,
// of kind producer, under the message's context. It ends when pub has returned, with the
// outcome of the message: the error of the call, or its own where that error has a method
// MessageError(index int) error, as those of transport/rabbitmq have. A panic of pub ends it
// too, and goes on.
//
// What pub is given are copies, whose context and metadata have the span. A valid trace
// context that a message has already, because it is published again, becomes a link of the
// span; an invalid one is ignored. A malformed message has a span, and is published as it came.
// Where there is no span, a message is published as it is, but for one without a trace context
// whose own context has one: that is written to a copy.
//
// The caller's messages are not changed, but for a minted UUID where one had none.
//
// The publisher has the name of pub (its String), may be used by several goroutines at once,
// and closes pub once. Publish after Close is [marshaler.ErrClosed]. WrapPublisher panics when
// pub is nil.
func (t Trace) WrapPublisher(pub message.Publisher) message.Publisher {
	return &tracePublisher{wrapper: wrap(pub), tracer: t.tracer("send", trace.SpanKindProducer)}
}

// Middleware is a Watermill handler middleware with a span for each message: "process", a blank
// and the topic, of kind consumer. An error that the handler returns is recorded and makes the
// span one that failed; so is a panic, which goes on. A trace context of the message that is
// not valid is ignored.
//
// The span is in the message's context while the handler runs, and after that, for what a
// PoisonQueue further out publishes. Each further attempt, such as Retry makes, has a span
// beside that of the one before.
//
// Messages that the handler returns continue from the span: it is put into their contexts where
// they have none, and into their metadata where those have no valid trace context. This does
// not depend on the context of the message itself, which Watermill's Timeout ends before the
// router publishes.
func (t Trace) Middleware(h message.HandlerFunc) message.HandlerFunc {
	c := &traceConsumer{tracer: t.tracer("process", trace.SpanKindConsumer), parent: t.Parent}
	return func(msg *message.Message) ([]*message.Message, error) { return c.handle(h, msg) }
}
