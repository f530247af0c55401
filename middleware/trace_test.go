package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

const (
	parentID = "00f067aa0ba902b7"
	parentOf = "00-4bf92f3577b34da6a3ce929d0e0e4736-" + parentID + "-01" // a traceparent
	otherID  = "b7ad6b7169203331"
	otherOf  = "00-0af7651916cd43dd8448eb211c80319c-" + otherID + "-01"
)

// spanContext is the one that a traceparent says.
func spanContext(t testing.TB, traceparent string) trace.SpanContext {
	t.Helper()
	var c trace.SpanContextConfig
	var err error
	if c.TraceID, err = trace.TraceIDFromHex(traceparent[3:35]); err != nil {
		t.Fatal(err)
	}
	if c.SpanID, err = trace.SpanIDFromHex(traceparent[36:52]); err != nil {
		t.Fatal(err)
	}
	c.TraceFlags = trace.FlagsSampled
	return trace.NewSpanContext(c)
}

func TestTracePublish(t *testing.T) {
	r, b := &spanRecorder{}, &broker{}
	pub := hookmw.Trace{TracerProvider: r, System: "kafka", Attributes: []attribute.KeyValue{attribute.String("team", "shipping")}}.WrapPublisher(b)

	caller := trace.ContextWithSpanContext(context.Background(), spanContext(t, otherOf))
	msg := hook([]byte("{}"), "traceparent", parentOf, "tracestate", "congo=1")
	msg.SetContext(caller)
	before := maps.Clone(msg.Metadata)
	if err := pub.Publish("hooks", msg); err != nil {
		t.Fatal(err)
	}

	span := r.want(t, 0, "send hooks")
	if span.kind != trace.SpanKindProducer {
		t.Errorf("kind %v", span.kind)
	}
	if want := "github.com/watermill-envelope/envelope/middleware https://opentelemetry.io/schemas/1.28.0"; r.scope != want {
		t.Errorf("scope %q, want %q", r.scope, want)
	}
	shown := map[string]string{
		"messaging.system": "kafka", "messaging.operation.name": "send", "messaging.operation.type": "send",
		"messaging.destination.name": "hooks", "team": "shipping",
	}
	if got := said(span.sampler); !maps.Equal(got, shown) {
		t.Errorf("a sampler is shown %v, want %v", got, shown)
	}
	shown["messaging.message.id"], shown["messaging.message.body.size"] = msg.UUID, "2"
	if got := said(span.attributes); !maps.Equal(got, shown) {
		t.Errorf("attributes %v, want %v", got, shown)
	}
	if got := span.parent.SpanID().String(); got != otherID {
		t.Errorf("parent %s is not that of the context", got)
	}
	if link := span.link(t); link.SpanID().String() != parentID || !link.IsRemote() || link.TraceState().String() != "congo=1" {
		t.Errorf("linked to %v", link)
	}
	if span.status != codes.Unset || len(span.errors) != 0 {
		t.Errorf("status %v, errors %v", span.status, span.errors)
	}

	want := traceparent(span.sc)
	if !strings.Contains(string(wire(t, b, 0)), `"traceparent":"`+want+`","tracestate":null`) {
		t.Errorf("the JSON is %s, without %s", wire(t, b, 0), want)
	}
	var attributes []string
	for _, h := range b.records[0].Headers {
		if strings.HasPrefix(string(h.Key), "trace") {
			attributes = append(attributes, string(h.Key)+" "+string(h.Value))
		}
	}
	if !slices.Equal(attributes, []string{"traceparent " + want}) {
		t.Errorf("attributes %q, want one traceparent %s", attributes, want)
	}
	if trace.SpanFromContext(b.given[0].Context()) != trace.Span(span) {
		t.Error("the copy's context has not the span")
	}
	if !maps.Equal(msg.Metadata, before) || msg.Context() != caller || b.given[0] == msg {
		t.Errorf("the caller's message was changed: %v", msg.Metadata)
	}
}

func wire(t *testing.T, b *broker, i int) []byte {
	t.Helper()
	value, err := b.records[i].Value.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestTraceLinks(t *testing.T) {
	tests := []struct {
		rule          string
		context, has  string // traceparents of the message's context, and in its metadata
		parent        bool
		under, linked string // span ids, of publish
		child, beside string // of process
	}{
		{rule: "nothing", under: "", linked: "", child: "", beside: ""},
		{rule: "a new message of a request", context: otherOf, under: otherID, child: otherID},
		{rule: "a message that goes on", has: parentOf, linked: parentID, beside: parentID},
		{rule: "both", context: otherOf, has: parentOf, under: otherID, linked: parentID, child: otherID, beside: parentID},
		{rule: "the same twice", context: parentOf, has: parentOf, under: parentID, child: parentID},
		{rule: "a child of its message", has: parentOf, parent: true, linked: parentID, child: parentID},
		{rule: "a child of its message, not of the context", context: otherOf, has: parentOf, parent: true, under: otherID, linked: parentID, child: parentID, beside: otherID},
		{rule: "no message to be a child of", context: otherOf, parent: true, under: otherID, child: otherID},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			r := &spanRecorder{}
			tracing := hookmw.Trace{TracerProvider: r, Parent: tt.parent}
			msg := hook([]byte("{}"), "traceparent", tt.has)
			if tt.context != "" {
				msg.SetContext(trace.ContextWithSpanContext(msg.Context(), spanContext(t, tt.context)))
			}
			if err := tracing.WrapPublisher(&broker{}).Publish("hooks", msg); err != nil {
				t.Fatal(err)
			}
			if _, err := tracing.Middleware(message.PassthroughHandler)(msg); err != nil {
				t.Fatal(err)
			}
			for i, want := range []struct{ name, parent, link string }{{"send hooks", tt.under, tt.linked}, {"process", tt.child, tt.beside}} {
				span := r.want(t, i, want.name)
				if got := id(span.parent); got != want.parent {
					t.Errorf("%s: parent %q, want %q", want.name, got, want.parent)
				}
				if got := id(span.link(t)); got != want.link {
					t.Errorf("%s: link %q, want %q", want.name, got, want.link)
				}
			}
		})
	}
}

// id is the id of a span, or "" where it is none.
func id(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	return sc.SpanID().String()
}

// batchError is what a publisher returns that knows which messages it could not publish.
type batchError map[int]error

func (batchError) Error() string                  { return "some were not published" }
func (e batchError) MessageError(index int) error { return e[index] }

func TestTraceOutcomes(t *testing.T) {
	tooLarge := &envelope.TooLargeError{Size: 2, Max: 1}
	tests := []struct {
		rule  string
		err   error
		want  [3]error
		types [3]string // error.type
	}{
		{rule: "all published"},
		{rule: "the call failed", err: errors.ErrUnsupported, want: [3]error{errors.ErrUnsupported, errors.ErrUnsupported, errors.ErrUnsupported}, types: [3]string{"_OTHER", "_OTHER", "_OTHER"}},
		{rule: "one failed", err: fmt.Errorf("sending: %w", batchError{1: tooLarge}), want: [3]error{1: tooLarge}, types: [3]string{1: "message_too_large"}},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			r := &spanRecorder{}
			pub := hookmw.Trace{TracerProvider: r}.WrapPublisher(&broker{err: tt.err})
			if err := pub.Publish("hooks", numbered("a"), numbered("b"), numbered("c")); err != tt.err {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			for i, want := range tt.want {
				span := r.want(t, i, "send hooks")
				text := said(span.attributes)
				if text["messaging.batch.message_count"] != "3" || text["messaging.message.id"] != string("abc"[i]) {
					t.Errorf("message %d: attributes %v", i, text)
				}
				if want == nil {
					if span.status != codes.Unset || span.errors != nil || text["error.type"] != "" {
						t.Errorf("message %d: status %v, errors %v, type %q", i, span.status, span.errors, text["error.type"])
					}
				} else if span.status != codes.Error || span.text != want.Error() || !slices.Equal(span.errors, []error{want}) || text["error.type"] != tt.types[i] {
					t.Errorf("message %d: status %v %q, errors %v, type %q", i, span.status, span.text, span.errors, text["error.type"])
				}
			}
		})
	}
}

// The body of a claim is the one that the message says, and of what nobody opened nothing is said.
func TestTraceBodySize(t *testing.T) {
	sealed := message.NewMessage("a", []byte("{}"))
	sealed.Metadata[envelope.MetadataVersion] = "1"
	for rule, tt := range map[string]struct {
		msg  *message.Message
		want string
	}{
		"inline":    {hook([]byte("{}"), "ankusa_size", "70000"), "2"},
		"a claim":   {hook(nil, "ankusa_claim", "v1/acme/p/0", "ankusa_size", "70000"), "70000"},
		"redeemed":  {hook([]byte("body"), "ankusa_claim", "v1/acme/p/0", "ankusa_size", "4", "envelope_redeemed", "true"), "4"},
		"malformed": {envelope.OpenMalformed([]byte("{"), errors.ErrUnsupported, "a", nil), ""},
		"sealed":    {sealed, ""},
	} {
		r := &spanRecorder{}
		if _, err := (hookmw.Trace{TracerProvider: r}).Middleware(message.PassthroughHandler)(tt.msg); err != nil {
			t.Fatal(err)
		}
		if got := said(r.want(t, 0, "process").attributes)["messaging.message.body.size"]; got != tt.want {
			t.Errorf("%s: body size %q, want %q", rule, got, tt.want)
		}
	}
}

func TestTraceLeavesMessagesAlone(t *testing.T) {
	r, b := &spanRecorder{}, &broker{Marshaler: kafkawire.Marshaler{Source: "shop"}}
	pub := hookmw.Trace{TracerProvider: r}.WrapPublisher(b)

	malformed := envelope.OpenMalformed([]byte("{"), errors.ErrUnsupported, "broken", message.Metadata{"traceparent": parentOf})
	before := maps.Clone(malformed.Metadata)
	fresh := &message.Message{Payload: []byte("{}")}
	sealed := message.NewMessage("broker's", wire(t, sealedBy(t, parentOf), 0))
	sealed.Metadata[envelope.MetadataVersion] = "1"
	if err := pub.Publish("hooks", malformed, fresh, sealed); err != nil {
		t.Fatal(err)
	}
	if b.given[0] != malformed || !maps.Equal(malformed.Metadata, before) || !bytes.Equal(wire(t, b, 0), []byte("{")) {
		t.Errorf("the malformed message was changed: %v", b.given[0].Metadata)
	}
	if fresh.UUID == "" || fresh.UUID != b.given[1].UUID || fresh.Metadata != nil {
		t.Errorf("a message without UUID has %q, was published with %q, metadata %v", fresh.UUID, b.given[1].UUID, fresh.Metadata)
	}
	for i := 1; i < 3; i++ {
		e, err := envelope.ParseWire(wire(t, b, i))
		if err != nil {
			t.Fatal(err)
		}
		if want := traceparent(r.want(t, i, "send hooks").sc); e.Traceparent != want {
			t.Errorf("message %d has traceparent %q, want %q", i, e.Traceparent, want)
		}
	}
	if len(sealed.Metadata) != 1 || string(b.given[2].Payload) != "body" {
		t.Errorf("the message that nobody had opened has metadata %v, and was published with payload %q", sealed.Metadata, b.given[2].Payload)
	}
}

// sealedBy is a broker with one record, of a hook with that trace context.
func sealedBy(t *testing.T, traceparent string) *broker {
	t.Helper()
	b := &broker{}
	if err := b.Publish("hooks", hook([]byte("body"), "traceparent", traceparent)); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTraceOfSeveralTopics(t *testing.T) {
	r := &spanRecorder{}
	pub := hookmw.Trace{TracerProvider: r}.WrapPublisher(&broker{})
	for i, topic := range []string{"orders", "", "orders", "invoices"} {
		if err := pub.Publish(topic, hook(nil)); err != nil {
			t.Fatal(err)
		}
		span := r.want(t, i, strings.TrimSpace("send "+topic))
		if got, has := said(span.sampler)["messaging.destination.name"]; got != topic || has != (topic != "") {
			t.Errorf("topic %q: destination %q, %v", topic, got, has)
		}
	}
}

func TestTracedPublisher(t *testing.T) {
	r := &spanRecorder{}
	tracing := hookmw.Trace{TracerProvider: r}
	for want, inner := range map[string]message.Publisher{"the broker": &namedBroker{}, "middleware_test.broker": &broker{}} {
		if got := fmt.Sprint(tracing.WrapPublisher(inner)); got != want {
			t.Errorf("its name is %q, want %q", got, want)
		}
	}
	b := &broker{err: errors.New("still busy")}
	pub := tracing.WrapPublisher(b)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := pub.Close(); err != b.err {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	if err := pub.Publish("hooks", hook(nil)); !errors.Is(err, marshaler.ErrClosed) || b.calls != 0 || b.closed != 1 || len(r.spans) != 0 {
		t.Errorf("after Close: error %v, %d calls, closed %d times, %d spans", err, b.calls, b.closed, len(r.spans))
	}
}

func TestTraceValidate(t *testing.T) {
	for rule, tt := range map[string]struct {
		trace hookmw.Trace
		named []string
	}{
		"the zero value": {},
		"attributes":     {trace: hookmw.Trace{Attributes: []attribute.KeyValue{attribute.String("a", "")}}},
		"bad attributes": {
			trace: hookmw.Trace{Attributes: []attribute.KeyValue{{Key: "empty"}, attribute.Int("n", 1), attribute.Int("", 1)}},
			named: []string{`Attributes[0] ("empty")`, `Attributes[2] ("")`},
		},
	} {
		err := tt.trace.Validate()
		if (err == nil) != (tt.named == nil) {
			t.Errorf("%s: %v", rule, err)
		}
		for _, what := range tt.named {
			if !strings.Contains(fmt.Sprint(err), what) {
				t.Errorf("%s: %v does not name %s", rule, err, what)
			}
		}
	}
}
