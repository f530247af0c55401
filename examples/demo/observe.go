package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/watermill-envelope/envelope/examples/internal/tracetree"
)

// A tracing is a provider of spans that can be turned on. While it is off it makes none, so that
// the hooks before that are passed on byte for byte, without a trace context.
type tracing struct {
	embedded.TracerProvider
	on    atomic.Bool
	sdk   *sdktrace.TracerProvider
	spans tracetree.Collector
	ended chan struct{} // one for each span
}

func newTracing() *tracing {
	t := &tracing{ended: make(chan struct{}, 64)}
	t.sdk = sdktrace.NewTracerProvider(sdktrace.WithSyncer(t))
	return t
}

// ExportSpans implements sdktrace.SpanExporter.
func (t *tracing) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := t.spans.ExportSpans(ctx, spans)
	for range spans {
		t.ended <- struct{}{}
	}
	return err
}

// Shutdown implements sdktrace.SpanExporter.
func (t *tracing) Shutdown(context.Context) error { return nil }

// Tracer implements trace.TracerProvider.
func (t *tracing) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return tracer{Tracer: t.sdk.Tracer(name, options...), on: &t.on}
}

type tracer struct {
	trace.Tracer
	on *atomic.Bool
}

func (t tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !t.on.Load() {
		return noop.Tracer{}.Start(ctx, name, options...)
	}
	return t.Tracer.Start(ctx, name, options...)
}

// spansOfAHook are those of one that goes all the way: sent to Kafka, handled by two groups, and
// sent on by one of them.
const spansOfAHook = 4

// traced sends a hook once more, with an SDK, and prints the tree of its spans.
func (d *demo) traced(ctx context.Context, c config, s stop) error {
	d.tracing.on.Store(true)
	t, err := d.send(ctx, stop{s.file, s.title + " once more, with OpenTelemetry"})
	if err != nil {
		return err
	}
	if t.status != http.StatusAccepted {
		return fmt.Errorf("the receiver answered %d %s", t.status, t.reply)
	}
	if t.delivery, err = d.next.next(ctx); err != nil {
		return err
	}
	if t.onNext, err = readWire(t.delivery.body); err != nil {
		return err
	}
	for range spansOfAHook {
		select {
		case <-d.tracing.ended:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the spans: %w", ctx.Err())
		}
	}
	var tree strings.Builder
	if err := d.tracing.spans.Write(&tree); err != nil {
		return err
	}
	label := "trace"
	for line := range strings.Lines(tree.String()) {
		d.line(label, "%s", strings.TrimSuffix(line, "\n"))
		label = ""
	}
	d.line(t.to.name, "traceparent %s", t.onNext.Traceparent)
	ids := check{name: "ids"}
	ids.equal(t.to.title, t.replyID, t.onNext.ID)
	carried := check{name: "traceparent"}
	if t.to.beside != nothing {
		carried.equal(t.to.title+" header", t.onNext.Traceparent, t.delivery.attributes["traceparent"])
	}
	if t.onNext.Traceparent == "" {
		carried.wrong = append(carried.wrong, "the JSON has none")
	}
	whole := check{name: "spans"}
	for _, want := range []string{"─ process " + c.topic + " [kafka]", "─ send " + c.out() + " [" + t.to.name + "]"} {
		if !strings.Contains(tree.String(), want) {
			whole.wrong = append(whole.wrong, want+" is missing")
		}
	}
	whole.equal("root", "send "+c.topic+" [kafka]", strings.SplitN(tree.String(), "\n", 2)[0])
	checks := []check{ids, carried, whole}
	d.checks("right", checks)
	d.judge(checks...)
	return nil
}

// metrics prints what was counted: no histogram's buckets, which are many.
func (d *demo) metrics(from prometheus.Gatherer) error {
	families, err := from.Gather()
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			return err
		}
	}
	d.printf("\n%s\n", d.paint(bold, "What Prometheus gets"))
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket{") {
			d.printf("   %s", line)
		}
	}
	return nil
}
