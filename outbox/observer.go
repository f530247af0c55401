package outbox

// An Outcome is how an attempt at an event ended. Outcomes are stable: they are labels of
// metrics.
type Outcome string

// The outcomes.
const (
	// OutcomeDelivered: the event was acked or published.
	OutcomeDelivered Outcome = "delivered"
	// OutcomeFailed: the attempt failed, and there will be another one.
	OutcomeFailed Outcome = "failed"
	// OutcomeUndecodable: the row is no event that can be decoded. It counts as a failure.
	OutcomeUndecodable Outcome = "undecodable"
	// OutcomeDeadLettered: the last attempt failed, and the row was moved to the dead letters.
	OutcomeDeadLettered Outcome = "dead_lettered"
	// OutcomePostponed: a publisher could not be reached, which does not count as an attempt.
	OutcomePostponed Outcome = "postponed"
	// OutcomeReleased: the event was claimed and given back without an attempt, at the end of a
	// worker or of its lease, or behind an event of its subject that failed.
	OutcomeReleased Outcome = "released"
	// OutcomeFenced: the lease had run out and somebody else had the row, so that nothing was
	// written.
	OutcomeFenced Outcome = "fenced"
	// OutcomeUnsettled: the database did not take the result. The row waits out its lease and
	// is delivered again.
	OutcomeUnsettled Outcome = "unsettled"
)

// An Observer counts what workers and relays do. Its methods are called by several goroutines at
// once, and must not block.
type Observer interface {
	// Settled is called when attempts at this many events have ended.
	Settled(outcome Outcome, events int)
}
