package outbox

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The statements that settle a row change it only while it is as the claim has left it: not
// delivered, with the attempts and the lease that it was given. A claim that comes later, of
// ours or of a Rust worker, changes both.

// delivered marks rows as delivered, and returns how many of them.
func (s *store) delivered(ctx context.Context, c *claim, rows []row) (int, error) {
	return s.update(ctx, "delivered", "delivered_at = "+s.d.Now(), nil, c, rows)
}

// release gives rows back as they were before the claim.
func (s *store) release(ctx context.Context, c *claim, rows []row) (int, error) {
	return s.update(ctx, "release", "attempts = o.attempts - 1, next_retry_at = NULL", nil, c, rows)
}

// retry writes why a row was not delivered, and when it is due again. An attempt that does not
// count is taken back.
func (s *store) retry(ctx context.Context, c *claim, r row, text string, delay time.Duration, counts bool) (int, error) {
	set := "last_error = " + s.d.Placeholder(1) + ", next_retry_at = " + s.d.NowPlus(s.d.Placeholder(2))
	if !counts {
		set += ", attempts = o.attempts - 1"
	}
	return s.update(ctx, "retry", set, []any{text, s.d.Interval(delay)}, c, []row{r})
}

// update changes those of the rows that are as the claim has left them.
func (s *store) update(ctx context.Context, op, set string, args []any, c *claim, rows []row) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	text, args := s.updateStatement(set, args, c, rows)
	n, err := affected(s.db.ExecContext(ctx, text, args...))
	return n, s.failed(op, err)
}

func (s *store) updateStatement(set string, args []any, c *claim, rows []row) (string, []any) {
	args = slices.Clip(args)
	placeholder := func(arg any) string {
		args = append(args, arg)
		return s.d.Placeholder(len(args))
	}
	if s.d == PostgreSQL {
		ids, attempts := arrays(rows)
		array := func(arg, kind string) string { return "CAST(CAST(" + placeholder(arg) + " AS text) AS " + kind + "[])" }
		return "UPDATE " + s.table + " AS o SET " + set +
			" FROM unnest(" + array(ids, "bigint") + ", " + array(attempts, "bigint") + ") AS c(id, attempts)" +
			" WHERE o.id = c.id AND o.attempts = c.attempts AND o.delivered_at IS NULL AND " +
			s.token("o.") + " = CAST(" + placeholder(c.lease) + " AS bigint)", args
	}
	lease := number(c.lease)
	if s.d == SQLite {
		lease = placeholder(c.lease)
	}
	return "UPDATE " + s.table + " AS o SET " + set + " WHERE o.id IN (" + list(rows) + ") AND o.delivered_at IS NULL AND " +
		s.token("o.") + " = " + lease + " AND (" + byAttempts(rows) + ")", args
}

// byAttempts is the condition that each row has its attempts.
func byAttempts(rows []row) string {
	groups := make(map[int64][]row)
	for _, r := range rows {
		groups[r.attempts] = append(groups[r.attempts], r)
	}
	var parts []string
	for attempts, group := range groups {
		part := "o.attempts = " + strconv.FormatInt(attempts, 10)
		if len(groups) > 1 {
			part += " AND o.id IN (" + list(group) + ")"
		}
		parts = append(parts, part)
	}
	slices.Sort(parts)
	return strings.Join(parts, " OR ")
}

func affected(result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}
