package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/inbox"
	"github.com/watermill-envelope/envelope/inbox/sqlinbox"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

// open returns connections that are closed with the test.
func open(t testing.TB, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func postgresDatabase() suite.SQLDatabase {
	return suite.SQLDatabase{
		Dialect: sqlinbox.PostgreSQL,
		Open:    func(t testing.TB) *sql.DB { return open(t, "pgx", postgresServer.URL()) },
		Closed: func(t testing.TB) *sql.DB {
			return open(t, "pgx", "postgres://probe@127.0.0.1:1/postgres?sslmode=disable")
		},
		Isolation: []sql.IsolationLevel{sql.LevelDefault, sql.LevelRepeatableRead, sql.LevelSerializable},
	}
}

// found are the connections of a client for which an update that changes nothing counts.
const found = "?clientFoundRows=true"

func mariaDBDatabase() suite.SQLDatabase {
	return suite.SQLDatabase{
		Dialect: sqlinbox.MySQL,
		Open:    func(t testing.TB) *sql.DB { return open(t, "mysql", mariadbServer.DSN()+found) },
		Closed:  func(t testing.TB) *sql.DB { return open(t, "mysql", "root@tcp(127.0.0.1:1)/test") },
		Isolation: []sql.IsolationLevel{
			sql.LevelDefault, sql.LevelReadCommitted, sql.LevelSerializable,
		},
	}
}

func TestInboxOnPostgres(t *testing.T) { suite.SQLInbox(t, postgresDatabase()) }

func TestInboxOnMariaDB(t *testing.T) { suite.SQLInbox(t, mariaDBDatabase()) }

// Two handlers that lock the same two rows in turn: one of them is told of the deadlock, which
// is transient, although its error came from its own statement, and succeeds when it comes again.
func TestInboxDeadlock(t *testing.T) {
	for _, d := range []suite.SQLDatabase{postgresDatabase(), mariaDBDatabase()} {
		t.Run(d.Dialect.String(), func(t *testing.T) {
			db := d.Open(t)
			for _, statement := range []string{
				"CREATE TABLE accounts (id INT PRIMARY KEY, n INT NOT NULL)",
				"INSERT INTO accounts VALUES (0, 0), (1, 0)",
			} {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			i, err := sqlinbox.New(sqlinbox.Config{DB: db, Dialect: d.Dialect, Table: "deadlocks"})
			if err != nil {
				t.Fatal(err)
			}
			if err := i.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			add := func(ctx context.Context, id int) error {
				tx, _ := sqlinbox.Tx(ctx)
				_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE accounts SET n = n + 1 WHERE id = %d", id))
				return err
			}
			var wg, both sync.WaitGroup
			both.Add(2)
			conflicts := make(chan error, 2)
			for n := range 2 {
				wg.Go(func() {
					key := fmt.Sprintf("h:%d", n)
					_, err := i.Once(t.Context(), key, func(ctx context.Context) error {
						err := add(ctx, n)
						both.Done()
						both.Wait()
						return errors.Join(err, add(ctx, 1-n))
					})
					if err == nil {
						return
					}
					conflicts <- err
					if _, err := i.Once(t.Context(), key, func(ctx context.Context) error {
						return errors.Join(add(ctx, n), add(ctx, 1-n))
					}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			close(conflicts)
			n := 0
			for err := range conflicts {
				n++
				if !errors.Is(err, inbox.ErrConflict) || !envelope.IsTransient(err) {
					t.Errorf("%v, want ErrConflict", err)
				}
			}
			if n == 0 {
				t.Error("no deadlock")
			}
			for id := range 2 {
				var got int
				if err := db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT n FROM accounts WHERE id = %d", id)).Scan(&got); err != nil || got != 2 {
					t.Errorf("account %d: %d, %v, want 2", id, got, err)
				}
			}
		})
	}
}
