package outbox

import (
	"bytes"
	"context"
	"database/sql"
	"strings"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/internal/typedjson"
)

// An Execer is what an INSERT runs on: *sql.Tx, *sql.Conn and *sql.DB are, and what wraps them.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// statements are the texts that do not depend on an event.
type statements struct {
	publish string
	enqueue string
	guarded string // of MySQL: the INSERT unless the id is there
}

func (o *Outbox) prepare() statements {
	const columns = `event_id, event_type, payload, subject_id`
	d, notify := o.config.Dialect, ""
	if o.config.Notify {
		notify = " RETURNING pg_notify('" + o.config.Table + "', '')"
	}
	into, conflict := "INSERT INTO "+o.table+" ("+columns+") VALUES ", " ON CONFLICT (event_id) DO NOTHING"
	switch d {
	case PostgreSQL:
		values := "($1, $2, $3, $4)"
		return statements{publish: into + values + notify, enqueue: into + values + conflict + notify}
	case MySQL:
		values := into + "(?, ?, ?, ?)"
		return statements{publish: values, enqueue: values, guarded: d.InsertIfAbsent(o.config.Table, strings.Split(columns, ", ")...)}
	}
	return statements{publish: into + "(?, ?, ?, ?)", enqueue: into + "(?, ?, ?, ?)" + conflict}
}

// PublishInTx inserts e in the caller's transaction, with a new event id, which it returns. The
// event is there when the transaction commits. It is one statement.
//
// Before anything is asked of the database an event is refused with an InvalidEvent that the table
// cannot hold (see [Event]; on PostgreSQL also one with \u0000 in a text, which its JSON has not),
// and with a Serialization one that is no JSON for every reader. Of the database come a Refused,
// for what else it does not take; a Conflict, after which the transaction may be run again from
// its begin; and a Database. On PostgreSQL the transaction is lost after each of them.
func (o *Outbox) PublishInTx(ctx context.Context, tx Execer, e Event) (uuid.UUID, error) {
	return o.publish(ctx, tx, nil, e)
}

// PublishInTxWithSubject is [Outbox.PublishInTx] for an event about this subject. The nil UUID is
// a subject as well.
func (o *Outbox) PublishInTxWithSubject(ctx context.Context, tx Execer, subjectID uuid.UUID, e Event) (uuid.UUID, error) {
	return o.publish(ctx, tx, o.config.Dialect.UUID(subjectID), e)
}

// Publish inserts e in a transaction of its own, with a new event id, which it returns. See
// [Outbox.PublishInTx] for the errors. After a Database the event may be there all the same: when
// the connection broke before the answer came, nobody knows. What must be there once is enqueued
// by [Outbox.EnqueueIdempotent], again until it succeeds.
func (o *Outbox) Publish(ctx context.Context, db *sql.DB, e Event) (uuid.UUID, error) {
	return o.publish(ctx, db, nil, e)
}

func (o *Outbox) publish(ctx context.Context, on Execer, subject any, e Event) (uuid.UUID, error) {
	const op = "publish"
	if typedjson.IsNil(e) {
		return uuid.Nil, o.refusal(op, uuid.Nil, "", invalid("event", "is nil"))
	}
	eventType := e.EventType()
	if err := CheckType(eventType); err != nil {
		return uuid.Nil, o.refusal(op, uuid.Nil, "", err)
	}
	id := NewID()
	payload, err := encode(e)
	if err == nil {
		err = o.checkPayload(payload)
	}
	if err != nil {
		return uuid.Nil, o.refusal(op, uuid.Nil, eventType, err)
	}
	// A text: of bytes drivers make bytes, which are no JSON.
	if _, err := on.ExecContext(ctx, o.sql.publish, o.config.Dialect.UUID(id), eventType, string(payload), subject); err != nil {
		return uuid.Nil, o.failure(op, id, eventType, err)
	}
	return id, nil
}

// EnqueueIdempotent inserts an event with this id unless the table has one with it, and reports
// whether it did. It may run in a transaction, or by itself: on a *sql.DB it may be tried again
// until it succeeds. A row that was purged or moved to the dead letters is not in the table.
//
// The payload is any JSON value, in UTF-8, at most 127 levels deep; anything else is a
// Serialization. Else the errors are those of [Outbox.PublishInTx]. While another transaction
// inserts the same id it waits for the end of that one.
func (o *Outbox) EnqueueIdempotent(ctx context.Context, on Execer, eventID uuid.UUID, eventType string, payload []byte) (bool, error) {
	const op = "enqueue"
	err := CheckType(eventType)
	if err != nil {
		return false, o.refusal(op, eventID, "", err)
	}
	if err := typedjson.Check(payload); err != nil {
		return false, o.refusal(op, eventID, eventType, serialization(err))
	}
	if err := o.checkPayload(payload); err != nil {
		return false, o.refusal(op, eventID, eventType, err)
	}
	d := o.config.Dialect
	values := []any{d.UUID(eventID), eventType, string(payload), nil}
	result, err := on.ExecContext(ctx, o.sql.enqueue, values...)
	if d == MySQL && d.IsDuplicate(err) {
		// It says which rule is broken, but not in a way to rely on. This one fails unless it was
		// that of the id. To begin with it would be a deadlock of those that enqueue the same id.
		result, err = on.ExecContext(ctx, o.sql.guarded, d.IfAbsent(values...)...)
	}
	if err != nil {
		return false, o.failure(op, eventID, eventType, err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return false, o.failure(op, eventID, eventType, err)
	}
	return n > 0, nil
}

// checkPayload refuses JSON that the database has no value for.
func (o *Outbox) checkPayload(payload []byte) error {
	if o.config.Dialect == PostgreSQL && hasNUL(payload) {
		return invalid("payload", `has \u0000 in a text, which PostgreSQL does not store`)
	}
	return nil
}

// hasNUL reports whether a text in JSON has an escaped NUL. A NUL that is not escaped is no JSON.
func hasNUL(json []byte) bool {
	for rest := json; ; {
		i := bytes.Index(rest, []byte(`\u0000`))
		if i < 0 {
			return false
		}
		before := json[:len(json)-len(rest)+i]
		if backslashes := len(before) - len(bytes.TrimRight(before, `\`)); backslashes%2 == 0 {
			return true
		}
		rest = rest[i+1:]
	}
}

// refusal says of an error that the database was not asked for what it is about.
func (o *Outbox) refusal(op string, id uuid.UUID, eventType string, err error) error {
	if e, ok := err.(*Error); ok {
		e.Op, e.Table, e.EventID, e.EventType = op, o.config.Table, id, eventType
	}
	return err
}

// failure is an error of the database.
func (o *Outbox) failure(op string, id uuid.UUID, eventType string, err error) error {
	e := &Error{Code: CodeDatabase, Op: op, Table: o.config.Table, EventID: id, EventType: eventType, Err: err}
	d := o.config.Dialect
	if d.IsConflict(err) {
		e.Code = CodeConflict
	} else if code := d.Refusal(err); code != "" {
		e.Code, e.Reason = CodeRefused, "the database does not take the values: its error "+code
		e.Err = typedjson.Hide(e.Reason, err)
	}
	return e
}
