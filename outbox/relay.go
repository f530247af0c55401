package outbox

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// DefaultRelayBatchSize is the BatchSize of a [RelayConfig] unless set.
const DefaultRelayBatchSize = 100

// A RelayConfig says how a [Relay] publishes. The zero value publishes each event as a typed
// message to a topic named like its type.
type RelayConfig struct {
	WorkerConfig
	// Topic is the topic of an event. nil: its type.
	Topic func(*Envelope) string
	// Form makes the messages. nil: [TypedMessage].
	Form Form
	// EventType restricts the relay to one type of event. Empty: all.
	EventType string
	// Ordered keeps the order of events with the same subject: an event is published when those
	// with lower ids are. One that fails holds back the later ones of its subject, and no
	// others, until it is published or dead-lettered. Then they go on, so a consumer may see an
	// order with a gap. Every relay of the table has to be Ordered, and nobody else may consume
	// it. Events without a subject have no order.
	//
	// The order is that of the ids, which a database gives out as rows are inserted: of two
	// transactions that write to one subject at the same time, the one that commits last may
	// come last with a lower id. Where that matters they lock something that they share.
	//
	// Each batch asks for the earlier rows of its subjects by an index that holds the delivered
	// ones too: what is delivered should be purged.
	Ordered bool
	// Outage reports whether an error of the publisher is not about the event: such an attempt
	// does not count, so that no event is dead-lettered because a broker is away. nil:
	// envelope.IsTransient, by which the errors of this library's publishers say so; those of
	// others count, unless this function knows them. While events fail like this one behind the
	// other, and none does not, all of the table waits, up to 5 s between two looks.
	Outage func(error) bool
	// Waker wakes the relay up when there may be something to do, before PollInterval is over.
	// nil: none.
	Waker Waker
}

// Validate reports everything that is wrong with c.
func (c RelayConfig) Validate() error { return c.validate("RelayConfig") }

// A Relay publishes the events of the table. Any number of them, in any number of processes, may
// share a table, on SQLite one process.
//
// An event is published at least once: again when the publisher returned an error, or when the
// process ended or the database was lost between its publishing and the commit of that, then
// with up to a whole batch of others. The message is the same each time, and so is its UUID, by
// which a consumer knows it again (package inbox).
//
// A batch is published with one call for each topic. When a call fails its events are published
// one by one: those that the publisher had taken are published twice, and each that fails is
// settled by itself. What is published of a batch is settled in one transaction.
//
// The batch is claimed for the DispatchTimeout, 30 s unless set, whatever its size: that is how
// long events wait whose process was killed. What has not been tried after half of it is given
// back. What a [Subscriber] says about leases, dead letters, rows that cannot be decoded and
// Rust workers holds here too.
type Relay struct {
	outbox *Outbox
	db     *sql.DB
	pub    message.Publisher
	config RelayConfig
}

// Relay returns a relay from the table in db, whose database must be of the dialect of o, to a
// publisher. It does not ask the database. Both stay the caller's to close.
//
// The messages are open ones: the publisher seals them (package marshaler), or is any other that
// Watermill has. Publish has to return, at best by the deadline that the contexts of the messages
// have: the relay waits for it.
func (o *Outbox) Relay(db *sql.DB, pub message.Publisher, c RelayConfig) (*Relay, error) {
	var errs []error
	if db == nil {
		errs = append(errs, errors.New("outbox: no database"))
	}
	if pub == nil {
		errs = append(errs, errors.New("outbox: no publisher"))
	}
	if err := errors.Join(append(errs, c.Validate())...); err != nil {
		return nil, err
	}
	c.WorkerConfig = c.withDefaults(DefaultRelayBatchSize)
	if c.Topic == nil {
		c.Topic = func(e *Envelope) string { return e.EventType }
	}
	if c.Form == nil {
		c.Form = TypedMessage
	}
	if c.Outage == nil {
		c.Outage = envelope.IsTransient
	}
	return &Relay{outbox: o, db: db, pub: pub, config: c}, nil
}

// Run publishes until ctx ends. It finishes the call of the publisher that it is in, settles what
// was published, gives back the rest, and returns nil. What goes wrong meanwhile it logs and
// tries again; it never returns an error because of it. A Relay that runs several times at once is
// as good as several.
func (r *Relay) Run(ctx context.Context) error {
	e := newEngine(ctx, r.outbox, r.db, r.config.WorkerConfig, demand{eventType: r.config.EventType, whole: true, ordered: r.config.Ordered})
	if r.config.Waker != nil {
		wake := make(chan struct{}, 1)
		e.wake = wake
		waiting := make(chan struct{})
		go func() {
			defer close(waiting)
			r.listen(ctx, e, wake)
		}()
		defer func() { <-waiting }()
	}
	run := relayRun{engine: e, relay: r}
	e.run(run.handle)
	return nil
}

// listen passes on that there may be something to do.
func (r *Relay) listen(ctx context.Context, e *engine, wake chan<- struct{}) {
	failures := 0
	for ctx.Err() == nil {
		err := r.config.Waker.Wait(ctx)
		if err == nil {
			failures = 0
			select {
			case wake <- struct{}{}:
			default: // it will look anyway
			}
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if failures == 0 {
			e.log.Warn("outbox: the relay is not woken up, and looks by itself", "error", err, "interval", e.config.PollInterval)
		}
		failures++
		e.pause(min(time.Second<<min(failures-1, 5), 30*time.Second), nil)
	}
}
