package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Stats are the numbers to watch. Each undelivered row of the table is counted in one of Due,
// Waiting and Exhausted.
type Stats struct {
	// OldestAge is how long ago the oldest undelivered event was written, those that are Exhausted
	// left out, by the database's clock; 0 when there is none.
	OldestAge time.Duration
	// Due is how many rows a worker would take at once.
	Due int64
	// Waiting is how many rows a worker has for itself, or wait for their next attempt.
	Waiting int64
	// Exhausted is how many rows no worker takes, since their attempts are used up: their last
	// attempt is still going on, or its worker has died.
	Exhausted int64
	// Attempts is how many undelivered rows there are by the number of attempts that were begun.
	Attempts map[int]int64
	// DeadLetters is how many rows the dead-letter table has.
	DeadLetters int64
}

// Stats counts, where workers make maxAttempts attempts. It reads the undelivered rows and the
// dead letters, and is as fast beside a million delivered rows as beside none. Those it does not
// count: that is a walk through the whole table.
func (o *Outbox) Stats(ctx context.Context, db *sql.DB, maxAttempts int) (Stats, error) {
	if maxAttempts <= 0 {
		return Stats{}, fmt.Errorf("outbox: stats: %d attempts, want over 0", maxAttempts)
	}
	s := Stats{Attempts: make(map[int]int64)}
	if err := o.countUndelivered(ctx, db, maxAttempts, &s); err != nil {
		return Stats{}, o.failure("stats", uuid.Nil, "", err)
	}
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM "+o.dead).Scan(&s.DeadLetters); err != nil {
		return Stats{}, o.failure("stats", uuid.Nil, "", err)
	}
	return s, nil
}

func (o *Outbox) countUndelivered(ctx context.Context, db *sql.DB, maxAttempts int, s *Stats) error {
	now := o.config.Dialect.Now()
	rows, err := db.QueryContext(ctx, "SELECT u.attempts, u.waiting, count(*), "+o.micros(now)+" - "+o.micros("min(u.created_at)")+
		" FROM (SELECT attempts, created_at, CASE WHEN next_retry_at > "+now+" THEN 1 ELSE 0 END AS waiting FROM "+o.table+
		" WHERE delivered_at IS NULL) AS u GROUP BY u.attempts, u.waiting")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			attempts, waiting int
			count             int64
			age               sql.NullInt64
		)
		if err := rows.Scan(&attempts, &waiting, &count, &age); err != nil {
			return err
		}
		s.Attempts[attempts] += count
		switch {
		case attempts >= maxAttempts:
			s.Exhausted += count
			continue
		case waiting != 0:
			s.Waiting += count
		default:
			s.Due += count
		}
		s.OldestAge = max(s.OldestAge, time.Duration(age.Int64)*time.Microsecond)
	}
	return rows.Err()
}
