package middleware_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func TestTraceProcess(t *testing.T) {
	r := &spanRecorder{}
	v := newService(t)
	v.router.AddMiddleware(hookmw.Trace{TracerProvider: r, System: "gochannel"}.Middleware)
	var inside trace.Span
	v.router.AddConsumerHandler("read", "hooks", v.from, func(msg *message.Message) error {
		inside = trace.SpanFromContext(msg.Context())
		return nil
	})
	v.run()
	v.publish(hook([]byte("{}"), "traceparent", parentOf))

	span := r.want(t, 0, "process hooks")
	if span.kind != trace.SpanKindConsumer || id(span.link(t)) != parentID || span.parent.IsValid() {
		t.Errorf("kind %v, links %v, parent %v", span.kind, span.links, span.parent)
	}
	want := map[string]string{
		"messaging.system": "gochannel", "messaging.operation.name": "process", "messaging.operation.type": "process",
		"messaging.destination.name": "hooks", "messaging.message.id": hook(nil).UUID, "messaging.message.body.size": "2",
	}
	got := said(span.attributes)
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("attributes %v, want %v", got, want)
	}
	if inside != trace.Span(span) || span.status != codes.Unset {
		t.Errorf("the handler had span %v; status %v", inside, span.status)
	}
}

// What goes wrong is recorded, the span ends, and the trouble goes on as it was.
func TestTraceFailures(t *testing.T) {
	cause := errors.New("no such order")
	tests := []struct {
		rule      string
		fail      func() error
		text      string // of the status
		errorType string
		stack     bool
	}{
		{rule: "an error", fail: func() error { return cause }, text: "no such order", errorType: "_OTHER"},
		{rule: "an error of ours", fail: func() error { return &claimcheck.Error{Code: claimcheck.CodeNotFound, Err: cause} }, text: (&claimcheck.Error{Code: claimcheck.CodeNotFound, Err: cause}).Error(), errorType: "not_found"},
		{rule: "a panic with an error", fail: func() error { panic(cause) }, text: "panic: no such order", errorType: "panic", stack: true},
		{rule: "a panic with a text", fail: func() error { panic("at the disco") }, text: "panic: at the disco", errorType: "panic", stack: true},
		{rule: "a panic with nil", fail: func() error { panic(nil) }, text: "panic: " + new(runtime.PanicNilError).Error(), errorType: "panic", stack: true}, //nolint:govet // it happens
		{rule: "an ended goroutine", fail: func() error { runtime.Goexit(); return nil }, text: "panic: the goroutine was ended", errorType: "panic", stack: true},
	}
	sides := map[string]func(tracing hookmw.Trace, fail func() error) error{
		"send hooks": func(tracing hookmw.Trace, fail func() error) error {
			return tracing.WrapPublisher(failing(fail)).Publish("hooks", numbered("a"), numbered("b"))
		},
		"process": func(tracing hookmw.Trace, fail func() error) error {
			_, err := tracing.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, fail() })(numbered("a"))
			return err
		},
	}
	for side, run := range sides {
		for _, tt := range tests {
			t.Run(side+"/"+tt.rule, func(t *testing.T) {
				r := &spanRecorder{}
				want := outcomeOf(tt.fail)
				if got := outcomeOf(func() error { return run(hookmw.Trace{TracerProvider: r}, tt.fail) }); got != want {
					t.Errorf("%q came out, want %q", got, want)
				}
				if spans := len(r.spans); spans == 0 || side == "send hooks" && spans != 2 {
					t.Errorf("%d spans", spans)
				}
				for i := range r.spans {
					span := r.want(t, i, side)
					if span.status != codes.Error || span.text != tt.text || len(span.errors) != 1 || said(span.attributes)["error.type"] != tt.errorType {
						t.Errorf("status %v %q, errors %v, attributes %v", span.status, span.text, span.errors, said(span.attributes))
					}
					if named := strings.Contains(span.stack, "TestTraceFailures"); named != tt.stack {
						t.Errorf("the stack names what failed: %v\n%s", named, span.stack)
					}
				}
			})
		}
	}
}

type failing func() error

func (f failing) Publish(string, ...*message.Message) error { return f() }
func (failing) Close() error                                { return nil }

// outcomeOf says how fn ends.
func outcomeOf(fn func() error) string {
	result := make(chan string, 1)
	go func() {
		how := "ended its goroutine"
		defer func() {
			switch v := recover().(type) {
			case nil:
			case error:
				how = "panic with error " + v.Error()
			default:
				how = "panic with " + v.(string) //nolint:forcetypeassert // what the table panics with
			}
			result <- how
		}()
		if err := fn(); err != nil {
			how = "error " + err.Error()
		} else {
			how = "no error"
		}
	}()
	return <-result
}

// Watermill's Recoverer, which is further out, still says where the panic was.
func TestTraceInsideRecoverer(t *testing.T) {
	r := &spanRecorder{}
	h := wmmw.Recoverer(hookmw.Trace{TracerProvider: r}.Middleware(func(*message.Message) ([]*message.Message, error) {
		panic("at the disco")
	}))
	_, err := h(hook(nil))
	var recovered wmmw.RecoveredPanicError
	if !errors.As(err, &recovered) || recovered.V != "at the disco" || !strings.Contains(recovered.Stacktrace, "TestTraceInsideRecoverer.func1") {
		t.Errorf("error %v", err)
	}
}

// Each attempt has a span beside the others, not inside of them, and what goes to the poison
// topic in the end continues from the last.
func TestTraceRetriesAndPoison(t *testing.T) {
	for _, parent := range []bool{false, true} {
		r := &spanRecorder{}
		tracing := hookmw.Trace{TracerProvider: r, Parent: parent}
		poisoned := &broker{}
		poison, err := wmmw.PoisonQueue(tracing.WrapPublisher(poisoned), "poison")
		if err != nil {
			t.Fatal(err)
		}
		h := poison(wmmw.Retry{MaxRetries: 2, InitialInterval: time.Nanosecond}.Middleware(
			wmmw.Timeout(time.Hour)(tracing.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				return nil, errors.New("not today")
			}))))
		if _, err := h(hook([]byte("{}"), "traceparent", parentOf)); err != nil {
			t.Fatal(err)
		}
		under, beside := "", parentID
		if parent {
			under, beside = parentID, ""
		}
		for i := range 3 {
			if span := r.want(t, i, "process"); id(span.parent) != under || id(span.link(t)) != beside {
				t.Errorf("Parent %v: attempt %d under %q, linked to %q", parent, i, id(span.parent), id(span.link(t)))
			}
		}
		last, sent := r.spans[2], r.want(t, 3, "send poison")
		if sent.parent.SpanID() != last.sc.SpanID() || id(sent.link(t)) != parentID {
			t.Errorf("Parent %v: poisoned under %v, linked to %v", parent, sent.parent, sent.links)
		}
		if got := poisoned.receive(t, 0).Metadata["traceparent"]; got != traceparent(sent.sc) {
			t.Errorf("Parent %v: traceparent %q", parent, got)
		}
	}
}

// A transport within the process may keep contexts: then a message is handled in that of its
// publisher, and there is nothing to link. What was there before an attempt at another message
// does not matter.
func TestTraceInAKeptContext(t *testing.T) {
	for _, parent := range []bool{false, true} {
		r := &spanRecorder{}
		tracing := hookmw.Trace{TracerProvider: r, Parent: parent}
		var next *message.Message
		pub := tracing.WrapPublisher(publisherFunc(func(msg *message.Message) { next = msg.CopyWithContext() }))
		h := tracing.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			return nil, pub.Publish("hooks", message.NewMessageWithContext(msg.Context(), "next", nil))
		})
		for msg := hook(nil); len(r.spans) < 6; msg = next {
			if _, err := h(msg); err != nil {
				t.Fatal(err)
			}
		}
		for i := range r.spans[1:] {
			span, before := r.want(t, i+1, [...]string{"send hooks", "process"}[i%2]), r.spans[i]
			if span.parent.SpanID() != before.sc.SpanID() || len(span.links) != 0 {
				t.Errorf("Parent %v: span %d is under %v, linked to %v", parent, i+1, span.parent, span.links)
			}
		}
	}
}

// What a sampler does not take is passed on as such, so that nobody else takes it.
func TestTraceOfWhatIsNotSampled(t *testing.T) {
	r, b := &spanRecorder{drop: true}, &broker{Marshaler: sourced}
	tracing := hookmw.Trace{TracerProvider: r}
	produced, err := tracing.Middleware(func(*message.Message) ([]*message.Message, error) {
		return []*message.Message{message.NewMessage("new", nil)}, nil
	})(hook(nil, "traceparent", parentOf))
	if err != nil {
		t.Fatal(err)
	}
	if err := tracing.WrapPublisher(b).Publish("out", produced...); err != nil {
		t.Fatal(err)
	}
	process, sent := r.want(t, 0, "process"), r.want(t, 1, "send out")
	if len(sent.attributes) != len(sent.sampler) {
		t.Errorf("attributes %v were set for nobody", said(sent.attributes))
	}
	if got := b.receive(t, 0).Metadata["traceparent"]; got != traceparent(sent.sc) || !strings.HasSuffix(got, "-00") || sent.parent.SpanID() != process.sc.SpanID() {
		t.Errorf("traceparent %q, sent under %v", got, sent.parent)
	}
}

// What a handler returns continues from its span, whether the publisher is traced or not, and
// whatever has become of the context.
func TestTraceOfWhatAHandlerReturns(t *testing.T) {
	broken := envelope.OpenMalformed([]byte("{"), errors.ErrUnsupported, "broken", nil)
	tests := []struct {
		rule     string
		produced func(cause *message.Message) *message.Message
		under    string // the span that the publisher's is under, "own" where the handler made it
		linked   string
		plain    string // what a publisher sends that is not traced: span id
	}{
		{rule: "a new message", produced: func(*message.Message) *message.Message { return message.NewMessage("new", nil) }, under: "process", plain: "process"},
		{rule: "with nil metadata", produced: func(*message.Message) *message.Message { return &message.Message{UUID: "new"} }, under: "process", plain: "process"},
		{rule: "in the message's context", produced: func(cause *message.Message) *message.Message {
			return message.NewMessageWithContext(cause.Context(), "new", nil)
		}, under: "process", plain: "process"},
		{rule: "in a context of its own", produced: func(*message.Message) *message.Message {
			return message.NewMessageWithContext(trace.ContextWithSpanContext(context.Background(), spanContext(t, parentOf)), "new", nil)
		}, under: parentID, plain: parentID},
		{rule: "with a trace context of its own", produced: func(*message.Message) *message.Message {
			return hook(nil, "traceparent", parentOf)
		}, under: "process", linked: parentID, plain: parentID},
		{rule: "with a trace context that is none", produced: func(*message.Message) *message.Message {
			return hook(nil, "traceparent", strings.ToUpper(parentOf), "tracestate", "congo=1")
		}, under: "process", plain: "process"},
		{rule: "derived", produced: func(cause *message.Message) *message.Message { return envelope.Derive(cause, "x", nil) }, under: "process", plain: "process"},
		{rule: "the message itself", produced: func(cause *message.Message) *message.Message { return cause }, under: "process", plain: ""},
		{rule: "a malformed message", produced: func(*message.Message) *message.Message { return broken }, under: "process", plain: ""},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			r, plain := &spanRecorder{}, &broker{Marshaler: sourced}
			tracing := hookmw.Trace{TracerProvider: r}
			h := wmmw.Timeout(time.Hour)(tracing.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				return []*message.Message{nil, tt.produced(msg)}, nil
			}))
			cause := hook([]byte("{}"))
			produced, err := h(cause)
			if err != nil {
				t.Fatal(err)
			}
			if cause.Context().Err() == nil {
				t.Error("the context was not over: the test shows nothing")
			}
			if err := plain.Publish("out", produced[1]); err != nil {
				t.Fatal(err)
			}
			if err := tracing.WrapPublisher(&broker{Marshaler: sourced}).Publish("out", produced[1]); err != nil {
				t.Fatal(err)
			}
			process, sent := r.want(t, 0, "process"), r.want(t, 1, "send out")
			spanID := func(name string) string { return strings.Replace(name, "process", process.sc.SpanID().String(), 1) }
			if got, link := id(sent.parent), id(sent.link(t)); got != spanID(tt.under) || link != tt.linked {
				t.Errorf("sent under %s, linked to %q; want %s and %q", got, link, spanID(tt.under), tt.linked)
			}
			if got := plain.receive(t, 0).Metadata["traceparent"]; got == "" && tt.plain != "" || tt.plain == "" && got != "" || got != "" && got[36:52] != spanID(tt.plain) {
				t.Errorf("an untraced publisher sends traceparent %q, want span %q", got, spanID(tt.plain))
			}
		})
	}
}
