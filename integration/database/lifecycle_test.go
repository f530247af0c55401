package database

import (
	"context"
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope/integration/servers"
)

// breakable is what fault tests do to a server.
type breakable interface {
	servers.Server
	Stop() error
	Kill() error
	Start(ctx context.Context) error
}

// survives checks that what was committed before each kind of end is there after it.
func survives(t *testing.T, server breakable, put func() error, count func() (int, error)) {
	t.Helper()
	servers.CloseAfter(t, server)
	for i, end := range []func() error{server.Stop, server.Kill, server.Stop} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if n, err := count(); err == nil {
			t.Fatalf("a stopped server counts %d", n)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := count(); err != nil || n != i+1 {
			t.Fatalf("%d rows, %v; want %d", n, err, i+1)
		}
	}
}

func sqlCalls(t *testing.T, driver, source string) (put func() error, count func() (int, error)) {
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxIdleConns(0) // each call meets the server as it is
	put = func() error {
		_, err := db.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS t (n INT)")
		if err == nil {
			_, err = db.ExecContext(t.Context(), "INSERT INTO t VALUES (1)")
		}
		return err
	}
	count = func() (n int, err error) {
		err = db.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&n)
		return n, err
	}
	return put, count
}

func TestPostgresSurvives(t *testing.T) {
	t.Parallel()
	server, err := servers.StartPostgres(t.Context(), servers.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	put, count := sqlCalls(t, "pgx", server.URL())
	survives(t, server, put, count)
}

func TestMariaDBSurvives(t *testing.T) {
	t.Parallel()
	server, err := servers.StartMariaDB(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put, count := sqlCalls(t, "mysql", server.DSN())
	survives(t, server, put, count)
}

func TestRedisSurvives(t *testing.T) {
	t.Parallel()
	server, err := servers.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	put := func() error { return client.RPush(t.Context(), "t", 1).Err() }
	count := func() (int, error) {
		n, err := client.LLen(t.Context(), "t").Result()
		return int(n), err
	}
	survives(t, server, put, count)
}
