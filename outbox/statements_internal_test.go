package outbox

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The statements on the table are what other programs on it have to live with: a change of one is
// seen in testdata/statements.golden. They run in the integration tests.
func TestStatements(t *testing.T) {
	var b strings.Builder
	for _, d := range []Dialect{PostgreSQL, MySQL, SQLite} {
		o, err := New(Config{Dialect: d})
		if err != nil {
			t.Fatal(err)
		}
		say := func(name, text string, args []any) {
			fmt.Fprintf(&b, "-- %v: %s\n%s;\n", d, name, text)
			for n, arg := range args {
				fmt.Fprintf(&b, "--   %d: %#v\n", n+1, arg)
			}
		}
		all := newStore(o, nil, demand{maxAttempts: 5, batch: 10, timeout: 30 * time.Second})
		one := newStore(o, nil, demand{maxAttempts: 5, batch: 10, timeout: 30 * time.Second, eventType: "orders.placed"})
		ordered := newStore(o, nil, demand{maxAttempts: 5, batch: 100, timeout: 30 * time.Second, whole: true, ordered: true})
		statement := func(name string, f func() (string, []any)) {
			text, args := f()
			say(name, text, args)
		}
		rows := []row{{id: 1, attempts: 1}, {id: 2, attempts: 1}, {id: 5, attempts: 3}}
		c := &claim{lease: any(int64(1767323045678000))}
		if d == SQLite {
			c.lease = "2026-01-02T03:04:05.678Z"
		}
		if d == PostgreSQL {
			statement("claim", func() (string, []any) { return all.claimStatement(0) })
			statement("claim behind an id", func() (string, []any) { return all.claimStatement(70) })
			statement("claim one type", func() (string, []any) { return one.claimStatement(0) })
			statement("lock in order", func() (string, []any) { return ordered.lockStatement("", 0) })
			statement("lock in order behind an id", func() (string, []any) { return ordered.lockStatement("", 70) })
		} else {
			statement("search", func() (string, []any) { return all.search("id", "", 0, nil) })
			statement("search behind an id", func() (string, []any) { return all.search("id", "", 70, nil) })
			statement("search one type", func() (string, []any) { return one.search("id", "", 0, nil) })
			statement("search in order", func() (string, []any) { return ordered.search("id", "", 0, nil) })
			statement("lock", func() (string, []any) { return all.lockStatement("1,2,5", 0) })
		}
		statement("earlier ones that wait", func() (string, []any) { return ordered.withholdStatement(rows, false) })
		statement("earlier ones of a subject", func() (string, []any) { return ordered.withholdStatement(rows, true) })
		statement("settle", func() (string, []any) { return all.updateStatement("delivered_at = "+d.Now(), nil, c, rows[:2]) })
		statement("settle with other attempts", func() (string, []any) {
			return all.updateStatement("last_error = "+d.Placeholder(1), []any{"no stock"}, c, rows)
		})
		say("dead letter", all.insert("SELECT "+all.copied()+", ? FROM "+all.table+" WHERE "+all.asRead(1)), nil)
		say("dead letter of what cannot be copied", "SELECT "+all.salvaged(), nil)
		statement("without a result", one.exhaustedStatement)
	}
	const file = "testdata/statements.golden"
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("the statements have changed; %s should be\n%s", file, got)
	}
}
