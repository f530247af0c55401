package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// statementTimeout bounds what one call of the database may take, the wait for a connection
// included.
const statementTimeout = 10 * time.Second

// A demand is which rows a worker takes, and for how long.
type demand struct {
	maxAttempts int
	batch       int
	eventType   string        // or empty: any
	timeout     time.Duration // of one attempt
	whole       bool          // one attempt is at the whole batch
	ordered     bool          // no row is taken before an earlier one of its subject
}

// A store is the table as one worker sees it. Every time in it is by the clock of the database.
//
// Rows are taken by their primary key, whatever else is in them, so that no row is beyond the
// reach of an attempt. A store belongs to one goroutine.
type store struct {
	demand
	outbox      *Outbox
	d           Dialect
	db          *sql.DB
	table, dead string // quoted

	// How long it took to look for earlier rows of the subjects of a batch, either way.
	bySubject, byWaiting time.Duration
}

func newStore(o *Outbox, db *sql.DB, want demand) *store {
	d := o.config.Dialect
	return &store{demand: want, outbox: o, d: d, db: db, table: o.table, dead: o.dead}
}

// A session is a connection, with or without a transaction.
type session interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// inTx runs fn in a transaction, which is committed when fn returns nil.
//
// That of PostgreSQL sees with each statement what is committed by then, as it is by default;
// that of SQLite has the right to write from its begin, which a transaction that begins as a
// reader may be refused at once.
func (s *store) inTx(ctx context.Context, fn func(session) error) error {
	if s.d == SQLite {
		return s.inConn(ctx, fn)
	}
	options := &sql.TxOptions{}
	if s.d == PostgreSQL {
		options.Isolation = sql.LevelReadCommitted
	}
	tx, err := s.db.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (s *store) inConn(ctx context.Context, fn func(session) error) (err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	done := false
	defer func() {
		if done {
			return
		}
		if _, err := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); err != nil {
			// Nobody else must find the transaction open.
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	if err := fn(conn); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	done = err == nil
	return err
}

// query calls scan for each row of an answer.
func query(ctx context.Context, on session, text string, args []any, scan func(*sql.Rows) error) error {
	rows, err := on.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// due is the condition of a row that is to be delivered, next to one that it is not delivered
// yet. SQLite compares texts: what is no time, and would never come due, is due.
func (s *store) due(row string) string {
	retry := row + "next_retry_at"
	text := row + "attempts < " + strconv.Itoa(s.maxAttempts) + " AND (" + retry + " IS NULL OR " + retry + " <= " + s.d.Now()
	if s.d == SQLite {
		text += " OR datetime(" + retry + ") IS NULL"
	}
	return text + ")"
}

// typed is the condition of the type of event that is asked for, and its argument.
func (s *store) typed(row string, args []any) (string, []any) {
	if s.eventType == "" {
		return "", args
	}
	args = append(args, s.eventType)
	return " AND " + row + "event_type = " + s.d.Placeholder(len(args)), args
}

// undelivered is the condition of a row that is not delivered yet, and what to sort by. A search
// from the start finds such rows by their index, which holds no others: it is as fast beside a
// million delivered rows as beside none. That the rows are sorted by a sum keeps databases from
// walking over all rows in the order of their ids instead, which they prefer when they think that
// such a row must come soon.
//
// A search that goes on behind an id looks at the next ids only, and hides from the database that
// there is an index: to sort all rows that wait, for each batch of them, would take longer the
// more they are.
func (s *store) undelivered(row string, after int64, args []any) (condition, order string, _ []any) {
	if after <= 0 {
		return row + "delivered_at IS NULL", row + "id + 0", args
	}
	args = append(args, after, after+int64(s.batch)*window)
	return hidden(row) + " AND " + row + "id > " + s.bigint(len(args)-1) + " AND " + row + "id <= " + s.bigint(len(args)), row + "id", args
}

// window is how many times as many ids as a batch has rows a search looks at that goes on behind
// an id.
const window = 10

// hidden is the condition of a row that is not delivered, as no index has it.
func hidden(row string) string {
	return "CASE WHEN " + row + "delivered_at IS NULL THEN 1 ELSE 0 END = 1"
}

// bigint is the placeholder of argument n, an id.
func (s *store) bigint(n int) string {
	if s.d == PostgreSQL {
		return "CAST(" + s.d.Placeholder(n) + " AS bigint)"
	}
	return s.d.Placeholder(n)
}

// token is the expression of a row's lease: microseconds since 1970 as an integer, of SQLite the
// text. What is no time is 0, or another text.
func (s *store) token(row string) string {
	retry := row + "next_retry_at"
	switch s.d {
	case PostgreSQL:
		return "CASE WHEN isfinite(" + retry + ") THEN CAST(EXTRACT(EPOCH FROM " + retry + ") * 1000000 AS bigint) ELSE 0 END"
	case MySQL:
		return "COALESCE(" + mysqlMicros(retry) + ", 0)"
	}
	return "COALESCE(CAST(" + retry + " AS TEXT), '')"
}

func mysqlMicros(t string) string { return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " + t + ")" }

// columns are the columns of a row in the order of rawRow.destinations. before is the row that
// has what the claim changes as it was before it.
func (s *store) columns(row, before string) string {
	created, attempts, retry := row+"created_at", before+"attempts", before+"next_retry_at"
	list := []string{row + "id"}
	switch s.d {
	case PostgreSQL:
		micros := func(t string) string {
			return "CASE WHEN isfinite(" + t + ") THEN CAST(EXTRACT(EPOCH FROM " + t + ") * 1000000 AS bigint) END"
		}
		list = append(list, "CAST("+row+"event_id AS text)", row+"event_type", "CAST("+row+"payload AS text)",
			"CAST("+row+"subject_id AS text)", micros(created), attempts, row+"last_error", micros(retry))
	case MySQL:
		list = append(list, row+"event_id", row+"event_type", row+"payload", row+"subject_id",
			"CAST("+created+" AS CHAR)", attempts, row+"last_error", "CAST("+retry+" AS CHAR)")
	case SQLite:
		list = append(list, row+"event_id", row+"event_type", row+"payload", row+"subject_id",
			created, "CAST("+attempts+" AS INTEGER)", row+"last_error", retry,
			"typeof("+row+"event_id)", "typeof("+row+"payload)", "typeof("+row+"subject_id)")
	}
	if s.d != SQLite {
		list = append(list, "''", "''", "''")
	}
	return strings.Join(list, ", ")
}

// counted is the expression of the attempts of a row that is claimed.
func (s *store) counted(row string) string {
	if s.d == SQLite {
		return "max(CAST(" + row + "attempts AS INTEGER), 0) + 1"
	}
	return "GREATEST(" + row + "attempts, 0) + 1"
}

// lease is how long rows are claimed for.
func (s *store) lease(rows int) time.Duration {
	if s.whole {
		return s.timeout
	}
	return s.timeout * time.Duration(max(rows, 1))
}

// list is ids between commas.
func list(rows []row) string {
	var b strings.Builder
	for i, r := range rows {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(r.id, 10))
	}
	return b.String()
}

// arrays are the ids and attempts of rows as PostgreSQL writes arrays.
func arrays(rows []row) (ids, attempts string) {
	var b strings.Builder
	for i, r := range rows {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(r.attempts, 10))
	}
	return "{" + list(rows) + "}", "{" + b.String() + "}"
}

// failed is the error of a call of the database.
func (s *store) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return s.outbox.failure(op, uuid.Nil, "", err)
}
