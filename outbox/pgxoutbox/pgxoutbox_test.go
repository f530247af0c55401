package pgxoutbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/outbox"
	"github.com/watermill-envelope/envelope/outbox/pgxoutbox"
)

// What pgx has is an Execer.
var (
	_ pgxoutbox.Execer = pgx.Tx(nil)
	_ pgxoutbox.Execer = (*pgx.Conn)(nil)
	_ pgxoutbox.Execer = (*pgxpool.Pool)(nil)
	_ pgxoutbox.Execer = (*pgxpool.Conn)(nil)
)

type orderPlaced struct {
	ID string `json:"id"`
}

func (orderPlaced) EventType() string { return "orders.placed" }

// A server is a connection that notes what runs on it.
type server struct {
	sql       string
	arguments []any
	tag       string
	err       error
}

func (s *server) Exec(_ context.Context, sql string, arguments ...any) (pgconn.CommandTag, error) {
	s.sql, s.arguments = sql, arguments
	return pgconn.NewCommandTag(s.tag), s.err
}

func newOutbox(t *testing.T, c outbox.Config) *outbox.Outbox {
	t.Helper()
	c.Dialect = outbox.PostgreSQL
	o, err := outbox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

const insert = `INSERT INTO "audit_outbox" (event_id, event_type, payload, subject_id) VALUES ($1, $2, $3, $4)`

func TestPublish(t *testing.T) {
	o := newOutbox(t, outbox.Config{})
	s := &server{tag: "INSERT 0 1"}
	subject := outbox.NewID()
	id, err := pgxoutbox.PublishInTxWithSubject(t.Context(), o, s, subject, orderPlaced{"o-1"})
	if err != nil || s.sql != insert || !slices.Equal(s.arguments, []any{id.String(), "orders.placed", `{"id":"o-1"}`, subject.String()}) {
		t.Errorf("%v, %s, %v", err, s.sql, s.arguments)
	}
	id, err = pgxoutbox.PublishInTx(t.Context(), o, s, orderPlaced{"o-2"})
	if err != nil || !slices.Equal(s.arguments, []any{id.String(), "orders.placed", `{"id":"o-2"}`, nil}) {
		t.Errorf("%v, %v", err, s.arguments)
	}
	if _, err := pgxoutbox.Publish(t.Context(), o, s, orderPlaced{"o-3"}); err != nil || s.arguments[2] != `{"id":"o-3"}` {
		t.Errorf("%v, %v", err, s.arguments)
	}
	s.err = errors.New("connection refused")
	if _, err := pgxoutbox.PublishInTx(t.Context(), o, s, orderPlaced{}); !errors.Is(err, outbox.ErrDatabase) || !envelope.IsTransient(err) {
		t.Errorf("%v", err)
	}
	s.err = &pgconn.PgError{Code: "40001"}
	if _, err := pgxoutbox.PublishInTx(t.Context(), o, s, orderPlaced{}); !errors.Is(err, outbox.ErrConflict) {
		t.Errorf("%v", err)
	}
}

func TestEnqueueIdempotent(t *testing.T) {
	o := newOutbox(t, outbox.Config{Notify: true})
	id := outbox.NewID()
	for tag, want := range map[string]bool{"INSERT 0 1": true, "INSERT 0 0": false} {
		s := &server{tag: tag}
		got, err := pgxoutbox.EnqueueIdempotent(t.Context(), o, s, id, "a.b", []byte(`[]`))
		if err != nil || got != want || s.sql != insert+` ON CONFLICT (event_id) DO NOTHING RETURNING pg_notify('audit_outbox', '')` ||
			!slices.Equal(s.arguments, []any{id.String(), "a.b", "[]", nil}) {
			t.Errorf("%s: %v, %v, %s, %v", tag, got, err, s.sql, s.arguments)
		}
	}
}

func TestNewListener(t *testing.T) {
	if _, err := pgxoutbox.NewListener(newOutbox(t, outbox.Config{}), "postgres://localhost/x"); err == nil {
		t.Error("a listener without Notify")
	}
	o := newOutbox(t, outbox.Config{Notify: true})
	if _, err := pgxoutbox.NewListener(o, "postgres://localhost:none/x"); err == nil {
		t.Error("a listener on a port that is none")
	}
	l, err := pgxoutbox.NewListener(o, "postgres://probe@127.0.0.1:1/x?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Wait(t.Context()); err == nil {
			t.Error("it waits without a server")
		}
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if err := l.Wait(t.Context()); err == nil {
		t.Error("it waits after it was closed")
	}
}
