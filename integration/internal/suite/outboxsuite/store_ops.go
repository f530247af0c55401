package outboxsuite

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

// ago is the expression of a time by the database's clock.
func ago(d outbox.Dialect, interval string) string {
	switch d {
	case outbox.PostgreSQL:
		return "NOW() - INTERVAL '" + interval + "'"
	case outbox.MySQL:
		n, unit, _ := strings.Cut(interval, " ")
		return "UTC_TIMESTAMP(6) - INTERVAL " + n + " " + unit
	}
	return "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '" + signed(interval) + "')"
}

func purged(t *testing.T, d suite.SQLDatabase) {
	b := newTable(t, d)
	for n := range 12 {
		b.put(nth(n))
	}
	b.exec("UPDATE " + b.name + " SET created_at = " + ago(d.Dialect, "9 HOUR") + " WHERE id <= 10")
	b.exec("UPDATE " + b.name + " SET delivered_at = " + ago(d.Dialect, "3 HOUR") + " WHERE id <= 7 AND id <> 4")
	b.exec("UPDATE " + b.name + " SET delivered_at = " + ago(d.Dialect, "1 HOUR") + " WHERE id IN (8, 11)")
	for _, want := range []int64{6, 0} {
		if n, err := b.Purge(t.Context(), b.db, 2*time.Hour, 3); err != nil || n != want {
			t.Errorf("%d deleted, %v, want %d", n, err, want)
		}
		b.want(6, "id IN (4, 8, 9, 10, 11, 12)")
		b.want(6, "1 = 1")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Purge(ended, b.db, time.Minute, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	if n, err := b.Purge(t.Context(), b.db, time.Minute, 100); err != nil || n != 2 {
		t.Errorf("%d deleted, %v, want 2", n, err)
	}
	for _, olderThan := range []time.Duration{0, -1} {
		if _, err := b.Purge(t.Context(), b.db, olderThan, 1); err == nil {
			t.Errorf("purged what is older than %v", olderThan)
		}
	}
	if _, err := b.Purge(t.Context(), b.db, time.Hour, 0); err == nil {
		t.Error("purged in batches of none")
	}
}

// bury moves all rows to the dead letters.
func (b *table) bury(exhausted string) {
	b.t.Helper()
	b.exec("INSERT INTO " + b.DeadLetterTable() + " (event_id, event_type, payload, subject_id, created_at, attempts, last_error, exhausted_at) " +
		"SELECT event_id, event_type, payload, subject_id, created_at, 5, 'no stock', " + exhausted + " FROM " + b.name + " ORDER BY id")
	b.exec("DELETE FROM " + b.name)
}

var all = outbox.DeadLetterFilter{All: true}

func deadLetters(t *testing.T, d suite.SQLDatabase) {
	b := newTable(t, d)
	subject := outbox.NewID()
	begin := time.Now()
	old := b.put(nth(1), paid{nth(2)})
	b.bury(ago(d.Dialect, "2 HOUR"))
	id, err := b.PublishInTxWithSubject(t.Context(), b.db, subject, nth(3))
	must(t, err)
	b.bury(ago(d.Dialect, "0 HOUR"))
	for _, test := range []struct {
		name  string
		f     outbox.DeadLetterFilter
		after int64
		limit int
		want  []uuid.UUID
	}{
		{"all", all, 0, 10, []uuid.UUID{old[0], old[1], id}},
		{"a page", all, 0, 2, []uuid.UUID{old[0], old[1]}},
		{"the next page", all, 2, 2, []uuid.UUID{id}},
		{"ids", outbox.DeadLetterFilter{EventIDs: []uuid.UUID{id, old[0], outbox.NewID()}}, 0, 10, []uuid.UUID{old[0], id}},
		{"a type", outbox.DeadLetterFilter{EventType: "orders.placed"}, 0, 10, []uuid.UUID{old[0], id}},
		{"a type in another case", outbox.DeadLetterFilter{EventType: "Orders.placed"}, 0, 10, nil},
		{"late", outbox.DeadLetterFilter{From: begin.Add(-time.Hour)}, 0, 10, []uuid.UUID{id}},
		{"early", outbox.DeadLetterFilter{Until: begin.Add(-time.Hour)}, 0, 10, []uuid.UUID{old[0], old[1]}},
		{"both", outbox.DeadLetterFilter{EventType: "orders.placed", From: begin.Add(-3 * time.Hour), Until: begin.Add(-time.Hour)}, 0, 10, []uuid.UUID{old[0]}},
	} {
		list, err := b.DeadLetters(t.Context(), b.db, test.f, test.after, test.limit)
		must(t, err)
		var got []uuid.UUID
		for _, l := range list {
			got = append(got, l.EventID)
		}
		if len(got) != len(test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
			continue
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%s: %v, want %v", test.name, got, test.want)
			}
		}
	}
	list, err := b.DeadLetters(t.Context(), b.db, outbox.DeadLetterFilter{EventIDs: []uuid.UUID{id}}, 0, 1)
	must(t, err)
	l := list[0]
	if e, err := outbox.Decode[placed](&l.Envelope); err != nil || e.N != 3 {
		t.Errorf("%v, %v", e, err)
	}
	if l.SubjectID.UUID != subject || l.Attempts != 5 || l.LastError != "no stock" ||
		l.CreatedAt.Sub(begin).Abs() > time.Minute || l.ExhaustedAt.Sub(begin).Abs() > time.Minute {
		t.Errorf("%v, exhausted at %v", l, l.ExhaustedAt)
	}
	for _, f := range []outbox.DeadLetterFilter{{}, {All: true, EventType: "x"}} {
		_, errList := b.DeadLetters(t.Context(), b.db, f, 0, 1)
		_, errReplay := b.Replay(t.Context(), b.db, f, 1)
		_, errDelete := b.DeleteDeadLetters(t.Context(), b.db, f, 1)
		if errList == nil || errReplay == nil || errDelete == nil {
			t.Errorf("%+v is taken: %v, %v, %v", f, errList, errReplay, errDelete)
		}
	}
	if n, err := b.DeleteDeadLetters(t.Context(), b.db, outbox.DeadLetterFilter{EventType: "orders.placed"}, 1); err != nil || n != 1 {
		t.Errorf("%d deleted, %v", n, err)
	}
	if n, err := b.DeleteDeadLetters(t.Context(), b.db, all, 10); err != nil || n != 2 {
		t.Errorf("%d deleted, %v", n, err)
	}
}

// A dead letter that cannot be read does not hide the others.
func unreadable(t *testing.T, d suite.SQLDatabase) {
	if d.Dialect != outbox.SQLite {
		t.Log("the columns have types")
		return
	}
	b := newTable(t, d)
	b.exec("INSERT INTO " + b.DeadLetterTable() + " (event_id, event_type, payload, subject_id, created_at, attempts, last_error) VALUES " +
		"('no uuid', 'a.b', x'00ff', 'x', 'yesterday', 5, 'undecodable')")
	b.put(nth(1))
	b.bury(ago(d.Dialect, "0 HOUR"))
	list, err := b.DeadLetters(t.Context(), b.db, all, 0, 10)
	must(t, err)
	if len(list) != 2 || list[0].EventID != uuid.Nil || string(list[0].Payload) != "\x00\xff" || list[0].SubjectID.Valid || !list[0].CreatedAt.IsZero() {
		t.Errorf("%v", list)
	}
}

func replayed(t *testing.T, d suite.SQLDatabase) {
	b := newTable(t, d)
	ids := b.put(nth(1), paid{nth(2)}, nth(3))
	b.exec("UPDATE " + b.name + " SET created_at = " + ago(d.Dialect, "9 HOUR"))
	b.bury(ago(d.Dialect, "2 HOUR"))
	// One of them is in the table again already.
	if added, err := b.EnqueueIdempotent(t.Context(), b.db, ids[0], "orders.placed", []byte(`{"n":1}`)); err != nil || !added {
		t.Fatal(added, err)
	}
	for _, step := range []struct {
		f           outbox.DeadLetterFilter
		limit       int
		moved, dead int64
	}{
		{outbox.DeadLetterFilter{EventIDs: ids[:1]}, 10, 0, 3},
		{all, 1, 1, 2},
		{all, 10, 1, 1},
		{all, 10, 0, 1},
	} {
		if n, err := b.Replay(t.Context(), b.db, step.f, step.limit); err != nil || n != step.moved {
			t.Errorf("%+v: %d moved, %v, want %d", step.f, n, err, step.moved)
		}
		if got := b.count("SELECT count(*) FROM " + b.DeadLetterTable()); int64(got) != step.dead {
			t.Errorf("%+v: %d dead letters, want %d", step.f, got, step.dead)
		}
	}
	b.want(3, "attempts = 0 AND last_error IS NULL AND next_retry_at IS NULL AND delivered_at IS NULL")
	b.want(2, "NOT ("+recent(d.Dialect, "created_at")+")")
	must(t, b.Check(t.Context(), b.db))
	// And it dies again.
	b.exec("DELETE FROM " + b.DeadLetterTable())
	b.bury(ago(d.Dialect, "0 HOUR"))
}

func stats(t *testing.T, d suite.SQLDatabase) {
	b := newTable(t, d)
	s, err := b.Stats(t.Context(), b.db, 5)
	must(t, err)
	if s.OldestAge != 0 || s.Due+s.Waiting+s.Exhausted+s.DeadLetters != 0 || len(s.Attempts) != 0 {
		t.Errorf("of an empty table: %+v", s)
	}
	b.put(nth(1))
	b.bury(ago(d.Dialect, "0 HOUR"))
	for n := range 8 {
		b.put(nth(n))
	}
	rows := b.strings("SELECT CAST(id AS CHAR(9)) FROM " + b.name + " ORDER BY id")
	set := func(row int, what string) { b.exec("UPDATE " + b.name + " SET " + what + " WHERE id = " + rows[row]) }
	set(0, "delivered_at = "+ago(d.Dialect, "1 HOUR")+", created_at = "+ago(d.Dialect, "9 HOUR")+", attempts = 1")
	set(1, "attempts = 5, created_at = "+ago(d.Dialect, "8 HOUR"))
	set(2, "attempts = 1, next_retry_at = "+ago(d.Dialect, "-1 HOUR")+", created_at = "+ago(d.Dialect, "2 HOUR"))
	set(3, "attempts = 4, next_retry_at = "+ago(d.Dialect, "1 HOUR"))
	if s, err = b.Stats(t.Context(), b.db, 5); err != nil {
		t.Fatal(err)
	}
	if s.Due != 5 || s.Waiting != 1 || s.Exhausted != 1 || s.DeadLetters != 1 || !maps.Equal(s.Attempts, map[int]int64{0: 4, 1: 1, 4: 1, 5: 1}) ||
		(s.OldestAge-2*time.Hour).Abs() > time.Minute {
		t.Errorf("%+v", s)
	}
	if _, err := b.Stats(t.Context(), b.db, 0); err == nil {
		t.Error("counted for no attempts")
	}
}

// signed is a modifier of SQLite's that goes back.
func signed(interval string) string {
	if later, ok := strings.CutPrefix(interval, "-"); ok {
		return "+" + later
	}
	return "-" + interval
}
