package suite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/inbox"
	"github.com/watermill-envelope/envelope/inbox/inboxtest"
	"github.com/watermill-envelope/envelope/inbox/sqlinbox"
)

// An SQLDatabase is where the tables of an inbox are made for one test each.
type SQLDatabase struct {
	Dialect sqlinbox.Dialect
	// Open returns connections of their own to the same database, which are closed with the
	// test.
	Open func(t testing.TB) *sql.DB
	// Closed returns connections to a server that does not answer.
	Closed func(t testing.TB) *sql.DB
	// Isolation has the levels to run at.
	Isolation []sql.IsolationLevel
}

var tables atomic.Int64

// new returns an inbox in a table of its own, which is not there yet.
func (d SQLDatabase) new(t testing.TB) *sqlinbox.Inbox {
	t.Helper()
	return d.in(t, fmt.Sprintf("inbox_%d", tables.Add(1)), sql.LevelDefault)
}

func (d SQLDatabase) in(t testing.TB, table string, level sql.IsolationLevel) *sqlinbox.Inbox {
	t.Helper()
	i, err := sqlinbox.New(sqlinbox.Config{
		DB: d.Open(t), Dialect: d.Dialect, Table: table, TxOptions: sql.TxOptions{Isolation: level},
	})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// SQLInbox runs what package sqlinbox promises on a database.
func SQLInbox(t *testing.T, d SQLDatabase) {
	for _, level := range d.Isolation {
		t.Run("suite at "+level.String(), func(t *testing.T) {
			table := ""
			inboxtest.Run(t, inboxtest.Harness{
				New: func(t *testing.T) inbox.Seen {
					table = fmt.Sprintf("inbox_%d", tables.Add(1))
					i := d.in(t, table, level)
					must(t, i.Apply(t.Context()))
					return i
				},
				Again:      func(t *testing.T, _ inbox.Seen) inbox.Seen { return d.in(t, table, level) },
				OneAtATime: d.Dialect == sqlinbox.SQLite,
				Unavailable: func(t *testing.T) inbox.Seen {
					i, err := sqlinbox.New(sqlinbox.Config{DB: d.Closed(t), Dialect: d.Dialect})
					must(t, err)
					return i
				},
			})
		})
	}
	for _, f := range []struct {
		name string
		run  func(*testing.T, SQLDatabase)
	}{
		{"key and data are one", sqlInboxTransaction},
		{"check", sqlInboxCheck},
		{"no table", sqlInboxNoTable},
		{"prune", sqlInboxPrune},
		{"many at once", sqlInboxLoad},
		{"handlers that end the transaction", sqlInboxEnded},
	} {
		t.Run(f.name, func(t *testing.T) { f.run(t, d) })
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// placeholder is that of a statement's only argument.
func (d SQLDatabase) placeholder() string { return d.Dialect.Placeholder(1) }

// effects makes a table of effects and returns how to add one and how to count those of a name.
func (d SQLDatabase) effects(t testing.TB) (add func(ctx context.Context, name string) error, count func(name string) int) {
	t.Helper()
	table := fmt.Sprintf("effects_%d", tables.Add(1))
	db := d.Open(t)
	_, err := db.ExecContext(t.Context(), "CREATE TABLE "+table+" (name VARCHAR(100) NOT NULL)")
	must(t, err)
	add = func(ctx context.Context, name string) error {
		tx, ok := sqlinbox.Tx(ctx)
		if !ok {
			return errors.New("no transaction")
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO "+table+" (name) VALUES ("+d.placeholder()+")", name)
		return err
	}
	count = func(name string) (n int) {
		must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table+" WHERE name = "+d.placeholder(), name).Scan(&n))
		return n
	}
	return add, count
}

// What a handler writes is there if and only if its key is.
func sqlInboxTransaction(t *testing.T, d SQLDatabase) {
	i := d.new(t)
	must(t, i.Apply(t.Context()))
	add, count := d.effects(t)
	fail := errors.New("no stock")
	for n, step := range []struct {
		rule  string
		end   func() error
		first bool
		after int
	}{
		{"a handler that fails after its write", func() error { return fail }, false, 0},
		{"one that panics", func() error { panic(fail) }, false, 0},
		{"one that succeeds", func() error { return nil }, true, 1},
		{"and is not called again", func() error { return errors.New("called") }, false, 1},
	} {
		first, err := func() (first bool, err error) {
			defer func() {
				if p := recover(); p != nil {
					err = p.(error)
				}
			}()
			return i.Once(t.Context(), "h:1", func(ctx context.Context) error {
				if err := add(ctx, "a"); err != nil {
					return err
				}
				return step.end()
			})
		}()
		if got := count("a"); first != step.first || err != nil && !errors.Is(err, fail) || got != step.after {
			t.Errorf("%d, %s: %v, %v, and %d effects, want %v and %d", n, step.rule, first, err, got, step.first, step.after)
		}
	}
	if _, ok := sqlinbox.Tx(t.Context()); ok {
		t.Error("a transaction outside of a handler")
	}
}

func sqlInboxCheck(t *testing.T, d SQLDatabase) {
	good := d.new(t)
	if err := good.Check(t.Context()); err == nil {
		t.Error("a table that is not there passes")
	}
	for range 2 { // Apply changes nothing that is there
		must(t, good.Apply(t.Context()))
		must(t, good.Check(t.Context()))
	}
	type table struct{ rule, columns, options, text string }
	broken := []table{
		{"no such column", "message_key VARCHAR(255) NOT NULL PRIMARY KEY", "", ""},
		{"a key that is not unique", "message_key VARCHAR(255) NOT NULL, handled_at VARCHAR(40)", "", ""},
		{"no time", "message_key VARCHAR(255) NOT NULL PRIMARY KEY, handled_at " + d.Dialect.TimeType(), "", "not set to the time"},
	}
	if d.Dialect == sqlinbox.MySQL {
		broken = append(broken, table{
			"no transactions", "message_key VARBINARY(255) NOT NULL PRIMARY KEY, handled_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))",
			" ENGINE=MyISAM", "no transactions",
		})
	}
	for _, b := range broken {
		name := fmt.Sprintf("inbox_%d", tables.Add(1))
		_, err := d.Open(t).ExecContext(t.Context(), "CREATE TABLE "+name+" ("+b.columns+")"+b.options)
		must(t, err)
		err = d.in(t, name, sql.LevelDefault).Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), b.text) {
			t.Errorf("%s: %v, want an error with the table and %q", b.rule, err, b.text)
		}
	}
}

// Without its table the inbox handles nothing and loses nothing.
func sqlInboxNoTable(t *testing.T, d SQLDatabase) {
	i := d.new(t)
	call := func() (bool, error) {
		return i.Once(t.Context(), "h:1", func(context.Context) error { return nil })
	}
	if first, err := call(); first || !errors.Is(err, inbox.ErrUnavailable) || !envelope.IsTransient(err) {
		t.Errorf("%v, %v, want ErrUnavailable", first, err)
	}
	must(t, i.Apply(t.Context()))
	if first, err := call(); !first || err != nil {
		t.Errorf("once it is there: %v, %v", first, err)
	}
}

func sqlInboxPrune(t *testing.T, d SQLDatabase) {
	table := fmt.Sprintf("inbox_%d", tables.Add(1))
	i := d.in(t, table, sql.LevelDefault)
	must(t, i.Apply(t.Context()))
	add := func(key string) bool {
		first, err := i.Once(t.Context(), key, func(context.Context) error { return nil })
		must(t, err)
		return first
	}
	for n := range 25 {
		add(fmt.Sprintf("h:old-%02d", n))
	}
	_, err := d.Open(t).ExecContext(t.Context(), "UPDATE "+table+" SET handled_at = "+d.Dialect.NowPlus(d.placeholder()), d.Dialect.Interval(-time.Hour))
	must(t, err)
	for n := range 5 {
		add(fmt.Sprintf("h:new-%02d", n))
	}
	for _, step := range []struct {
		olderThan time.Duration
		want      int64
	}{{61 * time.Minute, 0}, {59 * time.Minute, 25}, {59 * time.Minute, 0}} {
		if n, err := i.Prune(t.Context(), step.olderThan, 10); n != step.want || err != nil {
			t.Errorf("prune what is older than %v: %d, %v, want %d", step.olderThan, n, err, step.want)
		}
	}
	if add("h:new-00") || !add("h:old-00") {
		t.Error("a new key was pruned, or an old one was not")
	}
	for _, bad := range []struct {
		olderThan time.Duration
		batch     int
	}{{0, 10}, {-time.Hour, 10}, {time.Hour, 0}} {
		if _, err := i.Prune(t.Context(), bad.olderThan, bad.batch); err == nil {
			t.Errorf("prune %v in batches of %d: no error", bad.olderThan, bad.batch)
		}
	}
}

// Each of many keys comes several times, from two connections at once, and takes effect once.
func sqlInboxLoad(t *testing.T, d SQLDatabase) {
	table := fmt.Sprintf("inbox_%d", tables.Add(1))
	inboxes := []*sqlinbox.Inbox{d.in(t, table, sql.LevelDefault), d.in(t, table, sql.LevelDefault)}
	must(t, inboxes[0].Apply(t.Context()))
	add, count := d.effects(t)
	keys := Count(400)
	work := make(chan int)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := range work {
				key := fmt.Sprintf("h:%d", n%keys)
				for {
					_, err := inboxes[w%2].Once(t.Context(), key, func(ctx context.Context) error { return add(ctx, key) })
					if err == nil {
						break
					}
					if !envelope.IsTransient(err) {
						t.Error(err)
						break
					}
				}
			}
		})
	}
	for n := range 3 * keys {
		work <- n
	}
	close(work)
	wg.Wait()
	for n := range keys {
		if got := count(fmt.Sprintf("h:%d", n)); got != 1 {
			t.Errorf("key %d took effect %d times", n, got)
		}
	}
}

// What a handler must not do is an error that ends in the poison topic, and is not tried for
// ever.
func sqlInboxEnded(t *testing.T, d SQLDatabase) {
	i := d.new(t)
	must(t, i.Apply(t.Context()))
	faults := []struct {
		rule string
		end  func(ctx context.Context, tx *sql.Tx) error
		kept bool
	}{
		{"rolls back", func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() }, false},
		{"commits", func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }, true},
	}
	if d.Dialect == sqlinbox.PostgreSQL {
		faults = append(faults, struct {
			rule string
			end  func(ctx context.Context, tx *sql.Tx) error
			kept bool
		}{"hides an error", func(ctx context.Context, tx *sql.Tx) error {
			_, _ = tx.ExecContext(ctx, "SELECT 1/0")
			return nil
		}, false})
	}
	for n, f := range faults {
		key := fmt.Sprintf("h:%d", n)
		_, err := i.Once(t.Context(), key, func(ctx context.Context) error {
			tx, _ := sqlinbox.Tx(ctx)
			return f.end(ctx, tx)
		})
		if err == nil || envelope.IsTransient(err) || !strings.Contains(err.Error(), "handler") {
			t.Errorf("a handler that %s: %v, want an error that is not transient", f.rule, err)
		}
		if first, err := i.Once(t.Context(), key, func(context.Context) error { return nil }); first == f.kept || err != nil {
			t.Errorf("after a handler that %s: %v, %v", f.rule, first, err)
		}
	}
}
