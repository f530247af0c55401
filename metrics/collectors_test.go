package metrics_test

import (
	"bufio"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/metrics"
	hookmw "github.com/watermill-envelope/envelope/middleware"
	"github.com/watermill-envelope/envelope/outbox"
)

var (
	_ marshaler.Observer        = (*metrics.Collectors)(nil)
	_ hookmw.ClaimCheckObserver = (*metrics.Collectors)(nil)
	_ hookmw.DuplicateObserver  = (*metrics.Collectors)(nil)
	_ hookmw.ChainObserver      = (*metrics.Collectors)(nil)
	_ outbox.Observer           = (*metrics.Collectors)(nil)
)

// exposed returns the lines that a scrape of g gets, without comments and buckets.
func exposed(t *testing.T, g prometheus.Gatherer) []string {
	t.Helper()
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(g, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	var lines []string
	for s := bufio.NewScanner(rec.Body); s.Scan(); {
		if line := s.Text(); !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket{") {
			lines = append(lines, line)
		}
	}
	return lines
}

func newCollectors(t *testing.T, c metrics.Config) *metrics.Collectors {
	t.Helper()
	cs, err := metrics.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

func TestCollectors(t *testing.T) {
	whole := func(topic string) string { return topic }
	tests := []struct {
		rule  string
		topic func(string) string
		count func(*metrics.Collectors)
		want  []string
	}{
		{
			rule:  "nothing is exposed of what never happened",
			count: func(*metrics.Collectors) {},
		},
		{
			rule: "topics are not told apart by default",
			count: func(c *metrics.Collectors) {
				c.Malformed("a", envelope.CodeIntegrity)
				c.Malformed("b", envelope.CodeIntegrity)
			},
			want: []string{`envelope_malformed_total{code="integrity",topic=""} 2`},
		},
		{
			rule:  "topics are what Topic makes of them",
			topic: func(topic string) string { return topic[:1] },
			count: func(c *metrics.Collectors) {
				c.Fallback("orders")
				c.Fallback("offers")
				c.Fallback("invoices")
				c.DuplicateDropped("orders")
			},
			want: []string{
				`envelope_duplicates_total{topic="o"} 1`,
				`envelope_fallback_total{topic="i"} 1`, `envelope_fallback_total{topic="o"} 2`,
			},
		},
		{
			rule: "a code that is not documented is other, whatever text it is",
			count: func(c *metrics.Collectors) {
				for _, code := range []envelope.Code{"too_new", "\xff", "\n", envelope.Code(strings.Repeat("x", 1<<20))} {
					c.Malformed("", code)
				}
			},
			want: []string{`envelope_malformed_total{code="other",topic=""} 4`},
		},
		{
			rule:  "a check-in: what became of it, bytes of what was stored, time of both",
			topic: whole,
			count: func(c *metrics.Collectors) {
				c.CheckedIn("orders", 1000, 2*time.Second, "")
				c.CheckedIn("orders", 500, time.Second, "")
				c.CheckedIn("orders", 70, time.Second, "unavailable")
			},
			want: []string{
				`envelope_claim_checkin_bytes_total{topic="orders"} 1500`,
				`envelope_claim_checkin_seconds_sum{topic="orders"} 4`,
				`envelope_claim_checkin_seconds_count{topic="orders"} 3`,
				`envelope_claim_checkins_total{code="ok",topic="orders"} 2`,
				`envelope_claim_checkins_total{code="unavailable",topic="orders"} 1`,
			},
		},
		{
			rule: "attempts at events, by how they ended",
			count: func(c *metrics.Collectors) {
				c.Settled(outbox.OutcomeDelivered, 100)
				c.Settled(outbox.OutcomeDelivered, 1)
				c.Settled(outbox.OutcomeFenced, 2)
			},
			want: []string{`envelope_outbox_settled_total{outcome="delivered"} 101`, `envelope_outbox_settled_total{outcome="fenced"} 2`},
		},
		{
			rule:  "a redemption, and a size from a message that is no size",
			topic: whole,
			count: func(c *metrics.Collectors) {
				c.Redeemed("orders", 1000, time.Second, "")
				c.Redeemed("orders", -1, time.Second, "")
				c.Redeemed("orders", 1000, time.Second, "not_found")
				c.Redeemed("orders", 1000, time.Second, "closed")
			},
			want: []string{
				`envelope_claim_redeem_seconds_sum{topic="orders"} 4`,
				`envelope_claim_redeem_seconds_count{topic="orders"} 4`,
				`envelope_claim_redeemed_bytes_total{topic="orders"} 1000`,
				`envelope_claim_redemptions_total{code="closed",topic="orders"} 1`,
				`envelope_claim_redemptions_total{code="not_found",topic="orders"} 1`,
				`envelope_claim_redemptions_total{code="ok",topic="orders"} 2`,
			},
		},
		{
			rule: "failures are told apart by handler, class and code",
			count: func(c *metrics.Collectors) {
				c.HandlerFailed("ship", "permanent", "not_found")
				c.HandlerFailed("ship", "unknown", "unknown")
				c.HandlerFailed("ship", "unknown", "unknown")
				c.HandlerFailed("bill", "unknown", "panic")
			},
			want: []string{
				`envelope_handler_failures_total{class="permanent",code="not_found",handler="ship"} 1`,
				`envelope_handler_failures_total{class="unknown",code="panic",handler="bill"} 1`,
				`envelope_handler_failures_total{class="unknown",code="unknown",handler="ship"} 2`,
			},
		},
		{
			rule: "hooks that are not trusted, whatever they call their status",
			count: func(c *metrics.Collectors) {
				c.Untrusted("a", envelope.Verification{Status: "failed"}, "drop")
				c.Untrusted("b", envelope.Verification{Status: "failed"}, "drop")
				c.Untrusted("a", envelope.Verification{Status: "ok", Flagged: true}, "refuse")
				c.Untrusted("a", envelope.Verification{Status: "OK"}, "pass")
				c.Untrusted("a", envelope.Verification{Status: "fine"}, "pass")
			},
			want: []string{
				`envelope_untrusted_total{action="drop",flagged="false",status="failed",topic=""} 2`,
				`envelope_untrusted_total{action="pass",flagged="false",status="other",topic=""} 2`,
				`envelope_untrusted_total{action="refuse",flagged="true",status="ok",topic=""} 1`,
			},
		},
		{
			rule: "what the gate refuses, by code",
			count: func(c *metrics.Collectors) {
				c.Refused("a", envelope.CodeClaimNotEnabled)
				c.Refused("a", "too_new")
			},
			want: []string{
				`envelope_refused_total{code="claim_not_enabled",topic=""} 1`,
				`envelope_refused_total{code="other",topic=""} 1`,
			},
		},
		{
			rule: "dropped headers count one by one, by cap",
			count: func(c *metrics.Collectors) {
				c.HeadersDropped("count", 8)
				c.HeadersDropped("bytes", 2)
				c.HeadersDropped("count", 1)
				c.HeadersDropped("whim", 1)
			},
			want: []string{
				`ankusa_sink_headers_dropped_total{reason="bytes"} 2`,
				`ankusa_sink_headers_dropped_total{reason="count"} 9`,
				`ankusa_sink_headers_dropped_total{reason="other"} 1`,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			tt.count(newCollectors(t, metrics.Config{Registerer: registry, Topic: tt.topic}))
			if got := exposed(t, registry); !slices.Equal(got, tt.want) {
				t.Errorf("exposed\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// Every code that this module documents is a label of its own.
func TestCodesAreLabels(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	c := newCollectors(t, metrics.Config{Registerer: registry})
	all := []envelope.Code{
		"invalid_json", "not_an_object", "unsupported_version", "invalid_field", "ambiguous_body", "missing_body",
		"invalid_body_base64", "size_mismatch", "integrity", "tenant_mismatch", "claim_not_enabled",
		"not_found", "forbidden", "unavailable", "exists", "invalid_ref", "signed_ref", "invalid_tenant",
		"too_large", "rejected", "ref_expired", "message_too_large", "untrusted", "closed", "panic", "unknown",
	}
	for _, code := range all {
		c.Malformed("", code)
	}
	got := exposed(t, registry)
	for _, code := range all {
		if !slices.Contains(got, `envelope_malformed_total{code="`+string(code)+`",topic=""} 1`) {
			t.Errorf("%s is no label of its own", code)
		}
	}
}

func TestNewSharesWhatIsRegistered(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	a := newCollectors(t, metrics.Config{Registerer: registry})
	b := newCollectors(t, metrics.Config{Registerer: registry, Seconds: []float64{1, 2}})
	a.Fallback("orders")
	b.Fallback("orders")
	a.Redeemed("orders", 1, time.Second, "")
	b.Redeemed("orders", 1, time.Second, "")
	got := exposed(t, registry)
	for _, want := range []string{
		`envelope_fallback_total{topic=""} 2`,
		`envelope_claim_redeem_seconds_count{topic=""} 2`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("exposed %q, want %s among them", got, want)
		}
	}
}

func TestNewReportsEverythingAndLeavesNothing(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(
		// Other labels than ours.
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: "envelope_malformed_total", Help: "h"}, []string{"tenant"}),
		// The same name, labels and help, and another type.
		prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ankusa_sink_headers_dropped_total", Help: metrics.Descriptions()[0].Help}, []string{"reason"}),
	)
	if _, err := metrics.New(metrics.Config{Registerer: registry}); err == nil ||
		!strings.Contains(err.Error(), "register envelope_malformed_total: ") ||
		!strings.Contains(err.Error(), "register ankusa_sink_headers_dropped_total: it is held as a *prometheus.GaugeVec") {
		t.Errorf("New: %v, want an error with both names", err)
	}
	for _, d := range metrics.Descriptions() {
		if d.Name == "envelope_malformed_total" || d.Name == "ankusa_sink_headers_dropped_total" {
			continue
		}
		other := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
		if err := registry.Register(other); err != nil {
			t.Errorf("%s was left registered: %v", d.Name, err)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	tests := []struct {
		rule   string
		config metrics.Config
		want   string
	}{
		{
			"all mistakes at once",
			metrics.Config{Seconds: []float64{1, 1, 0.5}},
			"metrics: no Registerer\nmetrics: Seconds[1] is 1, not over 1\nmetrics: Seconds[2] is 0.5, not over 1",
		},
		{"a Registerer is enough", metrics.Config{Registerer: prometheus.NewRegistry()}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			_, err := metrics.New(tt.config)
			validated := tt.config.Validate()
			if tt.want == "" {
				if err != nil || validated != nil {
					t.Errorf("New: %v, Validate: %v", err, validated)
				}
				return
			}
			if err == nil || err.Error() != tt.want || validated == nil || validated.Error() != tt.want {
				t.Errorf("New: %v\nValidate: %v\nwant %s", err, validated, tt.want)
			}
		})
	}
}

// What New registers is what Descriptions says.
func TestDescriptions(t *testing.T) {
	kept := &keeper{Registerer: prometheus.NewPedanticRegistry()}
	newCollectors(t, metrics.Config{Registerer: kept})
	all := metrics.Descriptions()
	if len(kept.collectors) != len(all) {
		t.Fatalf("%d collectors and %d descriptions", len(kept.collectors), len(all))
	}
	for i, d := range all {
		ch := make(chan *prometheus.Desc, 1)
		kept.collectors[i].Describe(ch)
		desc := (<-ch).String()
		for _, want := range append([]string{d.Name, d.Help}, d.Labels...) {
			if !strings.Contains(desc, want) {
				t.Errorf("%s lacks %q", desc, want)
			}
		}
		_, isCounter := kept.collectors[i].(*prometheus.CounterVec)
		if isCounter != (d.Type == "counter") || (d.Type != "counter" && d.Type != "histogram") {
			t.Errorf("%s is a %T, described as %s", d.Name, kept.collectors[i], d.Type)
		}
		if isCounter != strings.HasSuffix(d.Name, "_total") {
			t.Errorf("%s: a counter's name ends in _total, and no other's", d.Name)
		}
	}
}

// A keeper keeps what is registered.
type keeper struct {
	prometheus.Registerer
	collectors []prometheus.Collector
}

func (k *keeper) Register(c prometheus.Collector) error {
	k.collectors = append(k.collectors, c)
	return k.Registerer.Register(c)
}
