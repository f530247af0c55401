package outbox

import (
	"context"
	"time"
)

// settlePauses are the pauses before a statement that settles events is tried again. What fails
// then waits out its lease.
var settlePauses = [...]time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond}

// settle runs a statement that settles these rows, and tries again when it fails. The rows that
// it does not change are somebody else's by now. It returns the error of the last try.
func (e *engine) settle(o Outcome, rows []row, statement func(ctx context.Context) (int, error)) error {
	if len(rows) == 0 {
		return nil
	}
	log := e.log.With("id", rows[0].id, "events", len(rows), "outcome", string(o))
	ctx := context.WithoutCancel(e.stop)
	for try := 0; ; try++ {
		n, err := statement(ctx)
		if err == nil {
			e.observe(o, n)
			if fenced := len(rows) - n; fenced > 0 {
				// A statement whose first try failed may have been committed all the same.
				log.Warn("outbox: the lease ran out, and others have the events", "fenced", fenced, "tries", try+1)
				e.observe(OutcomeFenced, fenced)
			}
			return nil
		}
		if try == len(settlePauses) || try > 0 && e.stop.Err() != nil {
			log.Error("outbox: events are not settled", "error", err)
			return err
		}
		e.pause(settlePauses[try], nil)
	}
}

// unsettled notes that rows wait out their lease.
func (e *engine) unsettled(rows []row, err error) {
	if err != nil {
		e.observe(OutcomeUnsettled, len(rows))
	}
}

func (e *engine) delivered(c *claim, rows []row) {
	e.unsettled(rows, e.settle(OutcomeDelivered, rows, func(ctx context.Context) (int, error) { return e.store.delivered(ctx, c, rows) }))
}

// release gives back rows that were not tried.
func (e *engine) release(c *claim, rows []row) {
	e.unsettled(rows, e.settle(OutcomeReleased, rows, func(ctx context.Context) (int, error) { return e.store.release(ctx, c, rows) }))
}

// postpone writes why a row could not be tried.
func (e *engine) postpone(c *claim, r row, text string) {
	e.retry(OutcomePostponed, c, r, errorText(text), e.delay(r), false)
}

// delay is how long to wait before a row is tried again.
func (e *engine) delay(r row) time.Duration {
	return backoff(e.config.RetryBaseDelay, e.config.RetryMaxDelay, r.attempts-1, !e.config.NoJitter)
}

// failed settles a row whose attempt failed.
func (e *engine) failed(c *claim, r row, text string) {
	text = errorText(text)
	log := e.log.With("id", r.id, "attempts", r.attempts)
	o := OutcomeFailed
	if r.envelope != nil {
		log = log.With("event_id", r.envelope.EventID.String(), "event_type", r.envelope.EventType)
	} else {
		o, log = OutcomeUndecodable, log.With("reason", r.reason)
	}
	if r.attempts < int64(e.config.MaxAttempts) {
		delay := e.delay(r)
		log.Warn("outbox: an event failed and will be tried again", "delay", delay)
		e.retry(o, c, r, text, delay, true)
		return
	}
	log.Error("outbox: an event failed for the last time")
	err := e.settle(OutcomeDeadLettered, []row{r}, func(ctx context.Context) (int, error) {
		moved, err := e.store.bury(ctx, corpse{id: r.id, attempts: r.attempts, lease: c.lease}, text)
		if moved {
			return 1, err
		}
		return 0, err
	})
	if err != nil {
		// It is not lost, nor in anybody's way: it stays, with its attempts used up, until a
		// sweep finds it.
		e.retry(OutcomeUnsettled, c, r, text, e.config.RetryMaxDelay, true)
	}
}

// retry writes a failure.
func (e *engine) retry(o Outcome, c *claim, r row, text string, delay time.Duration, counts bool) {
	err := e.settle(o, []row{r}, func(ctx context.Context) (int, error) {
		n, err := e.store.retry(ctx, c, r, text, delay, counts)
		if err != nil {
			text = asciiText(text) // which every column takes
		}
		return n, err
	})
	e.unsettled([]row{r}, err)
}
