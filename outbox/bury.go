package outbox

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
)

// A corpse is a row whose attempts are used up, by what it had when it was last read.
type corpse struct {
	id              int64
	attempts, lease any // as the driver returned them
	lastError       string
}

// errGone ends a transaction in which the row was not as expected.
var errGone = errors.New("outbox: the row has changed")

// bury moves a row to the dead letters, and reports whether it was as expected. An event that is
// there already, since it was sent again without being taken away from there, is there once, as
// it failed last.
//
// A row that the table of dead letters does not take as it is, a time that only a lax server
// lets pass, is moved with the time of the move and no more than the rules of the table ask for.
func (s *store) bury(ctx context.Context, r corpse, text string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	gone, err := s.move(ctx, r, text, s.copied())
	if err != nil && !s.d.IsConflict(err) && ctx.Err() == nil {
		var again error
		if gone, again = s.move(ctx, r, asciiText(text), s.salvaged()); again == nil {
			return gone, nil
		}
	}
	return gone, s.failed("dead-letter", err)
}

const buried = "event_id, event_type, payload, subject_id, created_at, attempts"

// copied are the expressions that are copied to the columns of buried.
func (s *store) copied() string { return buried }

// salvaged are expressions that every table takes.
func (s *store) salvaged() string {
	null := "'null'"
	if s.d == PostgreSQL {
		null = "CAST('null' AS jsonb)"
	}
	return "event_id, COALESCE(event_type, ''), COALESCE(payload, " + null + "), subject_id, " + s.d.Now() + ", " + strconv.Itoa(s.maxAttempts)
}

func (s *store) move(ctx context.Context, r corpse, text, columns string) (bool, error) {
	if s.d == PostgreSQL {
		// One statement: what it deletes it inserts.
		n, err := affected(s.db.ExecContext(ctx,
			"WITH gone AS (DELETE FROM "+s.table+" WHERE "+s.asRead(0)+" RETURNING "+columns+") "+
				s.insert("SELECT gone.*, "+s.d.Placeholder(4)+" FROM gone"),
			r.id, r.attempts, r.lease, text))
		return n > 0, err
	}
	err := s.inTx(ctx, func(tx session) error {
		n, err := affected(tx.ExecContext(ctx, s.insert("SELECT "+columns+", ? FROM "+s.table+" WHERE "+s.asRead(1)),
			text, r.id, r.attempts, r.lease))
		if err == nil && n > 0 {
			n, err = affected(tx.ExecContext(ctx, "DELETE FROM "+s.table+" WHERE "+s.asRead(0), r.id, r.attempts, r.lease))
		}
		if err == nil && n == 0 {
			err = errGone
		}
		return err
	})
	if errors.Is(err, errGone) {
		return false, nil
	}
	return err == nil, err
}

// asRead is the condition of the row of three arguments, behind so many others.
func (s *store) asRead(args int) string {
	lease := s.d.Placeholder(args + 3)
	if s.d == PostgreSQL {
		lease = "CAST(" + lease + " AS bigint)"
	}
	return "id = " + s.d.Placeholder(args+1) + " AND attempts = " + s.d.Placeholder(args+2) +
		" AND delivered_at IS NULL AND " + s.token("") + " = " + lease
}

// insert is the statement that inserts what a SELECT has, or replaces what is there.
func (s *store) insert(rows string) string {
	text := "INSERT INTO " + s.dead + " (" + buried + ", last_error) " + rows
	replaced := strings.Split("event_type, payload, subject_id, created_at, attempts, last_error", ", ")
	for i, column := range replaced {
		if s.d == MySQL {
			replaced[i] = column + " = VALUES(" + column + ")"
		} else {
			replaced[i] = column + " = excluded." + column
		}
	}
	set := strings.Join(append(replaced, "exhausted_at = "+s.d.Now()), ", ")
	if s.d == MySQL {
		return text + " ON DUPLICATE KEY UPDATE " + set
	}
	return text + " ON CONFLICT (event_id) DO UPDATE SET " + set
}

// exhausted returns rows whose attempts are used up without a result: the lease of the last one
// ended more than the time of an attempt ago.
func (s *store) exhausted(ctx context.Context) ([]corpse, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var found []corpse
	text, args := s.exhaustedStatement()
	err := query(ctx, s.db, text, args, func(rows *sql.Rows) error {
		var (
			r    corpse
			last any
		)
		err := rows.Scan(&r.id, &r.attempts, &r.lease, &last)
		r.lastError = bytesOf(last)
		found = append(found, r)
		return err
	})
	return found, s.failed("sweep", err)
}

func (s *store) exhaustedStatement() (string, []any) {
	over := "next_retry_at IS NULL OR next_retry_at <= " + s.d.NowPlus(s.d.Placeholder(1))
	if s.d == SQLite {
		over += " OR datetime(next_retry_at) IS NULL"
	}
	typed, args := s.typed("", []any{s.d.Interval(-s.timeout)})
	return "SELECT id, attempts, " + s.token("") + ", last_error FROM " + s.table + " WHERE delivered_at IS NULL AND attempts >= " +
		strconv.Itoa(s.maxAttempts) + " AND (" + over + ")" + typed + " ORDER BY id + 0 LIMIT " + strconv.Itoa(s.batch), args
}
