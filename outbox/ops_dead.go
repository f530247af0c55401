package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// A DeadLetterFilter says which dead letters are meant: those that are all of what is set. An
// event id that cannot be read is that of no filter.
type DeadLetterFilter struct {
	// EventIDs are the ids of the events.
	EventIDs []uuid.UUID
	// EventType is the type, byte by byte.
	EventType string
	// From and Until are when the event was given up, by the database's clock: at From or later,
	// and before Until. Either may be the zero time.
	From, Until time.Time
	// All means every dead letter, for which nothing else may be set.
	All bool
}

// Validate reports a filter that has nothing, or All and something else.
func (f DeadLetterFilter) Validate() error {
	some := len(f.EventIDs) > 0 || f.EventType != "" || !f.From.IsZero() || !f.Until.IsZero()
	switch {
	case f.All && some:
		return errors.New("outbox: a filter of all dead letters has something else as well")
	case !f.All && !some:
		return errors.New("outbox: a filter of dead letters has nothing: set All for every one")
	}
	return nil
}

// where is the condition of the rows of alias d, and its arguments.
func (o *Outbox) where(f DeadLetterFilter) (string, []any) {
	d := o.config.Dialect
	text, args := "1 = 1", []any(nil)
	placeholder := func(arg any) string {
		args = append(args, arg)
		return d.Placeholder(len(args))
	}
	if len(f.EventIDs) > 0 {
		list := make([]string, len(f.EventIDs))
		for i, id := range f.EventIDs {
			list[i] = placeholder(d.UUID(id))
			if d == PostgreSQL {
				list[i] = "CAST(" + list[i] + " AS uuid)"
			}
		}
		text += " AND d.event_id IN (" + strings.Join(list, ", ") + ")"
	}
	if f.EventType != "" {
		eventType := placeholder(f.EventType)
		if d == MySQL {
			eventType = "CAST(" + eventType + " AS BINARY)" // by bytes, whatever the collation is
		}
		text += " AND d.event_type = " + eventType
	}
	for _, limit := range []struct {
		at       time.Time
		operator string
	}{{f.From, " >= "}, {f.Until, " < "}} {
		if !limit.at.IsZero() {
			args = append(args, limit.at.UnixMicro())
			text += " AND " + o.micros("d.exhausted_at") + limit.operator + o.bigint(len(args))
		}
	}
	return text, args
}

// A DeadLetter is an event that was given up.
type DeadLetter struct {
	// ID is the row's in the dead-letter table, by which pages follow each other.
	ID int64
	// Envelope has the event, its attempts and its last error. What of a row cannot be read, which
	// may be why it was given up, is left out: the event id is nil then, or a time zero.
	Envelope
	// ExhaustedAt is when it was given up, by the database's clock.
	ExhaustedAt time.Time
}

// DeadLetters returns the first limit dead letters of the filter, in the order of their IDs, behind
// the one with the ID after: 0 for the first page, the last ID of a page for the next one.
func (o *Outbox) DeadLetters(ctx context.Context, db *sql.DB, f DeadLetterFilter, after int64, limit int) ([]DeadLetter, error) {
	if err := checkDeadLetters(f, limit); err != nil {
		return nil, err
	}
	where, args := o.where(f)
	args = append(args, after)
	id, subject, payload := "d.event_id", "d.subject_id", "d.payload"
	if o.config.Dialect == PostgreSQL {
		id, subject, payload = "CAST(d.event_id AS text)", "CAST(d.subject_id AS text)", "CAST(d.payload AS text)"
	}
	rows, err := db.QueryContext(ctx, "SELECT d.id, "+id+", d.event_type, "+payload+", "+subject+", "+o.micros("d.created_at")+
		", d.attempts, d.last_error, "+o.micros("d.exhausted_at")+" FROM "+o.dead+" AS d WHERE "+where+
		" AND d.id > "+o.bigint(len(args))+" ORDER BY d.id LIMIT "+strconv.Itoa(limit), args...)
	if err != nil {
		return nil, o.failure("list", uuid.Nil, "", err)
	}
	defer rows.Close()
	var list []DeadLetter
	for rows.Next() {
		var (
			l                  DeadLetter
			id, subject        []byte
			created, exhausted sql.NullInt64
		)
		if err := rows.Scan(&l.ID, &id, &l.EventType, &l.Payload, &subject, &created, &l.Attempts, &l.LastError, &exhausted); err != nil {
			return nil, o.failure("list", uuid.Nil, "", err)
		}
		l.EventID, _ = readID(id)
		l.SubjectID.UUID, l.SubjectID.Valid = readID(subject)
		l.CreatedAt, l.ExhaustedAt = fromMicros(created), fromMicros(exhausted)
		list = append(list, l)
	}
	if err := rows.Err(); err != nil {
		return nil, o.failure("list", uuid.Nil, "", err)
	}
	return list, nil
}

// readID reads 16 bytes, or a UUID's text.
func readID(b []byte) (uuid.UUID, bool) {
	if id, err := uuid.FromBytes(b); err == nil {
		return id, true
	}
	id, err := uuid.ParseBytes(b)
	return id, err == nil
}

func checkDeadLetters(f DeadLetterFilter, limit int) error {
	if limit <= 0 {
		return fmt.Errorf("outbox: at most %d dead letters, want over 0", limit)
	}
	return f.Validate()
}

// Replay moves the first limit dead letters of the filter back into the table, as new rows without
// attempts that are due at once, in one transaction, and returns how many. They keep their ids
// and when they were created. Those whose event the table has again already stay where they are.
// Dead letters that another call is moving are left to it.
func (o *Outbox) Replay(ctx context.Context, db *sql.DB, f DeadLetterFilter, limit int) (int64, error) {
	if err := checkDeadLetters(f, limit); err != nil {
		return 0, err
	}
	n, err := o.replay(ctx, db, f, limit)
	if err != nil {
		return 0, o.failure("replay", uuid.Nil, "", err)
	}
	return n, nil
}

func (o *Outbox) replay(ctx context.Context, db *sql.DB, f DeadLetterFilter, limit int) (int64, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if o.config.Dialect == SQLite {
		// A transaction that begins as a reader may be refused when it comes to write.
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+o.dead+" WHERE 1 = 0"); err != nil {
			return 0, err
		}
	}
	where, args := o.where(f)
	lock := o.config.Dialect.SkipLocked()
	if o.config.Dialect == PostgreSQL {
		lock = " FOR UPDATE OF d SKIP LOCKED"
	}
	rows, err := tx.QueryContext(ctx, "SELECT d.id FROM "+o.dead+" AS d WHERE "+where+
		" AND NOT EXISTS (SELECT 1 FROM "+o.table+" AS t WHERE t.event_id = d.event_id) ORDER BY d.id LIMIT "+strconv.Itoa(limit)+lock, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return 0, err
		}
		ids = append(ids, strconv.FormatInt(id, 10))
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(ids) == 0 {
		return 0, err
	}
	const columns = "event_id, event_type, payload, subject_id, created_at"
	these := " WHERE id IN (" + strings.Join(ids, ", ") + ")"
	if _, err := tx.ExecContext(ctx, "INSERT INTO "+o.table+" ("+columns+") SELECT "+columns+" FROM "+o.dead+these+" ORDER BY id"); err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM "+o.dead+these); err != nil {
		return 0, err
	}
	return int64(len(ids)), tx.Commit()
}

// DeleteDeadLetters deletes the first limit dead letters of the filter, and returns how many.
func (o *Outbox) DeleteDeadLetters(ctx context.Context, db *sql.DB, f DeadLetterFilter, limit int) (int64, error) {
	if err := checkDeadLetters(f, limit); err != nil {
		return 0, err
	}
	where, args := o.where(f)
	// A table of its own, since MySQL does not delete from one that it reads.
	result, err := db.ExecContext(ctx, "DELETE FROM "+o.dead+" WHERE id IN (SELECT first.id FROM (SELECT d.id FROM "+o.dead+
		" AS d WHERE "+where+" ORDER BY d.id LIMIT "+strconv.Itoa(limit)+") AS first)", args...)
	if err != nil {
		return 0, o.failure("delete", uuid.Nil, "", err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return 0, o.failure("delete", uuid.Nil, "", err)
	}
	return n, nil
}
