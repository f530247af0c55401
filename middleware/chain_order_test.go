package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/inbox"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// manyHeaders are the text of n headers of some 100 bytes.
func manyHeaders(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"x-%03d":%q`, i, strings.Repeat("v", 90))
	}
	return "{" + b.String()[1:] + "}"
}

// On the publishing side the trace is outermost, and has the outcome of all that is inside; and
// the caps come before the claim check, which measures what will be sent.
func TestChainPublishOrder(t *testing.T) {
	spans := &spanRecorder{}
	var counts failures
	s := &store{}
	chain := newChain(t, hookmw.ChainConfig{
		Trace:      hookmw.Trace{TracerProvider: spans},
		ClaimCheck: claimCheck(t, hookmw.ClaimCheckConfig{Store: s}),
		Observer:   &counts,
	})
	b := &broker{}
	capped := hook(text(10_000), envelope.MetadataHeaders, manyHeaders(100))
	// Room for the body beside 64 headers, and not beside 100.
	m := kafkawire.Marshaler{Source: "shop", MaxMessageBytes: 10_000*4/3 + 64*100 + 2000}
	b.Marshaler = m
	pub := chained(t, chain, b, nil)
	if err := pub.Publish("hooks", capped); err != nil {
		t.Fatal(err)
	}
	if len(s.puts) != 0 {
		t.Error("a body was stored that fits once the headers are capped")
	}
	span := spans.want(t, 0, "send hooks")
	got := b.receive(t, 0)
	if got.Metadata[envelope.MetadataTraceparent] != traceparent(span.sc) {
		t.Errorf("sent with the traceparent %q, want the span's", got.Metadata[envelope.MetadataTraceparent])
	}
	if n := strings.Count(got.Metadata[envelope.MetadataHeaders], `"x-`); n != 64 {
		t.Errorf("sent with %d headers, want 64", n)
	}
	if !slices.Equal(counts, failures{"count 36"}) {
		t.Errorf("counted %q", counts)
	}

	s.put = func(context.Context, string, *io.SectionReader) error { return errDown }
	err := pub.Publish("hooks", hook(text(70_000)))
	if err == nil {
		t.Fatal("published without its body")
	}
	if failed := spans.want(t, 1, "send hooks"); failed.status != codes.Error || !errors.Is(failed.errors[0], err) {
		t.Errorf("the span of a check-in that failed has status %v and errors %v", failed.status, failed.errors)
	}
}

// HeaderCaps keeps an Observer of its own.
func TestChainKeepsTheObserverOfHeaderCaps(t *testing.T) {
	var own, all failures
	chain := newChain(t, hookmw.ChainConfig{HeaderCaps: hookmw.HeaderCaps{Observer: &own}, Observer: &all})
	if err := chained(t, chain, &recorder{}, nil).Publish("hooks", hook(text(1), envelope.MetadataHeaders, manyHeaders(65))); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(own, failures{"count 1"}) || len(all) != 0 {
		t.Errorf("its own counted %q, the chain's %q", own, all)
	}
}

// On the consuming side the trace is outermost: what the gate refuses fails its span, and the
// log has that span. A duplicate is dropped before its body is fetched, and after the gate.
func TestChainConsumeOrder(t *testing.T) {
	spans := &spanRecorder{}
	s := &store{}
	seen, err := inbox.NewMemory(inbox.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	dedupe, err := hookmw.NewDeduplicate(hookmw.DeduplicateConfig{Seen: seen, Scope: "ship"})
	if err != nil {
		t.Fatal(err)
	}
	logged := &spanLog{}
	var counts failures
	chain := newChain(t, hookmw.ChainConfig{
		Trace:       hookmw.Trace{TracerProvider: spans},
		ClaimCheck:  claimCheck(t, hookmw.ClaimCheckConfig{Store: s}),
		Deduplicate: dedupe,
		Logger:      slog.New(logged),
		Observer:    &counts,
	})
	b := &broker{}
	if err := chained(t, chain, b, nil).Publish("hooks", hook(text(70_000), envelope.MetadataVerification, "ok")); err != nil {
		t.Fatal(err)
	}
	calls := 0
	h := chain.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		if calls++; !slices.Equal(msg.Payload, text(70_000)) {
			t.Error("the handler got another body")
		}
		return []*message.Message{message.NewMessage("made", nil)}, nil
	})
	made, err := h(b.receive(t, 0))
	if err != nil || len(made) != 1 {
		t.Fatalf("%d messages, error %v", len(made), err)
	}
	if got, want := made[0].Metadata[envelope.MetadataTraceparent], traceparent(spans.want(t, 1, "process").sc); got != want {
		t.Errorf("what the handler made has the traceparent %q, want %q", got, want)
	}
	gets := s.gets
	if made, err = h(b.receive(t, 0)); err != nil || len(made) != 0 || calls != 1 {
		t.Errorf("a duplicate: %d calls, %d messages, error %v", calls, len(made), err)
	}
	if s.gets != gets {
		t.Errorf("a duplicate's body was fetched: %d gets, then %d", gets, s.gets)
	}
	spans.want(t, 2, "process")

	// The line of NewChain is of no message.
	logged.spans = nil
	// The gate refuses it before the keys in it are believed.
	if _, err = h(open("", envelope.MetadataMalformed, "integrity", envelope.MetadataIdempotencyKey, "acme:stripe:evt_1")); err == nil {
		t.Fatal("a malformed message was handled")
	}
	refused := spans.want(t, 3, "process")
	if refused.status != codes.Error {
		t.Error("the span of a malformed message did not fail")
	}
	if !slices.Equal(logged.spans, []trace.SpanID{refused.sc.SpanID()}) {
		t.Errorf("the log has the spans %v, want that of the message", logged.spans)
	}
	if !slices.Equal(counts, failures{"refused integrity", "/permanent/integrity"}) {
		t.Errorf("counted %q", counts)
	}
}

// A spanLog is a log that keeps the span of each line.
type spanLog struct {
	slog.Handler
	spans []trace.SpanID
}

func (*spanLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *spanLog) Handle(ctx context.Context, _ slog.Record) error {
	l.spans = append(l.spans, trace.SpanContextFromContext(ctx).SpanID())
	return nil
}
