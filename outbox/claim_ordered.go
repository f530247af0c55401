package outbox

import (
	"context"
	"database/sql"
	"time"
)

// free is the condition of a row whose subject has no row that waits for a lease, for its next
// attempt, or for the dead letters. It keeps the rows of a subject that is held up out of the
// search, however many they are; that they may be taken only withhold says.
func (s *store) free(row string) string {
	held := "e.subject_id IS NOT NULL AND e.delivered_at IS NULL AND NOT (" + s.due("e.") + ")"
	if s.d == PostgreSQL {
		return "NOT EXISTS (SELECT 1 FROM " + s.table + " AS e WHERE e.subject_id = " + row + "subject_id AND " + held + ")"
	}
	return "(" + row + "subject_id IS NULL OR " + row + "subject_id NOT IN (SELECT e.subject_id FROM " + s.table + " AS e WHERE " + held + "))"
}

// withhold drops locked rows from a claim that must not be delivered yet: those with an earlier
// row of their subject, not delivered, that is not among the locked ones, and those behind them.
//
// The statement begins after the rows were locked, so that it sees what others did to the
// earlier ones until then. What they have locked and not changed yet is not delivered.
func (s *store) withhold(ctx context.Context, tx session, c *claim, after int64) error {
	if !s.ordered {
		return nil
	}
	of := make([]row, 0, len(c.rows))
	for _, r := range c.rows {
		if r.subject != "" {
			of = append(of, r)
		}
	}
	if len(of) == 0 {
		return nil
	}
	// When few rows wait they are soon found by the index that has no others. While the table is
	// worked off it may be quicker to ask for the rows of each subject, if it has not had many.
	bySubject, begin := after > 0 && s.bySubject <= s.byWaiting, time.Now()
	text, args := s.withholdStatement(of, bySubject)
	gaps := make(map[int64]bool)
	err := query(ctx, tx, text, args, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		gaps[id] = true
		return err
	})
	if bySubject {
		s.bySubject = time.Since(begin)
	} else {
		s.byWaiting = time.Since(begin)
	}
	if err != nil || len(gaps) == 0 {
		return err
	}
	held := make(map[string]bool)
	kept := c.rows[:0]
	for _, r := range c.rows { // in the order of their ids
		if r.subject != "" && (held[r.subject] || gaps[r.id]) {
			held[r.subject] = true
			continue
		}
		kept = append(kept, r)
	}
	c.rows = kept
	return nil
}

// withholdStatement finds those of the rows that have a row before them, and behind the one
// before them among the rows, that is not delivered: among those of each subject, by their index,
// which has the delivered ones too; or among all that wait.
func (s *store) withholdStatement(rows []row, bySubject bool) (text string, args []any) {
	among := "id IN (" + list(rows) + ")"
	if s.d == PostgreSQL {
		ids, _ := arrays(rows)
		among, args = "id = ANY(CAST(CAST($1 AS text) AS bigint[]))", []any{ids}
	}
	of := "SELECT id, subject_id, COALESCE(LAG(id) OVER (PARTITION BY subject_id ORDER BY id), 0) AS previous FROM " +
		s.table + " WHERE " + among
	waiting := "SELECT id, subject_id FROM " + s.table + " WHERE delivered_at IS NULL AND subject_id IS NOT NULL"
	gap := "e.subject_id = r.subject_id AND e.id > r.previous AND e.id < r.id"
	switch {
	case bySubject && s.d == PostgreSQL: // LIMIT keeps the planner from making a join of it
		return "SELECT r.id FROM (" + of + ") AS r CROSS JOIN LATERAL (SELECT 1 FROM " + s.table +
			" AS e WHERE " + gap + " AND " + hidden("e.") + " LIMIT 1) AS g", args
	case bySubject:
		return "SELECT r.id FROM (" + of + ") AS r WHERE EXISTS (SELECT 1 FROM " + s.table + " AS e WHERE " + gap +
			" AND " + hidden("e.") + ")", args
	case s.d == PostgreSQL: // as OFFSET does
		waiting += " OFFSET 0"
	case s.d == SQLite: // as this does
		waiting += " LIMIT -1"
	}
	return "SELECT DISTINCT r.id FROM (" + of + ") AS r JOIN (" + waiting + ") AS e ON " + gap, args
}
