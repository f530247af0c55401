package database

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	_ "modernc.org/sqlite"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

// An outboxPlace is a table of events in a database.
type outboxPlace struct {
	*outbox.Outbox
	t    *testing.T
	db   *sql.DB
	task outboxTask // where it is
}

var outboxTables atomic.Int64

// An outboxOn is a database for tests of the outbox. The source may hold %s, a file.
type outboxOn struct {
	name, driver, source string
	dialect              outbox.Dialect
}

func outboxDatabases() []outboxOn {
	return []outboxOn{
		{"PostgreSQL", "pgx", postgresServer.URL(), outbox.PostgreSQL},
		{"MariaDB", "mysql", mariadbServer.DSN(), outbox.MySQL},
		{"SQLite", "sqlite", "file:%s?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)", outbox.SQLite},
	}
}

// onOutboxes runs a test on a table of its own of each database.
func onOutboxes(t *testing.T, test func(p *outboxPlace)) {
	for _, d := range outboxDatabases() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(d.place(t, outbox.Config{}))
		})
	}
}

// place makes a table.
func (d outboxOn) place(t *testing.T, c outbox.Config) *outboxPlace {
	t.Helper()
	if strings.Contains(d.source, "%s") {
		d.source = fmt.Sprintf(d.source, t.TempDir()+"/outbox.db")
	}
	c.Dialect, c.Table = d.dialect, fmt.Sprintf("faults_%d", outboxTables.Add(1))
	o, err := outbox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &outboxPlace{
		Outbox: o, t: t, db: open(t, d.driver, d.source),
		task: outboxTask{Dialect: d.dialect, Driver: d.driver, Source: d.source, Table: c.Table},
	}
	if err := o.Apply(t.Context(), p.db); err != nil {
		t.Fatal(err)
	}
	return p
}

// A numbered is an event.
type numbered struct {
	N int `json:"n"`
}

// EventType implements outbox.Event.
func (numbered) EventType() string { return "tests.numbered" }

// put writes so many events in one transaction and returns their ids in order.
func (p *outboxPlace) put(events int) []uuid.UUID {
	p.t.Helper()
	tx, err := p.db.BeginTx(p.t.Context(), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	ids := make([]uuid.UUID, events)
	for n := range ids {
		if ids[n], err = p.PublishInTx(p.t.Context(), tx, numbered{n}); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		p.t.Fatal(err)
	}
	return ids
}

// count returns how many rows of the table meet a condition.
func (p *outboxPlace) count(condition string) int {
	p.t.Helper()
	return p.number("SELECT count(*) FROM " + p.Table() + " WHERE " + condition)
}

func (p *outboxPlace) number(query string) (n int) {
	p.t.Helper()
	if err := p.db.QueryRowContext(p.t.Context(), query).Scan(&n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

// await waits until a query returns a number that is wanted.
func (p *outboxPlace) await(query string, wanted func(n int) bool) {
	p.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(suite.Timeout); ; {
		n := p.number(query)
		if wanted(n) {
			return
		}
		select {
		case <-tick.C:
		case <-over:
			p.t.Fatalf("%s: %d", query, n)
		}
	}
}

// want waits until so many rows of the table meet a condition.
func (p *outboxPlace) want(n int, condition string) {
	p.t.Helper()
	p.await("SELECT count(*) FROM "+p.Table()+" WHERE "+condition, func(got int) bool { return got == n })
}

// wantDead checks how many dead letters there are.
func (p *outboxPlace) wantDead(n int) {
	p.t.Helper()
	if got := p.number("SELECT count(*) FROM " + p.DeadLetterTable()); got != n {
		p.t.Errorf("%d dead letters, want %d", got, n)
	}
}

// A taken counts how often each event was taken.
type taken struct {
	mu   sync.Mutex
	seen map[string]int
}

func newTaken() *taken { return &taken{seen: make(map[string]int)} }

func (k *taken) add(ids ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		k.seen[id]++
	}
}

// Publish implements message.Publisher.
func (k *taken) Publish(_ string, messages ...*message.Message) error {
	for _, msg := range messages {
		k.add(msg.UUID)
	}
	return nil
}

// Close implements message.Publisher.
func (k *taken) Close() error { return nil }

// check checks that each event was taken, and how often they were taken again.
func (k *taken) check(t *testing.T, ids []uuid.UUID, duplicates int) (again int) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		switch n := k.seen[id.String()]; n {
		case 0:
			t.Errorf("event %s was lost", id)
		default:
			again += n - 1
		}
	}
	if len(k.seen) > len(ids) {
		t.Errorf("%d events were taken, there are %d", len(k.seen), len(ids))
	}
	if again > duplicates {
		t.Errorf("%d events were taken again, want %d at most", again, duplicates)
	}
	return again
}

// eventually waits until a condition is met.
func (p *outboxPlace) eventually(condition func() bool) {
	p.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(suite.Timeout); !condition(); {
		select {
		case <-tick.C:
		case <-over:
			p.t.Fatal("it does not come to this")
		}
	}
}

// relay runs a relay until the returned function is called, or the test is over.
func (p *outboxPlace) relay(pub *taken, c outbox.WorkerConfig) (stop func()) {
	p.t.Helper()
	return p.relayOn(p.db, pub, c)
}

func (p *outboxPlace) relayOn(db *sql.DB, pub *taken, c outbox.WorkerConfig) (stop func()) {
	p.t.Helper()
	r, err := p.Relay(db, pub, outbox.RelayConfig{WorkerConfig: c})
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-done; err != nil {
			p.t.Errorf("Run: %v", err)
		}
	}
	p.t.Cleanup(stop)
	return stop
}

// receiveEvent takes the next message.
func receiveEvent(t *testing.T, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, ok := <-messages:
		if !ok {
			t.Fatal("the subscription has ended")
		}
		return msg
	case <-time.After(suite.Timeout):
		t.Fatal("no message")
	}
	panic("unreachable")
}

func mustParse(t *testing.T, id string) uuid.UUID {
	t.Helper()
	parsed, err := uuid.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
