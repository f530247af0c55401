package database

import (
	"context"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/outbox"
	"github.com/watermill-envelope/envelope/outbox/pgxoutbox"
)

// The connection that listens is cut, again and again, beside a relay that hardly ever looks by
// itself: it listens again, and what was published meanwhile is found.
func TestOutboxListenerCut(t *testing.T) {
	t.Parallel()
	d := outboxDatabases()[0]
	p := d.place(t, outbox.Config{Notify: true})
	l, err := pgxoutbox.NewListener(p.Outbox, d.source)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k := newTaken()
	c := p.task.worker(nil)
	c.PollInterval = time.Hour
	r, err := p.Relay(open(t, d.driver, d.source), k, outbox.RelayConfig{WorkerConfig: c, Waker: l})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	listening := " FROM pg_stat_activity WHERE query LIKE 'listen%" + p.Channel() + "%' OR query LIKE 'LISTEN%" + p.Channel() + "%'"
	ids := p.put(1)
	for range 3 {
		p.await("SELECT count(*)"+listening, func(n int) bool { return n == 1 })
		ids = append(ids, p.put(1)...)
		p.want(0, "delivered_at IS NULL")
		p.number("SELECT count(pg_terminate_backend(pid))" + listening)
		ids = append(ids, p.put(1)...)
		p.want(0, "delivered_at IS NULL")
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	k.check(t, ids, 0)
}
