package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// The defaults of a [WorkerConfig], those of a Rust worker.
const (
	DefaultPollInterval    = 100 * time.Millisecond
	DefaultBatchSize       = 10
	DefaultMaxAttempts     = 5
	DefaultRetryBaseDelay  = time.Second
	DefaultRetryMaxDelay   = 300 * time.Second
	DefaultMinCycleDelay   = 5 * time.Millisecond
	DefaultDispatchTimeout = 30 * time.Second
	DefaultCloseTimeout    = 30 * time.Second
)

// maxBatch bounds a batch: the statements hold the ids of all its rows.
const maxBatch = 10_000

// A WorkerConfig says how events are taken from the table and tried again. The zero value has
// the defaults of a Rust worker.
type WorkerConfig struct {
	// PollInterval is the time between two looks at a table with nothing to do. 0 is 100 ms.
	PollInterval time.Duration
	// BatchSize is how many events are claimed at once, at most 10,000. 0 is 10, of a
	// [Relay] 100.
	BatchSize int
	// MaxAttempts is how often an event is tried before it goes to the dead letters. 0 is 5. It
	// must be the same for every worker of a table, in Rust too.
	MaxAttempts int
	// RetryBaseDelay is the delay after the first failure, which doubles with each further one.
	// 0 is 1 s.
	RetryBaseDelay time.Duration
	// RetryMaxDelay is the most that a delay grows to. 0 is 300 s.
	RetryMaxDelay time.Duration
	// NoJitter makes delays what they are said to be. Otherwise each is a random time of up to
	// that, so that events that failed together do not come again together.
	NoJitter bool
	// MinCycleDelay is the pause between two batches. 0 is 5 ms.
	MinCycleDelay time.Duration
	// DispatchTimeout bounds one attempt at an event. 0 is 30 s. Events are claimed for this
	// long, times the number of events in the batch: after a crash they wait out the rest.
	DispatchTimeout time.Duration
	// SettleTogether marks the events of a batch that were acked as delivered in one
	// transaction at the end of the batch, and not each when it is acked. That is faster, and
	// after a crash more of them are delivered again. A failure is always settled by itself. A
	// [Relay] works like this always.
	SettleTogether bool
	// CloseTimeout bounds how long the end of a subscription waits for the handler that is
	// running. 0 is 30 s. A [Relay] has no use for it.
	CloseTimeout time.Duration
	// Observer is told how attempts end. nil: nobody.
	Observer Observer
	// Logger gets what happens to events that are not simply delivered, and to the connection:
	// once when it is lost and once when it is back. It never gets a payload, and never the
	// text of a handler's error. nil: none.
	Logger *slog.Logger
}

// Validate reports everything that is wrong with c.
func (c WorkerConfig) Validate() error { return c.validate("WorkerConfig") }

func (c WorkerConfig) validate(of string) error {
	var errs []error
	for _, amount := range []struct {
		name  string
		value int64
	}{
		{"PollInterval", int64(c.PollInterval)},
		{"BatchSize", int64(c.BatchSize)},
		{"MaxAttempts", int64(c.MaxAttempts)},
		{"RetryBaseDelay", int64(c.RetryBaseDelay)},
		{"RetryMaxDelay", int64(c.RetryMaxDelay)},
		{"MinCycleDelay", int64(c.MinCycleDelay)},
		{"DispatchTimeout", int64(c.DispatchTimeout)},
		{"CloseTimeout", int64(c.CloseTimeout)},
	} {
		if amount.value < 0 {
			errs = append(errs, fmt.Errorf("outbox: %s.%s is negative", of, amount.name))
		}
	}
	if c.BatchSize > maxBatch {
		errs = append(errs, fmt.Errorf("outbox: %s.BatchSize is %d, at most %d", of, c.BatchSize, maxBatch))
	}
	if c.DispatchTimeout > 0 && c.DispatchTimeout < time.Millisecond {
		errs = append(errs, fmt.Errorf("outbox: %s.DispatchTimeout is %v, at least 1ms", of, c.DispatchTimeout))
	}
	return errors.Join(errs...)
}

func (c WorkerConfig) withDefaults(batch int) WorkerConfig {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&c.PollInterval, DefaultPollInterval)
	set(&c.RetryBaseDelay, DefaultRetryBaseDelay)
	set(&c.RetryMaxDelay, DefaultRetryMaxDelay)
	set(&c.MinCycleDelay, DefaultMinCycleDelay)
	set(&c.DispatchTimeout, DefaultDispatchTimeout)
	set(&c.CloseTimeout, DefaultCloseTimeout)
	if c.BatchSize == 0 {
		c.BatchSize = batch
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = DefaultMaxAttempts
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
