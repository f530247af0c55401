package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Purge deletes the rows that were delivered longer ago than olderThan, by the database's clock,
// and returns how many, also beside an error. Each of its statements looks at batch rows at most,
// in the order of their ids, and commits by itself, so that none holds locks for long. It ends
// with the first batch that has only rows written since then.
//
// olderThan is how long EnqueueIdempotent still has to find an event that was delivered.
func (o *Outbox) Purge(ctx context.Context, db *sql.DB, olderThan time.Duration, batch int) (deleted int64, err error) {
	if olderThan <= 0 || batch <= 0 {
		return 0, fmt.Errorf("outbox: purge: rows delivered more than %v ago in batches of %d, want both over 0", olderThan, batch)
	}
	d := o.config.Dialect
	old := func(n int) string { return d.NowPlus(d.Placeholder(n)) }
	window := "SELECT max(w.id), sum(CASE WHEN w.created_at < " + old(1) + " THEN 1 ELSE 0 END) FROM (SELECT id, created_at FROM " +
		o.table + " WHERE id > " + o.bigint(2) + " ORDER BY id LIMIT " + o.bigint(3) + ") AS w"
	remove := "DELETE FROM " + o.table + " WHERE id > " + o.bigint(1) + " AND id <= " + o.bigint(2) + " AND delivered_at < " + old(3)
	interval := d.Interval(-olderThan)
	for after := int64(0); ; {
		var last, before sql.NullInt64
		if err := db.QueryRowContext(ctx, window, interval, after, batch).Scan(&last, &before); err != nil {
			return deleted, o.failure("purge", uuid.Nil, "", err)
		}
		if !last.Valid || before.Int64 == 0 {
			return deleted, nil
		}
		result, err := db.ExecContext(ctx, remove, after, last.Int64, interval)
		if err != nil {
			return deleted, o.failure("purge", uuid.Nil, "", err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return deleted, o.failure("purge", uuid.Nil, "", err)
		}
		deleted += n
		after = last.Int64
	}
}

// bigint is the placeholder of argument n, an integer.
func (o *Outbox) bigint(n int) string {
	if o.config.Dialect == PostgreSQL {
		return "CAST(" + o.config.Dialect.Placeholder(n) + " AS bigint)"
	}
	return o.config.Dialect.Placeholder(n)
}

// micros is the expression of a time in microseconds since 1970; of what is no time, null.
func (o *Outbox) micros(t string) string {
	switch o.config.Dialect {
	case PostgreSQL:
		return "CASE WHEN isfinite(" + t + ") THEN CAST(EXTRACT(EPOCH FROM " + t + ") * 1000000 AS bigint) END"
	case MySQL:
		return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " + t + ")"
	}
	return "(CAST(strftime('%s', " + t + ") AS INTEGER) * 1000000 + CAST(substr(strftime('%f', " + t + "), 4) AS INTEGER) * 1000)"
}

// fromMicros is the time that an expression of micros returned.
func fromMicros(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMicro(n.Int64).UTC()
}
