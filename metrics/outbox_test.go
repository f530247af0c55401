package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watermill-envelope/envelope/metrics"
	"github.com/watermill-envelope/envelope/outbox"
)

func TestOutbox(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	down := false
	stats := func(ctx context.Context) (outbox.Stats, error) {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > time.Minute {
			t.Errorf("a deadline at %v, %v", deadline, ok)
		}
		if down {
			return outbox.Stats{Due: 9}, errors.New("connection refused")
		}
		return outbox.Stats{
			OldestAge: 1500 * time.Millisecond, Due: 7, Waiting: 2, Exhausted: 1, DeadLetters: 3,
			Attempts: map[int]int64{0: 6, 1: 2, 21: 1, -1: 1},
		}, nil
	}
	for _, table := range []string{"a", "b"} {
		o, err := metrics.NewOutbox(metrics.OutboxConfig{Registerer: registry, Stats: stats, Table: table, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if table == "b" && !registry.Unregister(o) {
			t.Error("it was not registered")
		}
	}
	const want = `envelope_outbox_events state=dead table=a 3
envelope_outbox_events state=due table=a 7
envelope_outbox_events state=exhausted table=a 1
envelope_outbox_events state=waiting table=a 2
envelope_outbox_oldest_seconds table=a 1.5
envelope_outbox_undelivered_events attempts=0 table=a 6
envelope_outbox_undelivered_events attempts=1 table=a 2
envelope_outbox_undelivered_events attempts=other table=a 2
envelope_outbox_up table=a 1
`
	if got := gauges(t, registry); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, d := range metrics.OutboxDescriptions() {
		if !strings.Contains(want, d.Name+" ") || d.Type != "gauge" || d.Labels[0] != "table" {
			t.Errorf("%+v", d)
		}
	}
	// Old numbers are not shown for new ones.
	down = true
	if got := gauges(t, registry); got != "envelope_outbox_up table=a 0\n" {
		t.Errorf("%s", got)
	}
	if _, err := metrics.NewOutbox(metrics.OutboxConfig{Registerer: registry, Stats: stats, Table: "a"}); err == nil ||
		!strings.Contains(err.Error(), `metrics: register the outbox of table "a": `) {
		t.Errorf("the same table twice: %v", err)
	}
}

func TestOutboxConfig(t *testing.T) {
	const want = "metrics: no Registerer\nmetrics: no Stats\nmetrics: Timeout is -1ns"
	if _, err := metrics.NewOutbox(metrics.OutboxConfig{Timeout: -1}); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// gauges returns a line for each gauge.
func gauges(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, family := range families {
		for _, m := range family.GetMetric() {
			b.WriteString(family.GetName())
			for _, label := range m.GetLabel() {
				b.WriteString(" " + label.GetName() + "=" + label.GetValue())
			}
			fmt.Fprintf(&b, " %v\n", m.GetGauge().GetValue())
		}
	}
	return b.String()
}
