package outbox

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A claim are rows that this worker has for itself until its lease ends, in the order of their
// ids.
type claim struct {
	rows []row
	// lease is what next_retry_at of all of them is, as store.token reads it.
	lease any
	// until is when the lease ends, by the clock that runs in this process.
	until time.Time
	// contended: there are rows, but others were taking them.
	contended bool
}

// claim takes the first rows that are due, or those behind an id. One transaction, or one
// statement, which is one.
func (s *store) claim(ctx context.Context, after int64) (*claim, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	c := &claim{}
	begin := time.Now()
	var err error
	if s.d == PostgreSQL && !s.ordered {
		err = s.claimAtOnce(ctx, c, after)
	} else {
		err = s.claimLocked(ctx, c, after)
	}
	if err != nil {
		return nil, s.failed("claim", err)
	}
	slices.SortFunc(c.rows, func(a, b row) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	c.until = begin.Add(s.lease(len(c.rows)))
	return c, nil
}

// claimAtOnce finds, locks and updates the rows in one statement.
func (s *store) claimAtOnce(ctx context.Context, c *claim, after int64) error {
	text, args := s.claimStatement(after)
	return query(ctx, s.db, text, args, func(rows *sql.Rows) error { return s.add(c, rows) })
}

func (s *store) claimStatement(after int64) (text string, args []any) {
	args = []any{s.d.Interval(s.timeout)}
	lease := s.d.NowPlus(s.d.Placeholder(1))
	if !s.whole {
		lease += " * GREATEST((SELECT count(*) FROM due), 1)"
	}
	due, args := s.search("id, attempts, next_retry_at", "", after, args)
	return "WITH due AS (" + due + ") UPDATE " + s.table + " AS o SET next_retry_at = " + lease +
		", attempts = " + s.counted("o.") + " FROM due WHERE o.id = due.id RETURNING " +
		s.columns("o.", "due.") + ", " + s.token("o."), args
}

// search is the statement that finds rows that are due, and locks them where it can.
func (s *store) search(columns, row string, after int64, args []any) (string, []any) {
	condition, order, args := s.undelivered(row, after, args)
	typed, args := s.typed(row, args)
	from := s.table
	if row != "" {
		from += " AS " + strings.TrimSuffix(row, ".")
	}
	text := "SELECT " + columns + " FROM " + from + " WHERE " + condition + " AND " + s.due(row) + typed
	if s.ordered && after <= 0 {
		text += " AND " + s.free(row)
	}
	text += " ORDER BY " + order + " LIMIT " + strconv.Itoa(s.batch*s.spread())
	if s.d == PostgreSQL {
		text += " FOR UPDATE"
		if row != "" {
			text += " OF " + strings.TrimSuffix(row, ".")
		}
		text += " SKIP LOCKED"
	}
	return text, args
}

// spread is how many times as many rows as are wanted are looked at where the search does not
// lock them: others may be taking the first ones.
func (s *store) spread() int {
	if s.d == MySQL {
		return 4
	}
	return 1
}

// claimLocked locks the rows, then looks whether they may be taken, then updates them.
//
// A search of MySQL locks what it walks over, a search of SQLite keeps writers out. So they look
// without locks first, and lock by the primary key what they found: when there is nothing to do
// nobody is disturbed.
func (s *store) claimLocked(ctx context.Context, c *claim, after int64) error {
	found := ""
	if s.d != PostgreSQL {
		var ids []row
		text, args := s.search("id", "", after, nil)
		err := query(ctx, s.db, text, args, func(rows *sql.Rows) error {
			var r row
			err := rows.Scan(&r.id)
			ids = append(ids, r)
			return err
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		found = list(ids)
	}
	return s.inTx(ctx, func(tx session) error {
		c.rows = nil
		text, args := s.lockStatement(found, after)
		if err := query(ctx, tx, text, args, func(rows *sql.Rows) error { return s.add(c, rows) }); err != nil {
			return err
		}
		contended := found != "" || len(c.rows) > 0
		if err := s.withhold(ctx, tx, c, after); err != nil {
			return err
		}
		if len(c.rows) == 0 {
			c.contended = contended
			return nil
		}
		return s.take(ctx, tx, c)
	})
}

// lockStatement locks and reads rows: those of a search, or those that were found by one and are
// still due. The last column is the time of the database, or nothing.
func (s *store) lockStatement(found string, after int64) (string, []any) {
	switch s.d {
	case PostgreSQL:
		return s.search(s.columns("o.", "o.")+", 0", "o.", after, nil)
	case MySQL:
		return "SELECT " + s.columns("", "") + ", " + mysqlMicros(s.d.Now()) + " FROM " + s.table +
			" FORCE INDEX (PRIMARY) WHERE id IN (" + found + ") AND delivered_at IS NULL AND " + s.due("") +
			" ORDER BY id LIMIT " + strconv.Itoa(s.batch) + s.d.SkipLocked(), nil
	}
	return "SELECT " + s.columns("", "") + ", ''" + " FROM " + s.table +
		" WHERE id IN (" + found + ") AND delivered_at IS NULL AND " + s.due("") + " ORDER BY id", nil
}

// add adds a row to the claim. The last column is the lease, or what it is made of.
func (s *store) add(c *claim, rows *sql.Rows) error {
	var (
		raw  rawRow
		last any
	)
	if err := rows.Scan(append(raw.destinations(), &last)...); err != nil {
		return err
	}
	c.lease = last
	c.rows = append(c.rows, raw.decode())
	return nil
}

// take updates the locked rows of a claim.
func (s *store) take(ctx context.Context, tx session, c *claim) error {
	lease := s.lease(len(c.rows))
	set := "UPDATE " + s.table + " SET attempts = " + s.counted("") + ", next_retry_at = "
	where := " WHERE id IN (" + list(c.rows) + ")"
	switch s.d {
	case PostgreSQL:
		ids, _ := arrays(c.rows)
		return query(ctx, tx, set+s.d.NowPlus("$1")+" WHERE id = ANY(CAST(CAST($2 AS text) AS bigint[])) RETURNING "+s.token(""),
			[]any{s.d.Interval(lease), ids}, func(rows *sql.Rows) error { return rows.Scan(&c.lease) })
	case MySQL:
		now, err := strconv.ParseInt(number(c.lease), 10, 64)
		if err != nil {
			return err
		}
		end := now + lease.Microseconds()
		c.lease = end
		_, err = tx.ExecContext(ctx, set+"CAST('1970-01-01' AS DATETIME(6)) + INTERVAL "+strconv.FormatInt(end, 10)+" MICROSECOND"+where)
		return err
	}
	err := query(ctx, tx, "SELECT "+s.d.NowPlus("?"), []any{s.d.Interval(lease)}, func(rows *sql.Rows) error {
		var text string
		err := rows.Scan(&text)
		c.lease = text
		return err
	})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, set+"?"+where, c.lease)
	return err
}

// number is an integer as drivers return it, as text.
func number(v any) string {
	if n, ok := v.(int64); ok {
		return strconv.FormatInt(n, 10)
	}
	return bytesOf(v)
}
