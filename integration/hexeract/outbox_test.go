package hexeract

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

// An outboxDatabase is one that both sides open.
type outboxDatabase struct {
	dialect outbox.Dialect
	source  string // for database/sql
	address string // for sqlx
	db      *sql.DB
}

// onEachDatabase runs a test on PostgreSQL and on a SQLite database of its own.
func onEachDatabase(t *testing.T, test func(t *testing.T, d *outboxDatabase)) {
	t.Parallel()
	for _, on := range []func(*testing.T, func(*testing.T, *outboxDatabase)){onPostgres, onSQLite} {
		on(t, test)
	}
}

func onPostgres(t *testing.T, test func(t *testing.T, d *outboxDatabase)) {
	onDatabase(t, "pgx", &outboxDatabase{dialect: outbox.PostgreSQL, source: postgres.URL(), address: postgres.URL()}, test)
}

func onSQLite(t *testing.T, test func(t *testing.T, d *outboxDatabase)) {
	file := filepath.Join(t.TempDir(), "outbox.db")
	onDatabase(t, "sqlite", &outboxDatabase{
		dialect: outbox.SQLite,
		source:  "file:" + file + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)",
		address: "sqlite://" + file + "?mode=rwc",
	}, test)
}

func onDatabase(t *testing.T, driver string, d *outboxDatabase, test func(t *testing.T, d *outboxDatabase)) {
	t.Run(d.dialect.String(), func(t *testing.T) {
		t.Parallel()
		var err error
		if d.db, err = sql.Open(driver, d.source); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.db.Close() })
		test(t, d)
	})
}

var outboxTables atomic.Int64

// outbox returns an outbox on new names of tables.
func (d *outboxDatabase) outbox(t *testing.T) *outbox.Outbox {
	t.Helper()
	o, err := outbox.New(outbox.Config{Dialect: d.dialect, Table: fmt.Sprintf("shared_outbox_%d", outboxTables.Add(1))})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// apply returns an outbox whose tables we made.
func (d *outboxDatabase) apply(t *testing.T) *outbox.Outbox {
	t.Helper()
	o := d.outbox(t)
	if err := o.Apply(t.Context(), d.db); err != nil {
		t.Fatal(err)
	}
	return o
}

// count returns how many rows of a table meet a condition.
func (d *outboxDatabase) count(t *testing.T, table, condition string) (n int) {
	t.Helper()
	if err := d.db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table+" WHERE "+condition).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// want waits until so many rows of a table meet a condition.
func (d *outboxDatabase) want(t *testing.T, table, condition string, n int) {
	t.Helper()
	got := -1
	for over := time.After(suite.Timeout); got != n; {
		if got = d.count(t, table, condition); got == n {
			return
		}
		select {
		case <-over:
			t.Fatalf("%d rows of %s with %s, want %d", got, table, condition, n)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// work returns settings of a Rust worker that does not want to wait.
func work(o *outbox.Outbox) WorkEvents {
	return WorkEvents{
		Table: o.Table(), DeadLetter: o.DeadLetterTable(), Batch: 10, MaxAttempts: 3,
		PollMS: 10, RetryBaseMS: 1, RetryMaxMS: 10, TimeoutMS: 30_000,
	}
}

// worker returns the same settings of ours.
func worker() outbox.WorkerConfig {
	return outbox.WorkerConfig{
		MaxAttempts: 3, PollInterval: 10 * time.Millisecond, MinCycleDelay: time.Millisecond,
		RetryBaseDelay: time.Millisecond, RetryMaxDelay: 10 * time.Millisecond,
	}
}

// subscribe starts a worker of ours, which ends with the test or when stop is called.
func (d *outboxDatabase) subscribe(t *testing.T, o *outbox.Outbox, c outbox.WorkerConfig) (messages <-chan *message.Message, stop func()) {
	t.Helper()
	s, err := o.Subscriber(d.db, c)
	if err != nil {
		t.Fatal(err)
	}
	stop = func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	if messages, err = s.Subscribe(suite.Context(t), ""); err != nil {
		t.Fatal(err)
	}
	return messages, stop
}

// nextEvent returns the next message of a worker of ours, with its envelope.
func nextEvent(t *testing.T, messages <-chan *message.Message) (*message.Message, *outbox.Envelope) {
	t.Helper()
	select {
	case msg, ok := <-messages:
		if !ok {
			t.Fatal("the subscription ended")
		}
		e, err := outbox.FromMessage(msg)
		if err != nil {
			t.Fatal(err)
		}
		return msg, e
	case <-time.After(suite.Timeout):
		t.Fatal("nothing was delivered")
	}
	panic("unreachable")
}

// inTx runs fn in a transaction of ours.
func (d *outboxDatabase) inTx(t *testing.T, fn func(ctx context.Context, tx *sql.Tx) (uuid.UUID, error)) uuid.UUID {
	t.Helper()
	tx, err := d.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	id, err := fn(t.Context(), tx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return id
}

// Tables that Rust made are ours as they are, and tables that we made are Rust's. Either side
// finds nothing to do in the other's.
func TestOutboxSchema(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, d *outboxDatabase) {
		peer := StartOutbox(t, d.address)
		theirs, ours := d.outbox(t), d.apply(t)
		peer.Schema(t, theirs.Table())
		if err := theirs.Check(t.Context(), d.db); err != nil {
			t.Errorf("the tables of Rust: %v", err)
		}
		if err := theirs.Apply(t.Context(), d.db); err != nil {
			t.Errorf("Apply to the tables of Rust: %v", err)
		}
		peer.Schema(t, ours.Table())
		for _, o := range []*outbox.Outbox{theirs, ours} {
			if err := o.Check(t.Context(), d.db); err != nil {
				t.Errorf("after both: %v", err)
			}
			id := peer.Publish(t, PublishEvent{Table: o.Table(), Order: order("schema")})
			peer.Work(t, work(o))
			if h := peer.Handled(t); h.EventID != id || h.Failed {
				t.Errorf("handled %+v, want %s", h, id)
			}
			d.want(t, o.Table(), "delivered_at IS NOT NULL AND attempts = 1", 1)
			if err := o.Check(t.Context(), d.db); err != nil {
				t.Errorf("the rows of Rust: %v", err)
			}
		}
	})
}

// Our worker delivers what Rust writes, in every way of writing.
func TestOutboxFromRust(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, d *outboxDatabase) {
		peer, o := StartOutbox(t, d.address), d.apply(t)
		subject, id := uuid.New(), uuid.New()
		payload := encodeJSON(t, order("enqueued"))
		peer.Publish(t, PublishEvent{Table: o.Table(), Order: order("rolled back"), Rollback: true})
		ids := []uuid.UUID{
			peer.Publish(t, PublishEvent{Table: o.Table(), Order: order("plain")}),
			peer.Publish(t, PublishEvent{Table: o.Table(), Order: order("subject"), SubjectID: &subject}),
			id,
		}
		for _, want := range []bool{true, false} {
			got, refusal := peer.Enqueue(t, Enqueue{Table: o.Table(), EventID: id, EventType: "orders.placed", Payload: payload})
			if refusal != nil || got != want {
				t.Errorf("enqueued: %v %+v, want %v", got, refusal, want)
			}
		}
		if got, err := o.EnqueueIdempotent(t.Context(), d.db, id, "orders.placed", []byte(payload)); err != nil || got {
			t.Errorf("we enqueued what Rust had: %v %v", got, err)
		}
		if err := o.Check(t.Context(), d.db); err != nil {
			t.Error(err)
		}
		messages, stop := d.subscribe(t, o, worker())
		for n, note := range []string{"plain", "subject", "enqueued"} {
			msg, e := nextEvent(t, messages)
			if e.EventID != ids[n] || msg.UUID != ids[n].String() || e.Attempts != 0 || e.EventType != "orders.placed" {
				t.Errorf("%s: got %v, want %s", note, e, ids[n])
			}
			if got, err := outbox.Decode[OrderPlaced](e); err != nil || encodeJSON(t, &got) != encodeJSON(t, order(note)) {
				t.Errorf("%s: got %+v %v", note, got, err)
			}
			if want := (uuid.NullUUID{UUID: subject, Valid: note == "subject"}); e.SubjectID.Valid != want.Valid || want.Valid && e.SubjectID != want {
				t.Errorf("%s: subject %v", note, e.SubjectID)
			}
			if age := time.Since(e.CreatedAt); age < -time.Minute || age > suite.Timeout {
				t.Errorf("%s: created %v ago", note, age)
			}
			msg.Ack()
		}
		d.want(t, o.Table(), "delivered_at IS NOT NULL AND attempts = 1", 3)
		stop()
		if n := d.count(t, o.Table(), "1 = 1"); n != 3 {
			t.Errorf("%d rows, want 3", n)
		}
	})
}

// Both sides refuse the same events, before any of them is in the table.
func TestOutboxRefusals(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, d *outboxDatabase) {
		peer, o := StartOutbox(t, d.address), d.apply(t)
		for _, c := range []struct {
			name, eventType, payload string
			refused                  bool
		}{
			{"64 bytes of type", strings.Repeat("t", 64), "{}", false},
			{"65 bytes of type", strings.Repeat("t", 65), "{}", true},
			{"64 bytes of umlauts", strings.Repeat("ü", 32), "{}", false},
			{"66 bytes of umlauts", strings.Repeat("ü", 33), "{}", true},
			{"no type", "", "{}", true},
			{"no payload", "t", "", true},
			{"no JSON", "t", "{'a': 1}", true},
			{"two values", "t", "{}{}", true},
			{"half a surrogate", "t", `"\ud800"`, true},
			{"too large a number", "t", "1e400", true},
			{"too deep", "t", strings.Repeat("[", 128) + strings.Repeat("]", 128), true},
			{"deep", "t", strings.Repeat("[", 127) + strings.Repeat("]", 127), false},
			{"a bare number", "t", "7", false},
			{"null", "t", "null", false},
		} {
			_, refusal := peer.Enqueue(t, Enqueue{Table: o.Table(), EventID: uuid.New(), EventType: c.eventType, Payload: c.payload})
			_, err := o.EnqueueIdempotent(t.Context(), d.db, uuid.New(), c.eventType, []byte(c.payload))
			if (refusal != nil) != c.refused || (err != nil) != c.refused {
				t.Errorf("%s: Rust says %+v, we say %v", c.name, refusal, err)
			}
		}
		d.want(t, o.Table(), "1 = 1", 2*5)
	})
}

// Neither side prints a payload.
func TestOutboxPrinted(t *testing.T) {
	t.Parallel()
	peer := StartOutbox(t, postgres.URL())
	event, id := order("s3cret"), uuid.New()
	e, err := outbox.NewEnvelope(id, event)
	if err != nil {
		t.Fatal(err)
	}
	mask := fmt.Sprintf("<%d bytes>", len(e.Payload))
	for name, text := range map[string]string{
		"Rust": peer.Print(t, id, *event), "%v": fmt.Sprintf("%v", e), "%+v": fmt.Sprintf("%+v", *e), "%#v": fmt.Sprintf("%#v", e),
		"%s": fmt.Sprintf("%s", e), "JSON": encodeJSON(t, e), "slog": e.LogValue().String(),
	} {
		if strings.Contains(text, "s3cret") || !strings.Contains(text, mask) && !strings.Contains(text, strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(mask)) ||
			!strings.Contains(text, id.String()) {
			t.Errorf("%s: %s, want %s and %s", name, text, mask, id)
		}
	}
}
