package database

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

const (
	killBatch = 10
	// killLease is how long the events of a process wait that was killed.
	killLease = time.Second
)

// A killStep starts a relay and kills it at one place, and returns how many events were published
// that it could not mark.
type killStep struct {
	name string
	kill func(p *outboxPlace, k *taken) (unmarked int)
	lock bool // it needs a lock of the whole table
}

var killSteps = []killStep{
	{"waiting to claim", func(p *outboxPlace, _ *taken) int {
		defer p.lock()()
		c := p.task.start(p.t)
		p.awaitLocked()
		c.kill()
		return 0
	}, true},
	{"claimed, not published", func(p *outboxPlace, _ *taken) int {
		c := p.task.start(p.t)
		c.asked()
		c.kill()
		return 0
	}, false},
	{"published in part", func(p *outboxPlace, k *taken) int {
		c := p.task.start(p.t)
		ids := c.asked()
		ids = ids[:len(ids)/2]
		k.add(ids...)
		c.kill()
		return len(ids)
	}, false},
	{"published, without an answer", func(p *outboxPlace, k *taken) int {
		c := p.task.start(p.t)
		ids := c.asked()
		k.add(ids...)
		c.kill()
		return len(ids)
	}, false},
	{"waiting to settle", func(p *outboxPlace, k *taken) int {
		c := p.task.start(p.t)
		ids := c.asked()
		k.add(ids...)
		defer p.lock()()
		c.answer(true)
		p.awaitLocked()
		c.kill()
		return len(ids)
	}, true},
	{"settled", func(p *outboxPlace, k *taken) int {
		c := p.task.start(p.t)
		k.add(c.asked()...)
		c.answer(true)
		c.asked() // the next batch
		c.kill()
		return 0
	}, false},
}

// lock locks the table against all writers until the returned function is called.
func (p *outboxPlace) lock() (unlock func()) {
	p.t.Helper()
	conn, err := p.db.Conn(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	exec := func(statement string) {
		if _, err := conn.ExecContext(context.WithoutCancel(p.t.Context()), statement); err != nil {
			p.t.Errorf("%s: %v", statement, err)
		}
	}
	if p.task.Dialect == outbox.PostgreSQL {
		exec("BEGIN")
		exec("LOCK TABLE " + p.Table() + " IN SHARE MODE")
		return func() { exec("COMMIT"); conn.Close() }
	}
	exec("LOCK TABLES " + p.Table() + " WRITE")
	return func() { exec("UNLOCK TABLES"); conn.Close() }
}

// awaitLocked waits until somebody waits for the lock.
func (p *outboxPlace) awaitLocked() {
	p.t.Helper()
	query := "SELECT count(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for%%' AND info LIKE '%%%s%%'"
	if p.task.Dialect == outbox.PostgreSQL {
		query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%%%s%%'"
	}
	p.await(fmt.Sprintf(query, p.Table()), func(n int) bool { return n > 0 })
}

// A relay is killed at every step, again and again: every event is published, and again only
// those that it had published and not marked.
func TestOutboxRelayKilled(t *testing.T) {
	t.Parallel()
	onOutboxes(t, func(p *outboxPlace) {
		t, k := p.t, newTaken()
		p.task.Relay, p.task.Batch, p.task.Timeout = true, killBatch, killLease
		rounds := suite.Count(20)
		ids := p.put(rounds * (len(killSteps) + 2) * killBatch)
		kills, unmarked := 0, 0
		for range rounds {
			for _, step := range killSteps {
				if step.lock && p.task.Dialect == outbox.SQLite { // nobody can see who waits there
					continue
				}
				kills++
				unmarked += step.kill(p, k)
			}
		}
		if left := p.count("delivered_at IS NULL"); left < killBatch {
			t.Errorf("%d events are left, the last kills had nothing to do", left)
		}
		p.relay(k, p.task.worker(nil))
		p.want(0, "delivered_at IS NULL")
		again := k.check(t, ids, unmarked)
		p.wantDead(0)
		p.want(len(ids), "delivered_at IS NOT NULL AND attempts > 0")
		t.Logf("%d kills, %d events, %d published twice", kills, len(ids), again)
	})
}
