// Package outboxsuite holds what the workers and relays of package outbox promise, as flows that
// run on every database.
package outboxsuite

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

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

// patience is how long a flow waits for what must happen.
const patience = 30 * time.Second

// Run runs all flows on a database.
func Run(t *testing.T, d suite.SQLDatabase) {
	for _, f := range []struct {
		name string
		run  func(*testing.T, suite.SQLDatabase)
	}{
		{"success", success},
		{"failure", failure},
		{"exhaustion", exhaustion},
		{"filter", filter},
		{"timeout", timeout},
		{"settled together", together},
		{"two workers", twoWorkers},
		{"fence", fence},
		{"fence after a release", fenceReleased},
		{"fence of the same lease", fenceAttempts},
		{"text that is refused", textRefused},
		{"without a result", withoutResult},
		{"undecodable rows", undecodable},
		{"dead already", deadAlready},
		{"dead letters that refuse", uncopied},
		{"close", closing},
		{"outage", outage},
		{"session time zone", timeZone},
		{"relay", relayForms},
		{"relay: part of a batch", relayPart},
		{"relay: publisher away", relayAway},
		{"relay: order", relayOrder},
		{"relay: a subject that is held up", relayHeldUp},
		{"relay: order of two", relayOrderOfTwo},
		{"relay: commits out of order", relayCommits},
		{"relay: woken up", relayWoken},
		{"relay: stop", relayStop},
	} {
		t.Run(f.name, func(t *testing.T) { f.run(t, d) })
	}
}

var tables atomic.Int64

// A table is a table of events and one of dead letters, of one flow.
type table struct {
	*outbox.Outbox
	t    testing.TB
	d    suite.SQLDatabase
	db   *sql.DB
	name string
}

func newTable(t testing.TB, d suite.SQLDatabase) *table {
	t.Helper()
	name := fmt.Sprintf("outbox_%d", tables.Add(1))
	o, err := outbox.New(outbox.Config{Dialect: d.Dialect, Table: name})
	must(t, err)
	b := &table{Outbox: o, t: t, d: d, db: d.Open(t), name: name}
	must(t, o.Apply(t.Context(), b.db))
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Events of three types.
type (
	placed struct {
		N int `json:"n"`
	}
	paid   struct{ placed }
	poison struct{ placed }
)

func (placed) EventType() string { return "orders.placed" }
func (paid) EventType() string   { return "orders.paid" }
func (poison) EventType() string { return "orders.poison" }

func nth(n int) placed { return placed{n} }

// put writes events and returns their ids.
func (b *table) put(events ...outbox.Event) []uuid.UUID {
	b.t.Helper()
	var ids []uuid.UUID
	for _, e := range events {
		id, err := b.PublishInTx(b.t.Context(), b.db, e)
		must(b.t, err)
		ids = append(ids, id)
	}
	return ids
}

func (b *table) putFor(subject uuid.UUID, events ...outbox.Event) {
	b.t.Helper()
	for _, e := range events {
		_, err := b.PublishInTxWithSubject(b.t.Context(), b.db, subject, e)
		must(b.t, err)
	}
}

// exec runs a statement on the table TABLE, its arguments as ?.
func (b *table) exec(statement string, args ...any) {
	b.t.Helper()
	_, err := b.db.ExecContext(b.t.Context(), b.text(statement), args...)
	must(b.t, err)
}

func (b *table) text(statement string) string {
	statement = strings.ReplaceAll(statement, "TABLE", b.name)
	for n := 1; strings.Contains(statement, "?"); n++ {
		p := b.d.Dialect.Placeholder(n)
		if p == "?" {
			break
		}
		statement = strings.Replace(statement, "?", p, 1)
	}
	return statement
}

// count returns what a SELECT of one number of the table TABLE returns.
func (b *table) count(statement string, args ...any) (n int) {
	b.t.Helper()
	must(b.t, b.db.QueryRowContext(b.t.Context(), b.text(statement), args...).Scan(&n))
	return n
}

// strings returns what a SELECT of one column of the table TABLE returns.
func (b *table) strings(statement string) (out []string) {
	b.t.Helper()
	rows, err := b.db.QueryContext(b.t.Context(), b.text(statement))
	must(b.t, err)
	defer rows.Close()
	for rows.Next() {
		var s sql.NullString
		must(b.t, rows.Scan(&s))
		out = append(out, s.String)
	}
	must(b.t, rows.Err())
	return out
}

// want checks that so many rows of the table TABLE meet a condition.
func (b *table) want(n int, condition string) {
	b.t.Helper()
	if got := b.count("SELECT count(*) FROM TABLE WHERE " + condition); got != n {
		b.t.Errorf("%d rows with %s, want %d", got, condition, n)
	}
}

// wait waits until so many rows of the table TABLE meet a condition.
func (b *table) wait(condition string, n int) {
	b.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(patience); b.count("SELECT count(*) FROM TABLE WHERE "+condition) != n; {
		select {
		case <-tick.C:
		case <-over:
			b.t.Fatalf("there are not %d rows with %s", n, condition)
		}
	}
}

// wantDead checks that there are so many dead letters.
func (b *table) wantDead(n int) {
	b.t.Helper()
	if got := b.count("SELECT count(*) FROM TABLE_dead_letter"); got != n {
		b.t.Errorf("%d dead letters, want %d", got, n)
	}
}

// expire ends the leases of all rows that are not delivered.
func (b *table) expire() {
	b.t.Helper()
	b.exec("UPDATE TABLE SET next_retry_at = "+b.d.Dialect.NowPlus("?")+" WHERE delivered_at IS NULL", b.d.Dialect.Interval(-time.Hour))
}

func (b *table) rename(from, to string) {
	b.t.Helper()
	_, err := b.db.ExecContext(b.t.Context(), "ALTER TABLE "+from+" RENAME TO "+to)
	must(b.t, err)
}

// quick are settings for flows that do not want to wait.
func quick(book *book) outbox.WorkerConfig {
	return outbox.WorkerConfig{
		PollInterval: 10 * time.Millisecond, RetryBaseDelay: time.Millisecond, MinCycleDelay: time.Millisecond, CloseTimeout: time.Second,
		Observer: book, Logger: book.log.Logger(),
	}
}

// subscribe subscribes by connections of its own.
func (b *table) subscribe(c outbox.WorkerConfig, eventType string) (*outbox.Subscriber, <-chan *message.Message) {
	b.t.Helper()
	s, err := b.Subscriber(b.d.Open(b.t), c)
	must(b.t, err)
	b.t.Cleanup(func() { s.Close() })
	messages, err := s.Subscribe(b.t.Context(), eventType)
	must(b.t, err)
	return s, messages
}

// run runs a relay until the returned function is called, or the test is over.
func (b *table) run(pub message.Publisher, c outbox.RelayConfig) (stop func()) {
	b.t.Helper()
	r, err := b.Relay(b.d.Open(b.t), pub, c)
	must(b.t, err)
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				b.t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			b.t.Error("Run does not return")
		}
	})
	b.t.Cleanup(stop)
	return stop
}

// receive takes the next message.
func receive(t testing.TB, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, ok := <-messages:
		if !ok {
			t.Fatal("the subscription has ended")
		}
		return msg
	case <-time.After(patience):
		t.Fatal("no message")
	}
	return nil
}

// A book counts outcomes, and keeps what is logged.
type book struct {
	log    suite.LogBook
	mu     sync.Mutex
	counts map[outbox.Outcome]int
	change chan struct{}
}

func newBook() *book {
	return &book{counts: make(map[outbox.Outcome]int), change: make(chan struct{})}
}

// Settled implements outbox.Observer.
func (k *book) Settled(o outbox.Outcome, events int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.counts[o] += events
	close(k.change)
	k.change = make(chan struct{})
}

func (k *book) count(o outbox.Outcome) (int, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.counts[o], k.change
}

// wait waits until an outcome was there so often, and checks that it was not more often.
func (k *book) wait(t testing.TB, o outbox.Outcome, n int) {
	t.Helper()
	for over := time.After(patience); ; {
		got, change := k.count(o)
		if got == n {
			return
		}
		if got > n {
			t.Fatalf("%d events %s, want %d", got, o, n)
		}
		select {
		case <-change:
		case <-over:
			t.Fatalf("%d events %s, want %d\n%s", got, o, n, k.log.String())
		}
	}
}

// waitLog waits until the log has a text.
func (k *book) waitLog(t testing.TB, text string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(patience); !strings.Contains(k.log.String(), text); {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("the log does not have %q: %s", text, k.log.String())
		}
	}
}

func (k *book) want(t testing.TB, o outbox.Outcome, n int) {
	t.Helper()
	if got, _ := k.count(o); got != n {
		t.Errorf("%d events %s, want %d", got, o, n)
	}
}
