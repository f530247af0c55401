package database

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

// deliveredRows is how many delivered rows the table of BenchmarkOutboxPoll has at last.
const deliveredRows = 1_000_000

// deliver inserts delivered rows, and has the database count what is in the table.
func (p *outboxPlace) deliver(rows int) {
	p.t.Helper()
	deliver(p.t, p.db, p.task.Dialect, p.Table(), rows)
}

func deliver(t testing.TB, db *sql.DB, dialect outbox.Dialect, table string, rows int) {
	t.Helper()
	insert, analyze := "INSERT INTO "+table+" (event_id, event_type, payload, attempts, delivered_at) SELECT ", "ANALYZE "+table
	if dialect == outbox.PostgreSQL {
		insert += fmt.Sprintf(`gen_random_uuid(), 'orders.placed', '{"n": 1}', 1, now() FROM generate_series(1, %d)`, rows)
	} else {
		insert += fmt.Sprintf(`UNHEX(REPLACE(UUID(), '-', '')), 'orders.placed', '{"n": 1}', 1, UTC_TIMESTAMP(6) FROM seq_1_to_%d`, rows)
		analyze = "ANALYZE TABLE " + table
	}
	for _, text := range []string{insert, analyze} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%.100s: %v", text, err)
		}
	}
}

// plan returns how the database runs a recorded statement.
func plan(t testing.TB, db *sql.DB, s statement) string {
	t.Helper()
	args := make([]any, len(s.args))
	for i, arg := range s.args {
		args[i] = arg.Value
	}
	rows, err := db.QueryContext(t.Context(), "EXPLAIN "+s.text, args...)
	if err != nil {
		t.Fatalf("EXPLAIN %s: %v", s.text, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if len(columns) > 1 {
				fmt.Fprintf(&out, "%s=%s ", columns[i], v.String)
			} else {
				fmt.Fprintln(&out, v.String)
			}
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// polled are the databases whose polls are looked at.
func polled() []outboxOn { return outboxDatabases()[:2] }

// poll runs a worker with nothing to do until it has polled so often, and returns these statements.
func poll(t testing.TB, d outboxOn, o *outbox.Outbox, polls int) []statement {
	t.Helper()
	r, db := record(t, d.driver, d.source)
	s, err := o.Subscriber(db, outbox.WorkerConfig{PollInterval: time.Millisecond, BatchSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Subscribe(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	const warm = 20
	r.record(true)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(suite.Timeout); ; {
		var found []statement
		for _, s := range r.recorded("attempts < ") {
			if strings.Contains(s.text, "LIMIT") {
				found = append(found, s)
			}
		}
		if len(found) >= polls+warm {
			return found[warm:]
		}
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("%d polls", len(found))
		}
	}
}

// A poll finds what is due by the index of what is not delivered, however many rows are
// delivered, and whatever the database believes: here that a third of the rows is not.
func TestOutboxPlan(t *testing.T) {
	t.Parallel()
	for _, d := range polled() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			p := d.place(t, outbox.Config{})
			p.deliver(100_000) // of fewer PostgreSQL rather reads the table
			analyze := "ANALYZE TABLE "
			if d.dialect == outbox.PostgreSQL {
				analyze = "ANALYZE "
			}
			for _, text := range []string{
				"UPDATE " + p.Table() + " SET delivered_at = NULL WHERE id % 3 = 0",
				analyze + p.Table(),
				"UPDATE " + p.Table() + " SET delivered_at = created_at WHERE delivered_at IS NULL",
			} {
				if _, err := p.db.ExecContext(t.Context(), text); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			text := plan(t, p.db, poll(t, d, p.Outbox, 1)[0])
			if index := "idx_" + p.Table() + "_pending"; !strings.Contains(text, index) || strings.Contains(text, "Seq Scan") {
				t.Errorf("the plan does not use %s:\n%s", index, text)
			}
		})
	}
}

// What a poll costs that finds nothing, beside a million delivered rows and beside none.
func BenchmarkOutboxPoll(b *testing.B) {
	for _, d := range polled() {
		b.Run(d.name, func(b *testing.B) {
			db := open(b, d.driver, d.source)
			median := func(table string, rows int) (time.Duration, string) {
				o, err := outbox.New(outbox.Config{Dialect: d.dialect, Table: table})
				if err != nil {
					b.Fatal(err)
				}
				if err := o.Apply(b.Context(), db); err != nil {
					b.Fatal(err)
				}
				if rows > 0 {
					deliver(b, db, d.dialect, table, rows)
				}
				polls := poll(b, d, o, 500)
				slices.SortFunc(polls, func(a, b statement) int { return int(a.took - b.took) })
				return polls[len(polls)/2].took, plan(b, db, polls[0])
			}
			n := outboxTables.Add(1)
			full, empty := fmt.Sprintf("polled_full_%d", n), fmt.Sprintf("polled_empty_%d", n)
			for b.Loop() {
				without, _ := median(empty, 0)
				with, text := median(full, deliveredRows)
				again, _ := median(empty, 0)
				b.ReportMetric(float64(without+again)/2/float64(time.Microsecond), "µs/empty")
				b.ReportMetric(float64(with)/float64(time.Microsecond), "µs/million")
				b.ReportMetric(2*float64(with)/float64(without+again), "x")
				b.Logf("beside %d delivered rows:\n%s", deliveredRows, text)
			}
		})
	}
}
