package middleware_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel"

	hookmw "github.com/watermill-envelope/envelope/middleware"
)

const traceGlobal = "TRACE_GLOBAL"

// The global provider of OpenTelemetry is found, also by what was made before it was set. It is
// set once and for all, so a process of its own sets it.
func TestTraceGlobalProvider(t *testing.T) {
	if os.Getenv(traceGlobal) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v") //nolint:gosec // this very test
		child.Env = append(os.Environ(), traceGlobal+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	b := &broker{}
	pub, h := (hookmw.Trace{}).WrapPublisher(b), hookmw.Trace{}.Middleware(message.PassthroughHandler)
	both := func() {
		if err := pub.Publish("hooks", hook(nil, "traceparent", parentOf)); err != nil {
			t.Fatal(err)
		}
		if _, err := h(hook(nil, "traceparent", parentOf)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		both()
	}
	r := &spanRecorder{}
	otel.SetTracerProvider(r)
	for range 3 {
		both()
	}
	if len(r.spans) != 6 {
		t.Fatalf("%d spans after the provider was set", len(r.spans))
	}
	for i := range r.spans {
		if span := r.want(t, i, [...]string{"send hooks", "process"}[i%2]); id(span.link(t)) != parentID {
			t.Errorf("span %d is linked to %v", i, span.links)
		}
	}
	for i := range b.given {
		if got := b.receive(t, i).Metadata["traceparent"]; i < 3 && got != parentOf || i >= 3 && got != traceparent(r.spans[2*(i-3)].sc) {
			t.Errorf("message %d has traceparent %q", i, got)
		}
	}

	// One that begins to make spans without being set anew is found after a while.
	r.off = true
	pub = hookmw.Trace{}.WrapPublisher(b)
	both()
	r.off = false
	sent := 0
	for ; len(r.spans) == 6 && sent < 100; sent++ {
		if err := pub.Publish("hooks", hook(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.spans) != 7 || sent < 2 {
		t.Errorf("%d spans after %d messages: want a call now and then", len(r.spans), sent)
	}
}
