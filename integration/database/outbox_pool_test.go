package database

import (
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

// A pool has one connection, and somebody holds it: the worker says so, and goes on when it is
// free. A handler may use it, since the worker holds none while handlers run.
func TestOutboxPoolExhausted(t *testing.T) {
	t.Parallel()
	p := outboxDatabases()[0].place(t, outbox.Config{}) // the pool is the same for every database
	ids := p.put(5)
	pool := open(t, p.task.Driver, p.task.Source)
	pool.SetMaxOpenConns(1)
	held, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var log suite.LogBook
	c := p.task.worker(nil)
	c.Logger = log.Logger()
	s, err := p.Subscriber(pool, c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	messages, err := s.Subscribe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	p.eventually(func() bool { return strings.Contains(log.String(), "no events can be claimed") })
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	for range ids {
		msg := receiveEvent(t, messages)
		var attempts int
		query := "SELECT attempts FROM " + p.Table() + " WHERE event_id = " + p.task.Dialect.Placeholder(1)
		if err := pool.QueryRowContext(msg.Context(), query, p.task.Dialect.UUID(mustParse(t, msg.UUID))).Scan(&attempts); err != nil || attempts != 1 {
			t.Errorf("the handler reads attempts %d: %v", attempts, err)
		}
		msg.Ack()
	}
	p.want(len(ids), "delivered_at IS NOT NULL AND attempts = 1")
	p.eventually(func() bool { return strings.Contains(log.String(), "events can be claimed again") })
}

// A pool that many workers share has one connection: all of them get on.
func TestOutboxPoolShared(t *testing.T) {
	t.Parallel()
	onOutboxes(t, func(p *outboxPlace) {
		t, k := p.t, newTaken()
		pool := open(t, p.task.Driver, p.task.Source)
		pool.SetMaxOpenConns(1)
		c := p.task.worker(nil)
		c.BatchSize = 10
		for range 4 {
			p.relayOn(pool, k, c)
		}
		ids := p.put(suite.Count(2000))
		p.want(0, "delivered_at IS NULL")
		k.check(t, ids, 0)
	})
}

// MariaDB in its lax mode, and in sessions of another time zone, is to workers as it is by
// default.
func TestOutboxSessions(t *testing.T) {
	t.Parallel()
	for name, session := range map[string]string{
		"lax":         "?sql_mode=%27%27",
		"strict":      "?sql_mode=%27STRICT_ALL_TABLES%2CNO_ZERO_DATE%2CNO_ZERO_IN_DATE%2CONLY_FULL_GROUP_BY%27",
		"ANSI":        "?sql_mode=%27ANSI%2CTRADITIONAL%27",
		"east":        "?time_zone=%27%2B13%3A00%27",
		"west":        "?time_zone=%27-12%3A00%27&parseTime=true&loc=America%2FNew_York",
		"lax and far": "?sql_mode=%27%27&time_zone=%27%2B05%3A45%27&parseTime=true&loc=Asia%2FTokyo&interpolateParams=true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here := outboxDatabases()[1]
			there := here
			there.source += session
			here.place(t, outbox.Config{}).ticks(there)
			there.place(t, outbox.Config{}).ticks(here)
		})
	}
}
