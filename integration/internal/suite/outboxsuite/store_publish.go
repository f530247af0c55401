package outboxsuite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

// RunStore runs the flows of a table that no worker looks at: publishing, schema and operations.
// The database needs a Closed.
func RunStore(t *testing.T, d suite.SQLDatabase) {
	for _, f := range []struct {
		name string
		run  func(*testing.T, suite.SQLDatabase)
	}{
		{"publish", published},
		{"publish: rolled back", rolledBack},
		{"publish: enqueue once", enqueued},
		{"publish: limits", limits},
		{"publish: refused by the database", refusedValues},
		{"publish: no connection", unconnected},
		{"publish: other sessions", sessions},
		{"schema", schema},
		{"schema: damaged", damaged},
		{"schema: rows", wrongRows},
		{"purge", purged},
		{"dead letters", deadLetters},
		{"dead letters that cannot be read", unreadable},
		{"replay", replayed},
		{"stats", stats},
	} {
		t.Run(f.name, func(t *testing.T) { f.run(t, d) })
	}
}

// inTx runs fn in a transaction, which it commits or rolls back.
func (b *table) inTx(commit bool, fn func(tx *sql.Tx)) {
	b.t.Helper()
	tx, err := b.db.BeginTx(b.t.Context(), nil)
	must(b.t, err)
	fn(tx)
	if commit {
		must(b.t, tx.Commit())
		return
	}
	must(b.t, tx.Rollback())
}

// recent is the condition of a time that is now, by the database's clock.
func recent(d outbox.Dialect, column string) string {
	minute := map[outbox.Dialect]string{
		outbox.PostgreSQL: "NOW() - INTERVAL '1 minute' AND NOW() + INTERVAL '1 minute'",
		outbox.MySQL:      "UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE AND UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE",
		outbox.SQLite:     "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 minute') AND strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 minute')",
	}
	return column + " BETWEEN " + minute[d]
}

func published(t *testing.T, d suite.SQLDatabase) {
	b := newTable(t, d)
	subject := outbox.NewID()
	var plain, about uuid.UUID
	b.inTx(true, func(tx *sql.Tx) {
		var err error
		plain, err = b.PublishInTx(t.Context(), tx, nth(1))
		must(t, err)
		about, err = b.PublishInTxWithSubject(t.Context(), tx, subject, &paid{nth(2)})
		must(t, err)
	})
	alone, err := b.Publish(t.Context(), b.db, nth(3))
	must(t, err)
	for id, want := range map[uuid.UUID]struct {
		eventType, payload string
		subject            uuid.NullUUID
	}{
		plain: {"orders.placed", `{"n":1}`, uuid.NullUUID{}},
		about: {"orders.paid", `{"n":2}`, uuid.NullUUID{UUID: subject, Valid: true}},
		alone: {"orders.placed", `{"n":3}`, uuid.NullUUID{}},
	} {
		var (
			eventType, payload string
			gotSubject         uuid.NullUUID
			attempts           int
		)
		must(t, b.db.QueryRowContext(t.Context(), "SELECT event_type, payload, subject_id, attempts FROM "+b.name+
			" WHERE event_id = "+d.Dialect.Placeholder(1)+" AND last_error IS NULL AND next_retry_at IS NULL AND delivered_at IS NULL AND "+
			recent(d.Dialect, "created_at"), d.Dialect.UUID(id)).Scan(&eventType, &payload, &gotSubject, &attempts))
		if eventType != want.eventType || !sameJSON(t, payload, want.payload) || gotSubject != want.subject || attempts != 0 || id.Version() != 7 {
			t.Errorf("%v: %s, %s, %v, %d attempts", id, eventType, payload, gotSubject, attempts)
		}
	}
	must(t, b.Check(t.Context(), b.db))
}

func sameJSON(t testing.TB, a, b string) bool {
	var x, y any
	must(t, json.Unmarshal([]byte(a), &x))
	must(t, json.Unmarshal([]byte(b), &y))
	return reflect.DeepEqual(x, y)
}

func rolledBack(t *testing.T, d suite.SQLDatabase) {
	b := newTable(t, d)
	b.inTx(false, func(tx *sql.Tx) {
		_, err := b.PublishInTx(t.Context(), tx, nth(1))
		must(t, err)
		if added, err := b.EnqueueIdempotent(t.Context(), tx, outbox.NewID(), "a.b", []byte(`{}`)); err != nil || !added {
			t.Errorf("%v, %v", added, err)
		}
	})
	b.want(0, "1 = 1")
}

func enqueued(t *testing.T, d suite.SQLDatabase) {
	b := newTable(t, d)
	id := outbox.NewID()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		added int
	)
	for range 8 {
		wg.Go(func() {
			for {
				ok, err := b.EnqueueIdempotent(t.Context(), b.db, id, "a.b", []byte(` "any value" `))
				if errors.Is(err, outbox.ErrConflict) {
					continue // a deadlock: it is to be tried again
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if ok {
					added++
				}
				return
			}
		})
	}
	wg.Wait()
	if added != 1 {
		t.Errorf("added %d times", added)
	}
	b.want(1, "event_type = 'a.b'")
	// Another rule of the table that is broken is not taken for the id.
	b.exec("CREATE UNIQUE INDEX one_" + b.name + " ON " + b.name + " (event_type)")
	if ok, err := b.EnqueueIdempotent(t.Context(), b.db, outbox.NewID(), "a.b", []byte(`{}`)); ok || !errors.Is(err, outbox.ErrRefused) {
		t.Errorf("%v, %v", ok, err)
	}
	if ok, err := b.EnqueueIdempotent(t.Context(), b.db, id, "a.b", []byte(`{}`)); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// text is an event of any type and payload.
type text struct{ name, json string }

func (e text) EventType() string            { return e.name }
func (e text) MarshalJSON() ([]byte, error) { return []byte(e.json), nil }

func limits(t *testing.T, d suite.SQLDatabase) {
	b := newTable(t, d)
	for _, test := range []struct {
		rule string
		e    text
		err  error // by dialect where it is not nil
		on   outbox.Dialect
	}{
		{"a type of 64 bytes", text{strings.Repeat("t", 64), `{}`}, nil, 0},
		{"a type of 64 bytes that is not ASCII", text{strings.Repeat("日", 21) + "x", `{}`}, nil, 0},
		{"a type of 65 bytes", text{strings.Repeat("t", 65), `{}`}, outbox.ErrInvalidEvent, d.Dialect},
		{"a payload of 100 KiB", text{"a.b", `"` + strings.Repeat("é", 50<<10) + `"`}, nil, 0},
		{"a NUL in a text", text{"a.b", `"\u0000"`}, outbox.ErrInvalidEvent, outbox.PostgreSQL},
		{"a backslash before what looks like one", text{"a.b", `"\\u0000"`}, nil, 0},
		{"30 levels", text{"a.b", strings.Repeat("[", 30) + strings.Repeat("]", 30)}, nil, 0},
		{"127 levels, which is more than MariaDB reads", text{"a.b", strings.Repeat("[", 127) + strings.Repeat("]", 127)}, outbox.ErrRefused, outbox.MySQL},
		{"a number beyond 64 bits", text{"a.b", `123456789012345678901234567890`}, nil, 0},
		{"no JSON", text{"a.b", `{`}, outbox.ErrSerialization, d.Dialect},
		{"a surrogate pair", text{"a.b", `"\ud83d\ude00 😀"`}, nil, 0},
	} {
		id, err := b.Publish(t.Context(), b.db, test.e)
		if test.err != nil && test.on == d.Dialect {
			if !errors.Is(err, test.err) || !envelope.IsPermanent(err) || id != uuid.Nil {
				t.Errorf("%s: %v, %v", test.rule, id, err)
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("%s: %v", test.rule, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.rule, err)
			continue
		}
		var eventType, payload string
		must(t, b.db.QueryRowContext(t.Context(), "SELECT event_type, payload FROM "+b.name+" WHERE event_id = "+d.Dialect.Placeholder(1),
			d.Dialect.UUID(id)).Scan(&eventType, &payload))
		if eventType != test.e.name || !sameJSON(t, payload, test.e.json) {
			t.Errorf("%s: came back as %.100s, %.100s", test.rule, eventType, payload)
		}
	}
}

// What the database says of values may quote them: it is found in the error, but not shown.
func refusedValues(t *testing.T, d suite.SQLDatabase) {
	b := newTable(t, d)
	b.exec("CREATE UNIQUE INDEX one_" + b.name + " ON " + b.name + " (subject_id)")
	subject := outbox.NewID()
	_, err := b.PublishInTxWithSubject(t.Context(), b.db, subject, nth(1))
	must(t, err)
	_, err = b.PublishInTxWithSubject(t.Context(), b.db, subject, nth(2))
	var e *outbox.Error
	if !errors.Is(err, outbox.ErrRefused) || !envelope.IsPermanent(err) || !errors.As(err, &e) || e.EventType != "orders.placed" || e.Table != b.name {
		t.Fatalf("%v", err)
	}
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v", *e), fmt.Sprintf("%#v", e.Err)} {
		if strings.Contains(text, subject.String()) || strings.Contains(text, string(subject[:])) {
			t.Errorf("the value is shown by %s", text)
		}
	}
	b.want(1, "1 = 1")
}

func unconnected(t *testing.T, d suite.SQLDatabase) {
	b := newTable(t, d)
	_, err := b.Publish(t.Context(), d.Closed(t), nth(1))
	if !errors.Is(err, outbox.ErrDatabase) || !envelope.IsTransient(err) {
		t.Errorf("no server: %v", err)
	}
	b.db.SetMaxOpenConns(1)
	b.inTx(true, func(*sql.Tx) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := b.Publish(ctx, b.db, nth(1))
		if !errors.Is(err, outbox.ErrDatabase) || !errors.Is(err, context.DeadlineExceeded) || !envelope.IsTransient(err) {
			t.Errorf("no free connection: %v", err)
		}
	})
	b.want(0, "1 = 1")
}

// What a session is set to changes neither the time nor what is stored.
func sessions(t *testing.T, d suite.SQLDatabase) {
	b := newTable(t, d)
	settings := map[outbox.Dialect][]string{
		outbox.PostgreSQL: {"SET TIME ZONE 'Asia/Kathmandu'", "SET TIME ZONE -11"},
		outbox.MySQL:      {"SET time_zone = '+09:00', sql_mode = ''", "SET time_zone = '-11:00', sql_mode = 'STRICT_ALL_TABLES'", "SET sql_mode = 'ANSI_QUOTES'"},
		outbox.SQLite:     {"PRAGMA foreign_keys = ON"},
	}[d.Dialect]
	conn, err := b.db.Conn(t.Context())
	must(t, err)
	defer conn.Close()
	name := strings.Repeat("日", 21) + "x"
	for n, setting := range settings {
		_, err := conn.ExecContext(t.Context(), setting)
		must(t, err)
		_, err = b.PublishInTx(t.Context(), conn, text{name, `"` + strings.Repeat("é", 50<<10) + `"`})
		must(t, err)
		if added, err := b.EnqueueIdempotent(t.Context(), conn, outbox.NewID(), name, []byte(`{}`)); err != nil || !added {
			t.Errorf("%s: %v, %v", setting, added, err)
		}
		if got := b.count("SELECT count(*) FROM " + b.name + " WHERE event_type = '" + name + "' AND " + recent(d.Dialect, "created_at")); got != 2*(n+1) {
			t.Errorf("%s: %d rows with the right time, want %d", setting, got, 2*(n+1))
		}
	}
}
