package database

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
	"github.com/watermill-envelope/envelope/outbox"
)

// fakeClock is the environment of a server whose clock is off by an offset such as "+3h".
func fakeClock(t *testing.T, offset string) []string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(found) == 0 {
		t.Fatalf("faketime is missing, which make integration installs: %v", err)
	}
	return []string{"LD_PRELOAD=" + found[0], "FAKETIME=" + offset, "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_NO_CACHE=1"}
}

// The clock of the database is hours before or behind ours: nothing of the outbox is by ours.
func TestOutboxClockSkew(t *testing.T) {
	t.Parallel()
	for _, skew := range []struct {
		offset string
		by     time.Duration
	}{{"+3h", 3 * time.Hour}, {"-3h", -3 * time.Hour}} {
		t.Run("PostgreSQL"+skew.offset, func(t *testing.T) {
			t.Parallel()
			server, err := servers.StartPostgres(suite.Context(t), servers.PostgresOptions{Env: fakeClock(t, skew.offset)})
			if err != nil {
				t.Fatal(err)
			}
			servers.CloseAfter(t, server)
			d := outboxOn{"PostgreSQL", "pgx", server.URL(), outbox.PostgreSQL}
			p := d.place(t, outbox.Config{})
			var seconds int64
			if err := p.db.QueryRowContext(t.Context(), "SELECT CAST(EXTRACT(EPOCH FROM now()) AS bigint)").Scan(&seconds); err != nil {
				t.Fatal(err)
			}
			if off := time.Until(time.Unix(seconds, 0)) - skew.by; off.Abs() > time.Minute {
				t.Fatalf("the database's clock is off by %v, want %v", time.Until(time.Unix(seconds, 0)), skew.by)
			}
			p.ticks(d)
		})
	}
}

// ticks checks what goes by the clock of the database: when an event is due, how long a lease
// lasts, when a failed event comes again, and what is written. there is the same database as
// another worker sees it.
func (p *outboxPlace) ticks(there outboxOn) {
	t, dialect := p.t, p.task.Dialect
	id := p.put(1)[0].String()
	other := open(t, there.driver, there.source)
	c := p.task.worker(nil)
	c.DispatchTimeout, c.RetryBaseDelay, c.NoJitter = time.Hour, 300*time.Millisecond, true
	c.RetryMaxDelay = c.RetryBaseDelay
	first, err := p.Subscriber(p.db, c)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	messages, err := first.Subscribe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	// It is due at once, and claimed for an hour.
	msg := receiveEvent(t, messages)
	if msg.UUID != id {
		t.Errorf("got %s, want %s", msg.UUID, id)
	}
	within := func(column string, from, to time.Duration) {
		t.Helper()
		var n int
		query := "SELECT count(*) FROM " + p.Table() + " WHERE " + column + " > " + dialect.NowPlus(dialect.Placeholder(1)) +
			" AND " + column + " <= " + dialect.NowPlus(dialect.Placeholder(2))
		if err := other.QueryRowContext(t.Context(), query, dialect.Interval(from), dialect.Interval(to)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != 1 {
			t.Errorf("%s is not within %v and %v of the database's clock", column, from, to)
		}
	}
	within("created_at", -time.Minute, 0)
	within("next_retry_at", 59*time.Minute, time.Hour)

	// Nobody else gets it meanwhile: a worker that is new gets the other event.
	second, err := p.Subscriber(other, c)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	others, err := second.Subscribe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	next := p.put(1)[0].String()
	if got := receiveEvent(t, others); got.UUID != next {
		t.Errorf("got %s, want %s", got.UUID, next)
	} else {
		got.Ack()
	}
	p.want(1, "delivered_at IS NOT NULL AND delivered_at >= created_at")

	// It fails, and comes again after its delay.
	msg.Nack()
	failed := time.Now()
	select {
	case msg = <-messages:
	case msg = <-others:
	case <-time.After(suite.Timeout):
		t.Fatal("the event does not come again")
	}
	if waited := time.Since(failed); msg.UUID != id || waited < c.RetryBaseDelay/2 {
		t.Errorf("%s came again after %v, want %s after %v", msg.UUID, waited, id, c.RetryBaseDelay)
	}
	msg.Ack()
	p.want(2, "delivered_at IS NOT NULL AND delivered_at >= created_at AND delivered_at <= "+dialect.Now())
}
