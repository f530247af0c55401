// Package tracetree is a collector of spans for programs that show what was traced in them.
package tracetree

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A Collector keeps every span that it is given, in memory: it is the exporter of programs that
// end soon. The zero value is ready to use, by several goroutines at once.
//
//	spans := new(tracetree.Collector)
//	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
type Collector struct {
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
}

// ExportSpans implements [sdktrace.SpanExporter].
func (c *Collector) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, spans...)
	return nil
}

// Shutdown implements [sdktrace.SpanExporter]. The spans stay.
func (c *Collector) Shutdown(context.Context) error { return nil }

// Write writes the spans as trees, one line each, in the order in which they started: under
// its parent, or, where it has none that is here, under the first span that it is linked to,
// with dots in place of a line. The system follows the name, and what went wrong.
func (c *Collector) Write(w io.Writer) error {
	c.mu.Lock()
	spans := slices.Clone(c.spans)
	c.mu.Unlock()
	slices.SortStableFunc(spans, func(a, b sdktrace.ReadOnlySpan) int {
		return a.StartTime().Compare(b.StartTime())
	})

	t := tree{under: make(map[trace.SpanID][]node)}
	here := make(map[trace.SpanID]bool, len(spans))
	for _, s := range spans {
		here[s.SpanContext().SpanID()] = true
	}
	for _, s := range spans {
		n := node{span: s}
		on := s.Parent().SpanID()
		if !here[on] {
			on, n.linked = linkedTo(s, here)
		}
		t.under[on] = append(t.under[on], n)
	}
	for _, n := range t.under[trace.SpanID{}] {
		t.write(n, "", "")
	}
	_, err := io.WriteString(w, t.text.String())
	return err
}

// linkedTo returns the first span that is here and that s is linked to.
func linkedTo(s sdktrace.ReadOnlySpan, here map[trace.SpanID]bool) (id trace.SpanID, ok bool) {
	for _, l := range s.Links() {
		if id := l.SpanContext.SpanID(); here[id] && id != s.SpanContext().SpanID() {
			return id, true
		}
	}
	return trace.SpanID{}, false
}

type node struct {
	span   sdktrace.ReadOnlySpan
	linked bool
}

type tree struct {
	under map[trace.SpanID][]node // the zero id has the roots
	text  strings.Builder
}

// write writes n and what is under it: first before its own line, and rest before the others.
func (t *tree) write(n node, first, rest string) {
	t.text.WriteString(first + n.span.Name())
	for _, a := range n.span.Attributes() {
		if a.Key == "messaging.system" {
			t.text.WriteString(" [" + a.Value.AsString() + "]")
		}
	}
	if s := n.span.Status(); s.Code == codes.Error {
		t.text.WriteString(": " + cmp.Or(s.Description, "failed"))
	}
	t.text.WriteByte('\n')
	under := t.under[n.span.SpanContext().SpanID()]
	for i, child := range under {
		corner, bar := "├", "│  "
		if i == len(under)-1 {
			corner, bar = "└", "   "
		}
		dash := "─ "
		if child.linked {
			dash = "╌ "
		}
		t.write(child, rest+corner+dash, rest+bar)
	}
}
