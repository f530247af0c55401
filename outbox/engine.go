package outbox

import (
	"context"
	"database/sql"
	"log/slog"
	"time"
)

const (
	// minDrain is how long batches are taken one behind the other before the search begins at
	// the start again, or maxShare times as long as that took, if that is longer. So long a row
	// may wait that was committed late, or came due again, while a full table is worked off.
	minDrain = time.Second
	maxShare = 20
	// maxOutage is the most that the pause grows to while the database does not answer.
	maxOutage = 5 * time.Second
)

// An engine claims batches and settles what became of them: what a Subscriber and a Relay have
// in common. It belongs to one goroutine.
type engine struct {
	store  *store
	config WorkerConfig
	log    *slog.Logger
	stop   context.Context // ends with the work
	wake   <-chan struct{} // or nil

	down   int // how many claims failed in a row
	swept  time.Time
	behind int64     // where the next search goes on, or 0: at the start
	again  time.Time // when to search from the start again
}

func newEngine(ctx context.Context, o *Outbox, db *sql.DB, c WorkerConfig, want demand) *engine {
	want.maxAttempts, want.batch, want.timeout = c.MaxAttempts, c.BatchSize, c.DispatchTimeout
	return &engine{
		store: newStore(o, db, want), config: c, stop: ctx,
		log: c.Logger.With("table", o.config.Table),
	}
}

// run hands out batches until the engine is stopped. handle returns how long to pause before
// the next one.
func (e *engine) run(handle func(*claim) time.Duration) {
	for e.stop.Err() == nil {
		e.sweep()
		after := e.behind
		begin := time.Now()
		if begin.After(e.again) {
			after = 0
		}
		e.behind = 0
		// What has begun is not broken off: nobody would know whether the rows are claimed.
		c, err := e.store.claim(context.WithoutCancel(e.stop), after)
		if after == 0 {
			now := time.Now()
			e.again = now.Add(max(minDrain, maxShare*now.Sub(begin)))
		}
		switch {
		case err != nil:
			e.pause(e.outage(err), nil)
			continue
		case len(c.rows) == 0 && c.contended:
			e.up()
			e.pause(e.config.MinCycleDelay, nil)
			continue
		case len(c.rows) == 0 && after != 0:
			continue
		case len(c.rows) == 0:
			e.up()
			e.pause(e.config.PollInterval, e.wake)
			continue
		}
		e.up()
		if len(c.rows) >= e.config.BatchSize {
			e.behind = c.rows[len(c.rows)-1].id
		}
		e.pause(handle(c), nil)
	}
}

// pause waits, until the engine is stopped or woken.
func (e *engine) pause(d time.Duration, wake <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-e.stop.Done():
	case <-wake:
	case <-timer.C:
	}
}

// outage notes that the database did not answer, and returns how long to leave it alone.
func (e *engine) outage(err error) time.Duration {
	if e.store.d.IsConflict(err) {
		e.log.Debug("outbox: another transaction is in the way", "error", err)
		return e.config.PollInterval
	}
	if e.down == 0 {
		e.log.Error("outbox: no events can be claimed", "error", err)
	}
	e.down++
	return min(e.config.PollInterval<<min(e.down-1, 10), max(maxOutage, e.config.PollInterval))
}

func (e *engine) up() {
	if e.down > 0 {
		e.log.Info("outbox: events can be claimed again", "failures", e.down)
		e.down = 0
	}
}

// sweep moves events to the dead letters whose last attempt has left no result: its worker
// crashed. At most once in the time of an attempt.
func (e *engine) sweep() {
	if !e.swept.IsZero() && time.Since(e.swept) < e.config.DispatchTimeout {
		return
	}
	ctx := context.WithoutCancel(e.stop)
	found, err := e.store.exhausted(ctx)
	if err != nil {
		e.log.Debug("outbox: no search for events without a result", "error", err) // a claim will say so
	}
	for _, r := range found {
		text := "the last attempt left no result"
		if r.lastError != "" {
			text += "; before that: " + r.lastError
		}
		moved, err := e.store.bury(ctx, r, errorText(text))
		if err != nil {
			e.log.Error("outbox: an event whose attempts are used up stays where it is", "id", r.id, "error", err)
		} else if moved {
			e.log.Error("outbox: the last attempt left no result, the event is dead-lettered", "id", r.id)
			e.observe(OutcomeDeadLettered, 1)
		}
	}
	e.swept = time.Now()
}

func (e *engine) observe(o Outcome, events int) {
	if e.config.Observer != nil && events > 0 {
		e.config.Observer.Settled(o, events)
	}
}

// remains reports whether enough of the lease is left to try one more event of the claim: half
// the time of an attempt. Its deadline is the end of the lease at the latest.
func (e *engine) remains(c *claim) bool { return time.Until(c.until) >= e.config.DispatchTimeout/2 }
