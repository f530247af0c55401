package metrics

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/outbox"
)

// A Config configures [New]. Registerer is required.
type Config struct {
	// Registerer is where the metrics are registered. Wrap it to give all of them a prefix or
	// more labels: prometheus.WrapRegistererWith.
	Registerer prometheus.Registerer
	// Topic returns the topic label of what lies on a topic. It must have few values. nil
	// gives all the empty one, which Prometheus takes for no label. It is called by several
	// goroutines at once.
	Topic func(topic string) string
	// Seconds are the upper bounds of the histograms of time, in seconds, increasing; nil
	// stands for prometheus.DefBuckets, from 5 ms to 10 s.
	Seconds []float64
}

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	if c.Registerer == nil {
		errs = append(errs, errors.New("metrics: no Registerer"))
	}
	for i, bound := range c.Seconds {
		if i > 0 && c.Seconds[i-1] >= bound {
			errs = append(errs, fmt.Errorf("metrics: Seconds[%d] is %v, not over %v", i, bound, c.Seconds[i-1]))
		}
	}
	return errors.Join(errs...)
}

// Collectors is the Observer of every part of this module that has one. Any number of them may
// share one, and any number of goroutines may use it.
type Collectors struct {
	topic  func(string) string
	counts [metricCount]*prometheus.CounterVec   // nil where the metric is a histogram
	times  [metricCount]*prometheus.HistogramVec // nil where it is a counter
}

// New returns collectors that are registered. What the Registerer already holds under the same
// name, type, labels and help is shared, so that several parts of a program may call New; in a
// histogram the buckets of the first call stand.
//
// The error joins everything that is wrong: with c, and each name that the Registerer holds
// as something else. Nothing is left registered then that was not before.
func New(c Config) (*Collectors, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Seconds == nil {
		c.Seconds = prometheus.DefBuckets
	}
	cs := &Collectors{topic: c.Topic}
	var (
		errs []error
		mine []prometheus.Collector
	)
	for i, d := range descriptions() {
		collector := d.collector(c.Seconds)
		err := c.Registerer.Register(collector)
		var held prometheus.AlreadyRegisteredError
		switch {
		case err == nil:
			mine = append(mine, collector)
		case errors.As(err, &held):
			collector, err = held.ExistingCollector, nil
		}
		if err == nil {
			var ok bool
			if d.Type == counter {
				cs.counts[i], ok = collector.(*prometheus.CounterVec)
			} else {
				cs.times[i], ok = collector.(*prometheus.HistogramVec)
			}
			if !ok {
				err = fmt.Errorf("it is held as a %T", collector)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("metrics: register %s: %w", d.Name, err))
		}
	}
	if len(errs) > 0 {
		for _, collector := range mine {
			c.Registerer.Unregister(collector)
		}
		return nil, errors.Join(errs...)
	}
	return cs, nil
}

func (c *Collectors) topicLabel(topic string) string {
	if c.topic == nil {
		return ""
	}
	return c.topic(topic)
}

const (
	codeOK    = "ok"
	codeOther = "other"
)

// codes are those that are labels.
var codes = []string{
	string(envelope.CodeInvalidJSON), string(envelope.CodeNotAnObject), string(envelope.CodeUnsupportedVersion),
	string(envelope.CodeInvalidField), string(envelope.CodeAmbiguousBody), string(envelope.CodeMissingBody),
	string(envelope.CodeInvalidBodyBase64), string(envelope.CodeSizeMismatch), string(envelope.CodeIntegrity),
	string(envelope.CodeTenantMismatch), string(envelope.CodeClaimNotEnabled),
	string(claimcheck.CodeNotFound), string(claimcheck.CodeForbidden), string(claimcheck.CodeUnavailable),
	string(claimcheck.CodeExists), string(claimcheck.CodeInvalidRef), string(claimcheck.CodeSignedRef),
	string(claimcheck.CodeInvalidTenant), string(claimcheck.CodeTooLarge), string(claimcheck.CodeRejected),
	string(claimcheck.CodeRefExpired),
	"message_too_large", "untrusted", "closed", "panic", "unknown",
}

// codeLabel is the label of a code of ours: a message may have come with any text as one.
func codeLabel(code string) string {
	switch {
	case code == "":
		return codeOK
	case slices.Contains(codes, code):
		return code
	}
	return codeOther
}

// Malformed counts a delivery that could not be read: it is that of marshaler.Observer.
func (c *Collectors) Malformed(topic string, code envelope.Code) {
	c.counts[malformed].WithLabelValues(c.topicLabel(topic), codeLabel(string(code))).Inc()
}

// Fallback counts a delivery that a Fallback read: it is that of marshaler.Observer.
func (c *Collectors) Fallback(topic string) {
	c.counts[fallback].WithLabelValues(c.topicLabel(topic)).Inc()
}

// CheckedIn counts a body that was to be stored: it is that of
// middleware.ClaimCheckObserver.
func (c *Collectors) CheckedIn(topic string, bytes int64, took time.Duration, code string) {
	c.claim(checkIns, topic, bytes, took, code)
}

// Redeemed counts a claim that was to be redeemed: it is that of
// middleware.ClaimCheckObserver.
func (c *Collectors) Redeemed(topic string, bytes int64, took time.Duration, code string) {
	c.claim(redemptions, topic, bytes, took, code)
}

// claim counts under first and the two metrics after it.
func (c *Collectors) claim(first int, topic string, bytes int64, took time.Duration, code string) {
	topic = c.topicLabel(topic)
	c.counts[first].WithLabelValues(topic, codeLabel(code)).Inc()
	if code == "" && bytes > 0 {
		c.counts[first+1].WithLabelValues(topic).Add(float64(bytes))
	}
	c.times[first+2].WithLabelValues(topic).Observe(took.Seconds())
}

// HeadersDropped counts n headers of one message that were not forwarded because of one cap,
// "count" or "bytes": it is that of middleware.HeaderObserver, and of package webhook.
func (c *Collectors) HeadersDropped(reason string, n int) {
	if reason != "count" && reason != "bytes" {
		reason = codeOther
	}
	c.counts[headersDropped].WithLabelValues(reason).Add(float64(n))
}

// Refused counts a message that the gate refused: it is that of middleware.MalformedObserver.
func (c *Collectors) Refused(topic string, code envelope.Code) {
	c.counts[refused].WithLabelValues(c.topicLabel(topic), codeLabel(string(code))).Inc()
}

// Untrusted counts a hook whose verification is not trusted: it is that of
// middleware.VerificationObserver.
func (c *Collectors) Untrusted(topic string, v envelope.Verification, action string) {
	status := string(v.Status)
	switch v.Status {
	case envelope.VerificationOK, envelope.VerificationFailed, envelope.VerificationSkipped:
	default:
		status = codeOther
	}
	c.counts[untrusted].WithLabelValues(c.topicLabel(topic), status, strconv.FormatBool(v.Flagged), action).Inc()
}

// DuplicateDropped counts a message that had been handled before: it is that of
// middleware.DuplicateObserver.
func (c *Collectors) DuplicateDropped(topic string) {
	c.counts[duplicates].WithLabelValues(c.topicLabel(topic)).Inc()
}

// HandlerFailed counts an attempt to handle a message that failed: it is that of
// middleware.FailureObserver. handler is a label: the names of handlers are the program's own.
func (c *Collectors) HandlerFailed(handler, class, code string) {
	c.counts[handlerFailures].WithLabelValues(handler, class, codeLabel(code)).Inc()
}

// Settled counts attempts at events of an outbox that have ended: it is that of outbox.Observer.
func (c *Collectors) Settled(outcome outbox.Outcome, events int) {
	c.counts[settled].WithLabelValues(string(outcome)).Add(float64(events))
}
