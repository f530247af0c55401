package hexeract

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

const (
	// sharedEvents is how many events two workers share.
	sharedEvents = 10_000
	// poisonEvery is how often one of them fails wherever it is handled.
	poisonEvery = 100
	poisonNote  = "poison"
)

// A ledger counts which side was given which event how often.
type ledger struct {
	mu   sync.Mutex
	seen map[uuid.UUID][2]int
}

const (
	byUs = iota
	byRust
)

func (l *ledger) add(id uuid.UUID, side int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.seen[id]
	n[side]++
	l.seen[id] = n
}

// fill writes events, every third of them in Rust and every hundredth poison, and returns what
// each is.
func fill(t *testing.T, d *outboxDatabase, o *outbox.Outbox, peer *OutboxPeer, events int) (poison map[uuid.UUID]bool) {
	t.Helper()
	poison = make(map[uuid.UUID]bool)
	tx, err := d.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	note := func(n int) string {
		if n%poisonEvery == poisonEvery/2 {
			return poisonNote
		}
		return fmt.Sprint("order ", n)
	}
	theirs := events / 10 // each a transaction of its own
	for n := range events - theirs {
		id, err := o.PublishInTx(t.Context(), tx, order(note(n)))
		if err != nil {
			t.Fatal(err)
		}
		poison[id] = note(n) == poisonNote
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for n := range theirs {
		poison[peer.Publish(t, PublishEvent{Table: o.Table(), Order: order(note(n))})] = note(n) == poisonNote
	}
	return poison
}

// consume handles events by a worker of ours until stop is called.
func (l *ledger) consume(t *testing.T, d *outboxDatabase, o *outbox.Outbox) (stop func()) {
	t.Helper()
	messages, end := d.subscribe(t, o, worker())
	var done sync.WaitGroup
	done.Go(func() {
		for msg := range messages {
			e, err := outbox.FromMessage(msg)
			if err != nil {
				t.Error(err)
				return
			}
			event, err := outbox.Decode[OrderPlaced](e)
			if err != nil {
				t.Error(err)
				return
			}
			l.add(e.EventID, byUs)
			if event.Note == poisonNote {
				msg.Nack()
			} else {
				msg.Ack()
			}
		}
	})
	return func() { end(); done.Wait() }
}

// check checks that every event was delivered, once but for the poison, whose every attempt
// counts, and that the poison is in the dead letters.
func (l *ledger) check(t *testing.T, d *outboxDatabase, o *outbox.Outbox, poison map[uuid.UUID]bool) {
	t.Helper()
	var sides [2]int
	twice, lost, poisoned := 0, 0, 0
	for id, bad := range poison {
		n := l.seen[id]
		sides[byUs] += n[byUs]
		sides[byRust] += n[byRust]
		switch {
		case bad:
			poisoned++
			if n[byUs]+n[byRust] < 3 {
				t.Errorf("the poison event %s was tried %d times, want 3", id, n)
			}
		case n[byUs]+n[byRust] == 0:
			lost++
		case n[byUs]+n[byRust] > 1:
			twice++
		}
	}
	t.Logf("%d events: %d deliveries by us, %d by Rust, %d events delivered twice, %d dead letters",
		len(poison), sides[byUs], sides[byRust], twice, poisoned)
	if lost > 0 {
		t.Errorf("%d events were never delivered", lost)
	}
	if sides[byUs] == 0 || sides[byRust] == 0 {
		t.Errorf("one side had nothing to do: %v", sides)
	}
	if len(l.seen) != len(poison) {
		t.Errorf("%d events were delivered, %d were written", len(l.seen), len(poison))
	}
	d.want(t, o.DeadLetterTable(), "attempts = 3", poisoned)
	d.want(t, o.Table(), "delivered_at IS NOT NULL", len(poison)-poisoned)
	d.want(t, o.Table(), "delivered_at IS NULL", 0)
}

// A worker of ours and one of Rust's share a table: every event is delivered at least once, by
// either, and what fails on both sides ends in the dead letters after the attempts of both.
func TestOutboxShared(t *testing.T) {
	t.Parallel()
	onPostgres(t, func(t *testing.T, d *outboxDatabase) {
		peer, o := StartOutbox(t, d.address), d.apply(t)
		l := ledger{seen: make(map[uuid.UUID][2]int)}
		poison := fill(t, d, o, peer, suite.Count(sharedEvents))
		rust := work(o)
		rust.Fail = poisonNote
		peer.Work(t, rust)
		stop := l.consume(t, d, o)
		l.drain(t, d, o, peer, 0)
		stop()
		for _, h := range peer.Stop(t) {
			l.add(h.EventID, byRust)
		}
		l.check(t, d, o, poison)
	})
}

// On SQLite the two take turns, since there is one worker at a time, and each goes on where the
// other has ended.
func TestOutboxInTurns(t *testing.T) {
	t.Parallel()
	onSQLite(t, func(t *testing.T, d *outboxDatabase) {
		o := d.apply(t)
		l := ledger{seen: make(map[uuid.UUID][2]int)}
		events := suite.Count(sharedEvents)
		peer := StartOutbox(t, d.address)
		poison := fill(t, d, o, peer, events)
		const turns = 4
		for turn := range turns {
			left := events * (turns - 1 - turn) / turns
			if turn%2 == 0 {
				stop := l.consume(t, d, o)
				l.drain(t, d, o, peer, left)
				stop()
				continue
			}
			rust := work(o)
			rust.Fail = poisonNote
			peer.Work(t, rust)
			l.drain(t, d, o, peer, left)
			for _, h := range peer.Stop(t) {
				l.add(h.EventID, byRust)
			}
			peer = StartOutbox(t, d.address)
		}
		l.check(t, d, o, poison)
	})
}

// drain notes what Rust handles until at most so many events are neither delivered nor dead.
func (l *ledger) drain(t *testing.T, d *outboxDatabase, o *outbox.Outbox, peer *OutboxPeer, left int) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(2 * suite.Timeout); ; {
		select {
		case h := <-peer.handled:
			l.add(h.EventID, byRust)
		case <-tick.C:
			if d.count(t, o.Table(), "delivered_at IS NULL") <= left {
				return
			}
		case <-peer.ended:
			t.Fatal("the program ended")
		case <-over:
			t.Fatalf("%d events are left", d.count(t, o.Table(), "delivered_at IS NULL"))
		}
	}
}
