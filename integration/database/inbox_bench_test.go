package database

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/watermill-envelope/envelope/inbox"
	"github.com/watermill-envelope/envelope/inbox/redisinbox"
	"github.com/watermill-envelope/envelope/inbox/sqlinbox"
)

// What a new message costs in each store, and beside it a bare transaction of one write, which
// is what a handler has anyway: on SQL both write one effect.
func BenchmarkInbox(b *testing.B) {
	for _, d := range []struct {
		dialect        sqlinbox.Dialect
		driver, source string
	}{
		{sqlinbox.PostgreSQL, "pgx", postgresServer.URL()},
		{sqlinbox.MySQL, "mysql", mariadbServer.DSN()},
	} {
		db := open(b, d.driver, d.source)
		if _, err := db.ExecContext(b.Context(), "CREATE TABLE IF NOT EXISTS bench_effects (n INT)"); err != nil {
			b.Fatal(err)
		}
		i, err := sqlinbox.New(sqlinbox.Config{DB: db, Dialect: d.dialect, Table: "bench_inbox"})
		if err != nil {
			b.Fatal(err)
		}
		if err := i.Apply(b.Context()); err != nil {
			b.Fatal(err)
		}
		effect := func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO bench_effects (n) VALUES (1)")
			return err
		}
		b.Run(d.dialect.String()+"/bare", func(b *testing.B) {
			for b.Loop() {
				tx, err := db.BeginTx(b.Context(), nil)
				if err != nil {
					b.Fatal(err)
				}
				if err := effect(b.Context(), tx); err != nil {
					b.Fatal(err)
				}
				if err := tx.Commit(); err != nil {
					b.Fatal(err)
				}
			}
		})
		benchmarkSeen(b, d.dialect.String(), i, func(ctx context.Context) error {
			tx, _ := sqlinbox.Tx(ctx)
			return effect(ctx, tx)
		})
	}
	client := redisClient(b, redisServer.Addr())
	b.Run("Redis/bare", func(b *testing.B) {
		for b.Loop() {
			if err := client.Incr(b.Context(), "bench").Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	i, _ := redisInbox(b, redisServer.Addr(), redisinbox.Config{})
	benchmarkSeen(b, "Redis", i, nop)
}

func benchmarkSeen(b *testing.B, name string, seen inbox.Seen, fn func(ctx context.Context) error) {
	once := func(b *testing.B, key string) {
		if _, err := seen.Once(b.Context(), key, fn); err != nil {
			b.Fatal(err)
		}
	}
	b.Run(name+"/new", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			once(b, fmt.Sprintf("bench:%d:%d", prefixes.Add(1), n))
		}
	})
	b.Run(name+"/duplicate", func(b *testing.B) {
		for b.Loop() {
			once(b, "bench:again")
		}
	})
}
