package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

type lockedEvent struct {
	N int `json:"n"`
}

// EventType implements outbox.Event.
func (lockedEvent) EventType() string { return "orders.placed" }

// Another writer has the database locked for longer than a connection waits: nothing can be
// published, which is a conflict; and the worker claims when the lock is gone, without an alarm.
func TestOutboxLocked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "outbox.db")
	impatient := func() *sql.DB {
		db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20)&_pragma=journal_mode(WAL)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	o, err := outbox.New(outbox.Config{Dialect: outbox.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, file)
	if err := o.Apply(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	exec := func(statement string) {
		t.Helper()
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.Publish(t.Context(), db, lockedEvent{1}); err != nil {
		t.Fatal(err)
	}

	exec("BEGIN IMMEDIATE")
	if _, err := o.Publish(t.Context(), impatient(), lockedEvent{2}); !errors.Is(err, outbox.ErrConflict) || !envelope.IsTransient(err) {
		t.Errorf("Publish beside a lock: %v, want a conflict", err)
	}
	var log suite.LogBook
	searches := &waits{}
	s, err := o.Subscriber(impatient(), outbox.WorkerConfig{
		PollInterval: 5 * time.Millisecond, Logger: searches.logger(&log),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	messages, err := s.Subscribe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	searches.wait(t, 3)
	exec("COMMIT")
	select {
	case msg := <-messages:
		if got := msg.Metadata[outbox.MetadataAttempts]; got != "0" {
			t.Errorf("attempt %s, want 0", got)
		}
		msg.Ack()
	case <-time.After(suite.Timeout):
		t.Fatal("no message")
	}
	if text := log.String(); strings.Contains(text, "no events can be claimed") {
		t.Errorf("a lock is taken for an outage: %s", text)
	}
}

// waits counts in a log how often a lock was in the way.
type waits struct{ seen chan struct{} }

func (w *waits) logger(book *suite.LogBook) *slog.Logger {
	w.seen = make(chan struct{}, 1<<10)
	return slog.New(waitsHandler{slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelInfo}), w})
}

func (w *waits) wait(t *testing.T, n int) {
	t.Helper()
	for over := time.After(suite.Timeout); n > 0; n-- {
		select {
		case <-w.seen:
		case <-over:
			t.Fatal("the lock is in nobody's way")
		}
	}
}

type waitsHandler struct {
	slog.Handler
	waits *waits
}

// Enabled implements slog.Handler.
func (waitsHandler) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (h waitsHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return waitsHandler{h.Handler.WithAttrs(attrs), h.waits}
}

// Handle implements slog.Handler.
func (h waitsHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		if strings.Contains(r.Message, "another transaction is in the way") {
			select {
			case h.waits.seen <- struct{}{}:
			default:
			}
		}
		return nil
	}
	return h.Handler.Handle(ctx, r)
}
