package suite

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
	"github.com/watermill-envelope/envelope/webhook"
)

// Traces sends a webhook through two handlers and checks its spans: the request, send, process,
// send, process, send. A consumer's span is linked to the one that sent its message, or its
// child with Parent, and nothing is recorded twice. What lies in the last topic has the
// context of the span that sent it, once in the JSON, and once beside it where attributes are
// headers.
func Traces(t *testing.T, b Broker, peer Peer) {
	for name, parent := range map[string]bool{"linked": false, "parented": true} {
		t.Run(name, func(t *testing.T) { traces(t, b, peer, parent) })
	}
}

func traces(t *testing.T, b Broker, peer Peer, parent bool) {
	ctx := Context(t)
	hooks, steps, ends := topicName(t, "hooks"), topicName(t, "steps"), topicName(t, "ends")
	next := peer.Watch(ctx, t, ends)

	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	chain, err := hookmw.NewChain(hookmw.ChainConfig{Trace: hookmw.Trace{TracerProvider: provider, System: b.Name, Parent: parent}})
	if err != nil {
		t.Fatal(err)
	}
	pub, err := chain.WrapPublisher(b.Publisher(t), b.Sealer)
	if err != nil {
		t.Fatal(err)
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: Timeout}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(chain.Middleware)
	step := func(msg *message.Message) ([]*message.Message, error) {
		return []*message.Message{envelope.Derive(msg, "step", msg.Payload)}, nil
	}
	router.AddHandler("first", hooks, initialized(t, b.NewSubscriber(t, "first"), hooks), steps, pub, step)
	router.AddHandler("second", steps, initialized(t, b.NewSubscriber(t, "second"), steps), ends, pub, step)
	stop := start(ctx, t, router)

	receiver, err := webhook.NewReceiver(webhook.ReceiverConfig{
		Publisher: pub, Topic: hooks, Request: webhook.RequestOptions{Source: "suite"},
	})
	if err != nil {
		t.Fatal(err)
	}
	requestCtx, request := provider.Tracer("suite").Start(ctx, "POST /hooks", trace.WithSpanKind(trace.SpanKindServer))
	answer := httptest.NewRecorder()
	receiver.ServeHTTP(answer, httptest.NewRequestWithContext(requestCtx, http.MethodPost, "/hooks", strings.NewReader("{}")))
	request.End()
	if answer.Code != http.StatusAccepted {
		t.Fatalf("answered %d: %s", answer.Code, answer.Body)
	}
	end := next(1)[0]
	stop() // all spans have ended

	sent := []string{"POST /hooks", "send " + hooks, "process " + hooks, "send " + steps, "process " + steps, "send " + ends}
	tree := map[string]tracetest.SpanStub{}
	for _, span := range spans.GetSpans() {
		if _, twice := tree[span.Name]; twice {
			t.Errorf("%q is there twice", span.Name)
		}
		tree[span.Name] = span
	}
	if len(tree) != len(sent) {
		t.Errorf("%d spans, want %d: %v", len(tree), len(sent), tree)
	}
	for i, name := range sent {
		span, ok := tree[name]
		if !ok {
			t.Fatalf("no span %q", name)
		}
		if i == 0 {
			continue
		}
		before := tree[sent[i-1]].SpanContext
		linked := len(span.Links) == 1 && span.Links[0].SpanContext.Equal(before.WithRemote(true))
		child := span.Parent.SpanID() == before.SpanID() && span.SpanContext.TraceID() == before.TraceID()
		wantChild := span.SpanKind == trace.SpanKindProducer || parent
		if child != wantChild || linked == wantChild || !wantChild && span.Parent.IsValid() {
			t.Errorf("%q is the child of %v with links %v; before it was %v", name, span.Parent, span.Links, before)
		}
	}

	last := tree[sent[len(sent)-1]].SpanContext
	want := "00-" + last.TraceID().String() + "-" + last.SpanID().String() + "-01"
	e, err := envelope.ParseWire(end.Body)
	if err != nil {
		t.Fatal(err)
	}
	if e.Traceparent != want || bytes.Count(end.Body, []byte(want)) != 1 || bytes.Count(end.Body, []byte(`"traceparent"`)) != 1 {
		t.Errorf("the JSON has %q, want %q once: %s", e.Traceparent, want, end.Body)
	}
	beside := 0
	for _, h := range end.Headers {
		if strings.EqualFold(h.Name, "traceparent") {
			beside++
			if h.Value != want {
				t.Errorf("%s is %q, want %q", h.Name, h.Value, want)
			}
		}
	}
	if len(end.Headers) > 0 && beside != 1 {
		t.Errorf("traceparent is beside the JSON %d times: %q", beside, end.Headers)
	}
}
