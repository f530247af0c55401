package database

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/watermill-envelope/envelope/outbox"
	"github.com/watermill-envelope/envelope/outbox/pgxoutbox"
)

type shipped struct {
	N int `json:"n"`
}

func (shipped) EventType() string { return "orders.shipped" }

// notifying returns an outbox with Notify in tables of its own, and a pool of pgx.
func notifying(t *testing.T, table, options string) (*outbox.Outbox, *pgxpool.Pool) {
	t.Helper()
	o, err := outbox.New(outbox.Config{Dialect: outbox.PostgreSQL, Table: table, Notify: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Apply(t.Context(), open(t, "pgx", postgresServer.URL())); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), postgresServer.URL()+options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return o, pool
}

// A transaction that published wakes the listener up when it commits, one that is rolled back does
// not, however pgx runs its statements.
func TestOutboxNotifies(t *testing.T) {
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			o, pool := notifying(t, "notify_"+mode, "&default_query_exec_mode="+mode)
			l, err := pgxoutbox.NewListener(o, postgresServer.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			waiting, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := l.Wait(waiting); err != nil { // it has connected
				t.Fatal(err)
			}
			publish := func(end func(pgx.Tx, context.Context) error) {
				t.Helper()
				tx, err := pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for n := range 3 {
					if _, err := pgxoutbox.PublishInTxWithSubject(t.Context(), o, tx, outbox.NewID(), shipped{n}); err != nil {
						t.Fatal(err)
					}
				}
				if err := end(tx, t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			publish(pgx.Tx.Rollback)
			publish(pgx.Tx.Commit)
			if err := l.Wait(waiting); err != nil {
				t.Fatal(err)
			}
			id := outbox.NewID()
			for _, want := range []bool{true, false} {
				if added, err := pgxoutbox.EnqueueIdempotent(t.Context(), o, pool, id, "a.b", []byte(`{"a":"b"}`)); err != nil || added != want {
					t.Errorf("%v, %v", added, err)
				}
			}
			if err := l.Wait(waiting); err != nil {
				t.Fatal(err)
			}
			// Nothing else was sent: neither by what was rolled back nor by what was there.
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := l.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("one notification more, or %v", err)
			}
			var n int
			if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM notify_"+mode).Scan(&n); err != nil || n != 4 {
				t.Errorf("%d rows, %v, want 4", n, err)
			}
			// The wait that ended has broken nothing.
			if _, err := pgxoutbox.Publish(t.Context(), o, pool, shipped{9}); err != nil {
				t.Fatal(err)
			}
			if err := l.Wait(waiting); err != nil {
				t.Error(err)
			}
		})
	}
}

// A connection that breaks is an error once, and made again by the next call, which returns at
// once, since a notification may have been missed.
func TestOutboxListenerConnectsAgain(t *testing.T) {
	o, pool := notifying(t, "notify_again", "")
	l, err := pgxoutbox.NewListener(o, postgresServer.URL())
	if err != nil {
		t.Fatal(err)
	}
	waiting, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := l.Wait(waiting); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN \"notify_again\"'"); err != nil {
		t.Fatal(err)
	}
	if err := l.Wait(waiting); err == nil {
		t.Error("it waits on a connection that is gone")
	}
	if _, err := pgxoutbox.Publish(t.Context(), o, pool, shipped{1}); err != nil {
		t.Fatal(err)
	}
	if err := l.Wait(waiting); err != nil {
		t.Fatal(err)
	}
	woken, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			err := l.Wait(waiting)
			if err != nil {
				ended <- err
				return
			}
			woken <- struct{}{}
		}
	}()
	if _, err := pgxoutbox.Publish(t.Context(), o, pool, shipped{2}); err != nil {
		t.Fatal(err)
	}
	<-woken // and it waits again
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; waiting.Err() != nil {
		t.Errorf("a wait goes on after Close: %v", err)
	}
}
