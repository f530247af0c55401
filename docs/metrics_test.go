package docs_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	"github.com/watermill-envelope/envelope/metrics"
	hookmw "github.com/watermill-envelope/envelope/middleware"
	"github.com/watermill-envelope/envelope/outbox"
)

func countEverything(registry prometheus.Registerer, store claimcheck.Store, use func(kafkawire.Marshaler, *hookmw.Chain)) error {
	counts, err := metrics.New(metrics.Config{Registerer: registry})
	if err != nil {
		return err
	}
	m := kafkawire.Marshaler{Source: "orders", Observer: counts}
	cc, err := hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: store, Observer: counts})
	if err != nil {
		return err
	}
	chain, err := hookmw.NewChain(hookmw.ChainConfig{ClaimCheck: cc, Logger: slog.Default(), Observer: counts})
	if err != nil {
		return err
	}
	use(m, chain)
	return nil
}

func countByTopic(registry prometheus.Registerer) (*metrics.Collectors, error) {
	return metrics.New(metrics.Config{
		Registerer: registry,
		Topic: func(topic string) string {
			switch topic {
			case "orders", "invoices":
				return topic
			}
			return "other"
		},
	})
}

// The table is the metrics.
func TestMetricsTable(t *testing.T) {
	var want strings.Builder
	for _, d := range metrics.Descriptions() {
		want.WriteString("| `" + d.Name + "` | " + d.Type + " | `" + strings.Join(d.Labels, "`, `") + "` | " + d.Help + " |\n")
	}
	if page := pages(t)["docs/metrics.md"]; !strings.Contains(page, "| --- | --- | --- | --- |\n"+want.String()+"\n") {
		t.Errorf("the page lacks the table\n%s", want.String())
	}
}

// The table of gauges is the gauges.
func TestOutboxTable(t *testing.T) {
	var want strings.Builder
	for _, d := range metrics.OutboxDescriptions() {
		want.WriteString("| `" + d.Name + "` | " + d.Type + " | `" + strings.Join(d.Labels, "`, `") + "` | " + d.Help + " |\n")
	}
	if page := pages(t)["docs/metrics.md"]; !strings.Contains(page, "| --- | --- | --- | --- |\n"+want.String()+"\n") {
		t.Errorf("the page lacks the table\n%s", want.String())
	}
}

func watchOutbox(registry prometheus.Registerer, events *outbox.Outbox, db *sql.DB) error {
	_, err := metrics.NewOutbox(metrics.OutboxConfig{
		Registerer: registry,
		Table:      events.Table(),
		Stats: func(ctx context.Context) (outbox.Stats, error) {
			return events.Stats(ctx, db, 5) // the workers' MaxAttempts
		},
	})
	return err
}

// The dashboard shows all of our metrics, Watermill's, and no other.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title, Description string
			ID                 int
			Targets            []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{
		// Those of Watermill's components/metrics.
		"subscriber_messages_received_total": false,
		"publish_time_seconds":               false,
		"handler_execution_time_seconds":     false,
	}
	labels := map[string]string{
		"subscriber_messages_received_total": "subscriber_name acked",
		"publish_time_seconds":               "publisher_name handler_name success le",
		"handler_execution_time_seconds":     "handler_name success le",
	}
	for _, d := range append(metrics.Descriptions(), metrics.OutboxDescriptions()...) {
		shown[d.Name] = false
		labels[d.Name] = strings.Join(append(d.Labels, "le"), " ")
	}
	// A counter's rate, or a gauge.
	selector := regexp.MustCompile(`(\w+)(?:\[\$__rate_interval\]|\)$)`)
	grouping := regexp.MustCompile(`by \(([^)]*)\)`)
	ids := make(map[int]bool)
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] {
			t.Errorf("%s: the id %d is taken", panel.Title, panel.ID)
		}
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			found := selector.FindAllStringSubmatch(target.Expr, -1)
			if len(found) != 1 || strings.Count(target.Expr, "[") > 1 {
				t.Errorf("%s: %s is not about one metric", panel.Title, target.Expr)
				continue
			}
			name := found[0][1]
			isRate := strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_total")
			if isRate != strings.Contains(target.Expr, "rate("+name+"[") {
				t.Errorf("%s: %s is no rate of a counter or of a histogram's buckets, nor a gauge", panel.Title, name)
			}
			name = strings.TrimSuffix(name, "_bucket")
			if _, known := shown[name]; !known {
				t.Errorf("%s: nobody has the metric %s", panel.Title, name)
			}
			shown[name] = true
			for _, by := range grouping.FindAllStringSubmatch(target.Expr, -1) {
				for label := range strings.SplitSeq(by[1], ", ") {
					if !strings.Contains(" "+labels[name]+" ", " "+label+" ") {
						t.Errorf("%s: %s has no label %s", panel.Title, name, label)
					}
				}
			}
		}
	}
	for name, is := range shown {
		if !is {
			t.Errorf("no panel shows %s", name)
		}
	}
}
