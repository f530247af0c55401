package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/outbox"
)

// A recorder notes the statements that run on it.
type recorder struct {
	statements []string
	args       [][]any
	affected   []int64
	err        []error
}

func (r *recorder) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	n := len(r.statements)
	r.statements, r.args = append(r.statements, query), append(r.args, args)
	affected, err := int64(1), error(nil)
	if n < len(r.affected) {
		affected = r.affected[n]
	}
	if n < len(r.err) {
		err = r.err[n]
	}
	return driver.RowsAffected(affected), err
}

func newOutbox(t testing.TB, c outbox.Config) *outbox.Outbox {
	t.Helper()
	o, err := outbox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

const (
	postgresInsert = `INSERT INTO "audit_outbox" (event_id, event_type, payload, subject_id) VALUES ($1, $2, $3, $4)`
	mysqlInsert    = "INSERT INTO `audit_outbox` (event_id, event_type, payload, subject_id) VALUES (?, ?, ?, ?)"
	sqliteInsert   = `INSERT INTO "audit_outbox" (event_id, event_type, payload, subject_id) VALUES (?, ?, ?, ?)`
	notified       = ` RETURNING pg_notify('audit_outbox', '')`
	unlessThere    = " ON CONFLICT (event_id) DO NOTHING"
)

func TestStatements(t *testing.T) {
	for _, test := range []struct {
		c                outbox.Config
		publish, enqueue string
	}{
		{outbox.Config{Dialect: outbox.PostgreSQL}, postgresInsert, postgresInsert + unlessThere},
		{outbox.Config{Dialect: outbox.PostgreSQL, Notify: true}, postgresInsert + notified, postgresInsert + unlessThere + notified},
		{outbox.Config{Dialect: outbox.MySQL}, mysqlInsert, mysqlInsert},
		{outbox.Config{Dialect: outbox.SQLite}, sqliteInsert, sqliteInsert + unlessThere},
	} {
		o, r := newOutbox(t, test.c), &recorder{}
		id, err := o.PublishInTxWithSubject(t.Context(), r, subjectID, userRegistered{Email: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.EnqueueIdempotent(t.Context(), r, eventID, "a.b", []byte(" [1]")); err != nil {
			t.Fatal(err)
		}
		if len(r.statements) != 2 || r.statements[0] != test.publish || r.statements[1] != test.enqueue {
			t.Errorf("%+v:\n%s", test.c, strings.Join(r.statements, "\n"))
		}
		for n, want := range [][]any{
			{test.c.Dialect.UUID(id), "users.registered", `{"email":"a"}`, test.c.Dialect.UUID(subjectID)},
			{test.c.Dialect.UUID(eventID), "a.b", " [1]", nil},
		} {
			// With their types: a payload that is bytes is no JSON.
			if got, want := fmt.Sprintf("%#v", r.args[n]), fmt.Sprintf("%#v", want); got != want {
				t.Errorf("%+v: arguments %s, want %s", test.c, got, want)
			}
		}
	}
}

// What a table cannot hold is refused before anything is asked of the database.
func TestRefusedBeforeSQL(t *testing.T) {
	for _, test := range []struct {
		rule string
		d    outbox.Dialect
		e    outbox.Event
		err  error
	}{
		{"64 bytes", outbox.MySQL, anything{strings.Repeat("t", 64), 1}, nil},
		{"65 bytes", outbox.MySQL, anything{strings.Repeat("t", 65), 1}, outbox.ErrInvalidEvent},
		{"no type", outbox.SQLite, anything{"", 1}, outbox.ErrInvalidEvent},
		{"nothing", outbox.SQLite, nil, outbox.ErrInvalidEvent},
		{"a nil pointer", outbox.SQLite, (*userRegistered)(nil), outbox.ErrInvalidEvent},
		{"no JSON", outbox.SQLite, raw("{"), outbox.ErrSerialization},
		{"a NUL", outbox.PostgreSQL, raw(`"\u0000"`), outbox.ErrInvalidEvent},
		{"a NUL in a name", outbox.PostgreSQL, raw(`{"a":{"\\\u0000":1}}`), outbox.ErrInvalidEvent},
		{"a NUL behind what is none", outbox.PostgreSQL, raw(`["\\u0000","\\\\u0000","\u0000"]`), outbox.ErrInvalidEvent},
		{"a NUL before a digit", outbox.PostgreSQL, raw(`["\\u0000","\\\\u0000","u0000","\u00001","\u0001"]`), outbox.ErrInvalidEvent},
		{"none", outbox.PostgreSQL, raw(`["\\u0000","\\\\u0000","u0000","\u0001"]`), nil},
		{"a NUL that is stored", outbox.MySQL, raw(`"\u0000"`), nil},
		{"a NUL that is stored", outbox.SQLite, raw(`"\u0000"`), nil},
	} {
		o, r := newOutbox(t, outbox.Config{Dialect: test.d}), &recorder{}
		id, err := o.PublishInTx(t.Context(), r, test.e)
		if test.err == nil {
			if err != nil || len(r.statements) != 1 {
				t.Errorf("%s: %v", test.rule, err)
			}
			continue
		}
		if !errors.Is(err, test.err) || !envelope.IsPermanent(err) || id != uuid.Nil || len(r.statements) != 0 {
			t.Errorf("%s: %v, %v, statements %v", test.rule, id, err, r.statements)
		}
		var e *outbox.Error
		if errors.As(err, &e) && (e.Op != "publish" || e.Table != "audit_outbox") {
			t.Errorf("%s: %v", test.rule, err)
		}
	}
	o, r := newOutbox(t, outbox.Config{Dialect: outbox.PostgreSQL}), &recorder{}
	for payload, want := range map[string]error{
		"": outbox.ErrSerialization, "{": outbox.ErrSerialization, "{} {}": outbox.ErrSerialization, "\"\xff\"": outbox.ErrSerialization,
		nested(128): outbox.ErrSerialization, `"\u0000"`: outbox.ErrInvalidEvent,
	} {
		if _, err := o.EnqueueIdempotent(t.Context(), r, eventID, "a.b", []byte(payload)); !errors.Is(err, want) {
			t.Errorf("%q: %v", payload, err)
		}
	}
	if _, err := o.EnqueueIdempotent(t.Context(), r, eventID, "", []byte("{}")); !errors.Is(err, outbox.ErrInvalidEvent) {
		t.Error(err)
	}
	if len(r.statements) != 0 {
		t.Errorf("statements %v", r.statements)
	}
}

type stateError string

func (e stateError) Error() string    { return "ERROR: secret (SQLSTATE " + string(e) + ")" }
func (e stateError) SQLState() string { return string(e) }

func TestDatabaseErrors(t *testing.T) {
	down := errors.New("connection refused")
	duplicate := errors.New("Error 1062 (23000): Duplicate entry 'secret' for key 'event_id'")
	for _, test := range []struct {
		d         outbox.Dialect
		err, want error
		class     string
		text      string
	}{
		{outbox.PostgreSQL, down, outbox.ErrDatabase, "transient", "database: event EVENT: type \"a.b\": connection refused"},
		{outbox.PostgreSQL, stateError("40001"), outbox.ErrConflict, "transient", "conflict: event EVENT: type \"a.b\": ERROR: secret (SQLSTATE 40001)"},
		{outbox.PostgreSQL, stateError("22P05"), outbox.ErrRefused, "permanent", "refused: event EVENT: type \"a.b\": the database does not take the values: its error 22P05"},
		{outbox.PostgreSQL, fmt.Errorf("exec: %w", stateError("23514")), outbox.ErrRefused, "permanent", "refused: event EVENT: type \"a.b\": the database does not take the values: its error 23514"},
		{outbox.PostgreSQL, stateError("42P01"), outbox.ErrDatabase, "transient", "database: event EVENT: type \"a.b\": ERROR: secret (SQLSTATE 42P01)"},
		{outbox.MySQL, errors.New("Error 4025 (23000): CONSTRAINT `t.payload` failed"), outbox.ErrRefused, "permanent", "refused: event EVENT: type \"a.b\": the database does not take the values: its error 4025"},
		{outbox.SQLite, errors.New("UNIQUE constraint failed: t.x"), outbox.ErrRefused, "permanent", "refused: event EVENT: type \"a.b\": the database does not take the values: its error UNIQUE constraint failed"},
	} {
		o := newOutbox(t, outbox.Config{Dialect: test.d})
		added, err := o.EnqueueIdempotent(t.Context(), &recorder{err: []error{test.err}}, eventID, "a.b", []byte("{}"))
		want := "outbox: enqueue audit_outbox: " + strings.ReplaceAll(test.text, "EVENT", eventID.String())
		if added || !errors.Is(err, test.want) || !errors.Is(err, test.err) || err.Error() != want {
			t.Errorf("%v: %v, want %s", test.err, err, want)
		}
		if envelope.IsTransient(err) != (test.class == "transient") || envelope.IsPermanent(err) != (test.class == "permanent") {
			t.Errorf("%v is not %s", err, test.class)
		}
	}
	// MySQL says that something is there: it is asked whether that is the event.
	o, r := newOutbox(t, outbox.Config{Dialect: outbox.MySQL}), &recorder{err: []error{duplicate}, affected: []int64{0, 0}}
	if added, err := o.EnqueueIdempotent(t.Context(), r, eventID, "a.b", []byte("{}")); added || err != nil || len(r.statements) != 2 || len(r.args[1]) != 5 {
		t.Errorf("%v, %v, %v", added, err, r.statements)
	}
	const guarded = "INSERT INTO `audit_outbox` (`event_id`, `event_type`, `payload`, `subject_id`) SELECT ?, ?, ?, ? FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM `audit_outbox` WHERE `event_id` = ?)"
	if r.statements[1] != guarded {
		t.Errorf("%s", r.statements[1])
	}
	r = &recorder{err: []error{duplicate, duplicate}}
	if added, err := o.EnqueueIdempotent(t.Context(), r, eventID, "a.b", []byte("{}")); added || !errors.Is(err, outbox.ErrRefused) {
		t.Errorf("%v, %v", added, err)
	}
}
