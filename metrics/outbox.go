package metrics

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watermill-envelope/envelope/outbox"
)

// An OutboxConfig configures [NewOutbox]. Registerer and Stats are required.
type OutboxConfig struct {
	// Registerer is where the gauges are registered.
	Registerer prometheus.Registerer
	// Stats asks the database, at each scrape: outbox.Outbox.Stats, with the connections and the
	// number of attempts. It is called by several goroutines at once.
	Stats func(ctx context.Context) (outbox.Stats, error)
	// Table is the label of the gauges, by which those of several tables differ.
	Table string
	// Timeout is how long Stats may take, 5 seconds unless set. It has to be shorter than that of
	// the scrape.
	Timeout time.Duration
}

// Validate reports everything that is wrong with c.
func (c OutboxConfig) Validate() error {
	var errs []error
	if c.Registerer == nil {
		errs = append(errs, errors.New("metrics: no Registerer"))
	}
	if c.Stats == nil {
		errs = append(errs, errors.New("metrics: no Stats"))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("metrics: Timeout is %v", c.Timeout))
	}
	return errors.Join(errs...)
}

const defaultStatsTimeout = 5 * time.Second

// mostAttempts is the largest number of attempts that is a label of its own.
const mostAttempts = 20

// Outbox are the gauges of an outbox: how many events are in which state, and how old the oldest
// undelivered one is. Each scrape asks the database. While that fails or takes too long,
// envelope_outbox_up is 0 and the others are absent, so that nobody takes an old number for a new
// one.
type Outbox struct {
	config OutboxConfig
	descs  [outboxMetricCount]*prometheus.Desc
}

var _ prometheus.Collector = (*Outbox)(nil)

// NewOutbox returns gauges that are registered. It does not ask the database.
func NewOutbox(c OutboxConfig) (*Outbox, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Timeout == 0 {
		c.Timeout = defaultStatsTimeout
	}
	o := &Outbox{config: c}
	for i, d := range outboxDescriptions() {
		// The table is the first label, and the same for all.
		o.descs[i] = prometheus.NewDesc(d.Name, d.Help, d.Labels[1:], prometheus.Labels{"table": c.Table})
	}
	if err := c.Registerer.Register(o); err != nil {
		return nil, fmt.Errorf("metrics: register the outbox of table %.64q: %w", c.Table, err)
	}
	return o, nil
}

// Describe sends what there may be: it is that of prometheus.Collector.
func (o *Outbox) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range o.descs {
		ch <- d
	}
}

// Collect asks the database: it is that of prometheus.Collector.
func (o *Outbox) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), o.config.Timeout)
	defer cancel()
	gauge := func(metric int, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(o.descs[metric], prometheus.GaugeValue, value, labels...)
	}
	s, err := o.config.Stats(ctx)
	if err != nil {
		gauge(outboxUp, 0)
		return
	}
	gauge(outboxUp, 1)
	gauge(outboxOldest, s.OldestAge.Seconds())
	gauge(outboxEvents, float64(s.Due), "due")
	gauge(outboxEvents, float64(s.Waiting), "waiting")
	gauge(outboxEvents, float64(s.Exhausted), "exhausted")
	gauge(outboxEvents, float64(s.DeadLetters), "dead")
	more := int64(0)
	for attempts, n := range s.Attempts {
		if attempts < 0 || attempts > mostAttempts {
			more += n
			continue
		}
		gauge(outboxAttempts, float64(n), strconv.Itoa(attempts))
	}
	if more > 0 {
		gauge(outboxAttempts, float64(more), codeOther)
	}
}

// The indexes of the gauges in outboxDescriptions.
const (
	outboxUp = iota
	outboxOldest
	outboxEvents
	outboxAttempts
	outboxMetricCount
)

const gaugeType = "gauge"

func outboxDescriptions() [outboxMetricCount]Description {
	return [outboxMetricCount]Description{
		outboxUp: {
			"envelope_outbox_up", gaugeType,
			[]string{"table"},
			"Whether the database answered: 1, or 0, when the other gauges are absent.",
		},
		outboxOldest: {
			"envelope_outbox_oldest_seconds", gaugeType,
			[]string{"table"},
			"How long ago the oldest event that workers still have to deliver was written, or 0.",
		},
		outboxEvents: {
			"envelope_outbox_events", gaugeType,
			[]string{"table", "state"},
			"Events that are due, waiting, exhausted or dead letters, by state.",
		},
		outboxAttempts: {
			"envelope_outbox_undelivered_events", gaugeType,
			[]string{"table", "attempts"},
			"Undelivered events, by the number of attempts that were begun: to 20, or other.",
		},
	}
}

// OutboxDescriptions returns what each gauge of [NewOutbox] is, in the order of the documentation.
func OutboxDescriptions() []Description {
	all := outboxDescriptions()
	return all[:]
}
