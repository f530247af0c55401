// Package sqlite runs what is kept in a database on SQLite, which is compiled into the tests.
package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/watermill-envelope/envelope/inbox/sqlinbox"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/internal/suite/outboxsuite"
	"github.com/watermill-envelope/envelope/outbox"
)

// open returns connections to the file, which wait a second for each other's locks.
func open(t testing.TB, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(1000)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestInboxOnSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "inbox.db")
	suite.SQLInbox(t, suite.SQLDatabase{
		Dialect:   sqlinbox.SQLite,
		Open:      func(t testing.TB) *sql.DB { return open(t, file) },
		Closed:    func(t testing.TB) *sql.DB { return open(t, filepath.Join(t.TempDir(), "no", "folder")) },
		Isolation: []sql.IsolationLevel{sql.LevelDefault},
	})
}

func TestOutboxOnSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "outbox.db")
	outboxsuite.Run(t, suite.SQLDatabase{
		Dialect: sqlinbox.SQLite,
		Open:    func(t testing.TB) *sql.DB { return open(t, file) },
	})
}

// A writer that does not let go for longer than the connection waits: what was acked is not
// settled, is delivered again, and nothing is lost.
func TestOutboxOnLockedSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "outbox.db")
	db, writer := open(t, file), open(t, file)
	db.SetMaxOpenConns(1)
	writer.SetMaxOpenConns(1)
	exec := func(db *sql.DB, statement string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(db, "PRAGMA busy_timeout = 0")
	o, err := outbox.New(outbox.Config{Dialect: outbox.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Apply(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := o.EnqueueIdempotent(t.Context(), db, outbox.NewID(), "orders.placed", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	unsettled := make(outcomes, 10)
	s, err := o.Subscriber(db, outbox.WorkerConfig{Observer: unsettled})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	messages, err := s.Subscribe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	msg := <-messages
	exec(writer, "BEGIN IMMEDIATE")
	msg.Ack()
	if o := <-unsettled; o != outbox.OutcomeUnsettled {
		t.Errorf("the outcome is %s", o)
	}
	exec(writer, "UPDATE audit_outbox SET next_retry_at = NULL") // the lease is over
	exec(writer, "COMMIT")
	again := <-messages
	if again.UUID != msg.UUID || again.Metadata[outbox.MetadataAttempts] != "1" {
		t.Errorf("message %s with %v", again.UUID, again.Metadata)
	}
	again.Ack()
	if o := <-unsettled; o != outbox.OutcomeDelivered {
		t.Errorf("the outcome is %s", o)
	}
}

// outcomes are those that an Observer is told.
type outcomes chan outbox.Outcome

func (c outcomes) Settled(o outbox.Outcome, _ int) { c <- o }
