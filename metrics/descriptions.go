package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// A Description says what one metric is.
type Description struct {
	Name   string
	Type   string // "counter" or "histogram"
	Labels []string
	Help   string
}

// The indexes of the metrics in descriptions.
const (
	headersDropped = iota
	malformed
	fallback
	checkIns
	checkInBytes
	checkInSeconds
	redemptions
	redeemedBytes
	redeemSeconds
	handlerFailures
	refused
	untrusted
	duplicates
	settled
	metricCount
)

const (
	counter   = "counter"
	histogram = "histogram"
)

// descriptions are the metrics, by index.
func descriptions() [metricCount]Description {
	return [metricCount]Description{
		headersDropped: {
			"ankusa_sink_headers_dropped_total", counter,
			[]string{"reason"},
			"Provider headers that were not forwarded because of a cap on their number or size, by cap.",
		},
		malformed: {
			"envelope_malformed_total", counter,
			[]string{"topic", "code"},
			"Deliveries that could not be read as an envelope, by the code of the check that failed.",
		},
		fallback: {
			"envelope_fallback_total", counter,
			[]string{"topic"},
			"Deliveries in the old format of a topic, which a Fallback or PassThrough read. Once it stands still, the option can go.",
		},
		checkIns: {
			"envelope_claim_checkins_total", counter,
			[]string{"topic", "code"},
			"Bodies that were to be stored by the claim check, by what became of them.",
		},
		checkInBytes: {
			"envelope_claim_checkin_bytes_total", counter,
			[]string{"topic"},
			"Bytes of the bodies that the claim check stored.",
		},
		checkInSeconds: {
			"envelope_claim_checkin_seconds", histogram,
			[]string{"topic"},
			"Time that storing a body took, or the call of Publish that it was stored with, successful or not.",
		},
		redemptions: {
			"envelope_claim_redemptions_total", counter,
			[]string{"topic", "code"},
			"Claims that were to be redeemed, by what became of them.",
		},
		redeemedBytes: {
			"envelope_claim_redeemed_bytes_total", counter,
			[]string{"topic"},
			"Bytes of the bodies that were redeemed.",
		},
		redeemSeconds: {
			"envelope_claim_redeem_seconds", histogram,
			[]string{"topic"},
			"Time that redeeming a claim took, successful or not.",
		},
		handlerFailures: {
			"envelope_handler_failures_total", counter,
			[]string{"handler", "class", "code"},
			"Attempts to handle a message that failed, behind the chain of middlewares: permanent ones for good.",
		},
		refused: {
			"envelope_refused_total", counter,
			[]string{"topic", "code"},
			"Messages that the gate in front of a handler refused: those that could not be read, and claims that nothing redeems.",
		},
		untrusted: {
			"envelope_untrusted_total", counter,
			[]string{"topic", "status", "flagged", "action"},
			"Deliveries of hooks whose verification is not trusted, by what was done: pass, drop or refuse.",
		},
		duplicates: {
			"envelope_duplicates_total", counter,
			[]string{"topic"},
			"Deliveries that no handler was called for, because the message had been handled before.",
		},
		settled: {
			"envelope_outbox_settled_total", counter,
			[]string{"outcome"},
			"Attempts of workers and relays at events of an outbox, by how they ended.",
		},
	}
}

// Descriptions returns what each metric is, in the order of the documentation.
func Descriptions() []Description {
	all := descriptions()
	return all[:]
}

// collector returns a new collector of d.
func (d Description) collector(seconds []float64) prometheus.Collector {
	if d.Type == counter {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, slices.Clone(d.Labels))
	}
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: seconds}, slices.Clone(d.Labels))
}
