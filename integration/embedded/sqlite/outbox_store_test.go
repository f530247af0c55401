package sqlite

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/internal/suite/outboxsuite"
	"github.com/watermill-envelope/envelope/outbox"
)

func TestOutboxStoreOnSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "outbox.db")
	outboxsuite.RunStore(t, suite.SQLDatabase{
		Dialect: outbox.SQLite,
		Open:    func(t testing.TB) *sql.DB { return open(t, file) },
		Closed:  func(t testing.TB) *sql.DB { return open(t, filepath.Join(t.TempDir(), "no", "folder")) },
	})
}

// eventOf is an event of any type.
type eventOf string

func (e eventOf) EventType() string { return string(e) }

// While another writer has the database, publishing is refused as a conflict, and nothing is left
// of it.
func TestOutboxPublishOnLockedSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "outbox.db")
	db, writer := open(t, file), open(t, file)
	db.SetMaxOpenConns(1)
	o, err := outbox.New(outbox.Config{Dialect: outbox.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Apply(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "PRAGMA busy_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	tx, err := writer.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.PublishInTx(t.Context(), tx, eventOf("orders.placed")); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Publish(t.Context(), db, eventOf("orders.paid")); !errors.Is(err, outbox.ErrConflict) || !envelope.IsTransient(err) {
		t.Errorf("while it is locked: %v", err)
	}
	if _, err := o.Replay(t.Context(), db, outbox.DeadLetterFilter{All: true}, 1); !errors.Is(err, outbox.ErrConflict) {
		t.Errorf("while it is locked: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Publish(t.Context(), db, eventOf("orders.paid")); err != nil {
		t.Error(err)
	}
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM audit_outbox").Scan(&n); err != nil || n != 2 {
		t.Errorf("%d events, %v, want 2", n, err)
	}
}
