package outbox

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// A Subscriber consumes the events of the table like messages of a topic. It may be used by
// several goroutines at once, and any number of them, in any number of processes, may share a
// table, on SQLite one process.
//
// # What is promised
//
// An event is delivered at least once, again after every failure until MaxAttempts, and then
// moved to the dead letters. Events are handed out in the order of their ids, as far as they are
// due: one that failed comes again later, behind others of its subject too; only a [Relay] keeps
// the order within a subject. A row that was committed behind rows with higher ids is found like
// every other.
//
// A row is claimed for a time, its lease: while it lasts no other worker gets it. When it has
// run out, because the process was stopped for long, the row may be delivered by another worker
// as well; what became of it here then changes nothing in the table (it is logged, and counted
// as [OutcomeFenced]): attempts, error, delay, and whether it counts as delivered, are the other
// one's. A lease that has run out counts as long as nobody else has claimed the row.
//
// That holds among our own workers. A Rust worker claims by the same rule, so that it never gets
// a row whose lease lasts, and its claim makes our late settling void as well. But its own
// statements know rows by event_id only: one that comes late overwrites what we wrote. An
// event that we have failed may then count as delivered, which it was, by the Rust worker; and
// one that we have delivered keeps that, and gets an error and a time beside it. What we have
// moved to the dead letters it finds no more; and it moves there what it takes for exhausted, even
// if we have it claimed or have delivered it. A Rust worker also takes events of every type,
// whatever our subscriptions ask for: both must handle all of them.
//
// A row whose last attempt has left no result, since its worker crashed, is moved to the dead
// letters when its lease has been over for a DispatchTimeout. A Rust worker leaves such rows
// where they are.
//
// A row that cannot be decoded (text in the place of the 16 bytes of a UUID, a payload that is no
// JSON) counts as a failure each time, with the reason in last_error, and ends in the dead
// letters.
type Subscriber struct {
	outbox *Outbox
	db     *sql.DB
	config WorkerConfig

	open  context.Context // ends with Close
	close context.CancelFunc

	mu  sync.Mutex
	all sync.WaitGroup
}

var errClosed = errors.New("outbox: the subscriber is closed")

// Subscriber returns a subscriber to the table in db, whose database must be of the dialect of
// o. It does not ask the database. db stays the caller's to close.
//
// A subscription needs one connection at a time, and none while a handler is running. For SQLite
// it sees to it by itself that a transaction begins with the right to write; how long it waits for
// other writers is a matter of the connection (busy_timeout).
func (o *Outbox) Subscriber(db *sql.DB, c WorkerConfig) (*Subscriber, error) {
	var errs []error
	if db == nil {
		errs = append(errs, errors.New("outbox: no database"))
	}
	if err := errors.Join(append(errs, c.Validate())...); err != nil {
		return nil, err
	}
	s := &Subscriber{outbox: o, db: db, config: c.withDefaults(DefaultBatchSize)}
	s.open, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Subscribe delivers the events of one type, or of all types when eventType is empty, one at a
// time: the next one when the one before is settled. Events of other types it leaves alone; some
// worker should want them, since a search walks over all that is not delivered.
//
// Each message is an [Envelope.Message], and has to be acked or nacked, by the router or by
// whoever reads the Go channel. A Nack, which a handler's error or panic amounts to in a router,
// is a failed attempt; see [KeepError]. Neither within DispatchTimeout is one too: the context of
// the message ends then, and what the handler still does has no effect on the event. The context
// has the values of ctx, but does not end with it.
//
// The subscription outlives the connections to the database; while there are none it tries
// again. The end of ctx ends it as Close does. The Go channel is closed at its end.
func (s *Subscriber) Subscribe(ctx context.Context, eventType string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open.Err() != nil {
		return nil, errClosed
	}
	values := context.WithoutCancel(ctx)
	stop, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.open, cancel)
	sub := &subscription{
		engine: newEngine(stop, s.outbox, s.db, s.config, demand{eventType: eventType}),
		values: values, out: make(chan *message.Message),
	}
	s.all.Go(func() {
		defer close(sub.out)
		defer cancel()
		defer unhook()
		sub.run(sub.handle)
	})
	return sub.out, nil
}

// Close ends every subscription: it hands out no more events, waits for the handlers that are
// running, for CloseTimeout at most, and gives back what was claimed and not handed out, without
// an attempt. An event whose handler takes longer waits out its lease. Closing twice is the same.
// The error is nil.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.all.Wait()
	return nil
}
