package database

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/internal/sidebyside"
	"github.com/watermill-envelope/envelope/outbox"
)

// kibibyte is an event of 1 KiB.
type kibibyte struct {
	Text string `json:"text"`
}

func (kibibyte) EventType() string { return "bench.kibibyte" }

// What publishing costs beside the same INSERT written by hand, each in a transaction of its own
// that commits, with 1, 4 and 16 writers at once, and what Notify adds: on a PostgreSQL that waits
// for the disk, since those that notify wait for it one after the other. By turns, so that the
// ratios hold.
func BenchmarkOutboxPublish(b *testing.B) {
	event := kibibyte{strings.Repeat("x", 1024)}
	safe := durable(b)
	postgres := postgresDatabase()
	postgres.Open = func(t testing.TB) *sql.DB { return open(t, safe.driver, safe.source) }
	for _, d := range []suite.SQLDatabase{postgres, mariaDBDatabase()} {
		for _, writers := range []int{1, 4, 16} {
			b.Run(fmt.Sprintf("%v/%d", d.Dialect, writers), func(b *testing.B) {
				db := d.Open(b)
				db.SetMaxOpenConns(writers)
				db.SetMaxIdleConns(writers)
				ways := []sidebyside.Way{
					{Name: "hand", F: concurrently(db, writers, byHand(b, d, event))},
					{Name: "outbox", F: concurrently(db, writers, byOutbox(b, d, db, "bench_plain", false, event))},
				}
				if d.Dialect == outbox.PostgreSQL {
					ways = append(ways, sidebyside.Way{Name: "notify", F: concurrently(db, writers, byOutbox(b, d, db, "bench_notify", true, event))})
				}
				sidebyside.Run(b, ways, 10)
			})
		}
	}
}

type insertion func(ctx context.Context, tx *sql.Tx) error

func byHand(b *testing.B, d suite.SQLDatabase, event kibibyte) insertion {
	b.Helper()
	statement := "INSERT INTO bench_plain (event_id, event_type, payload, subject_id) VALUES (" + d.Dialect.Placeholders(1, 4) + ")"
	return func(ctx context.Context, tx *sql.Tx) error {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		payload, err := json.Marshal(event)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, statement, d.Dialect.UUID(id), event.EventType(), string(payload), nil)
		return err
	}
}

func byOutbox(b *testing.B, d suite.SQLDatabase, db *sql.DB, table string, notify bool, event kibibyte) insertion {
	b.Helper()
	o, err := outbox.New(outbox.Config{Dialect: d.Dialect, Table: table, Notify: notify})
	if err != nil {
		b.Fatal(err)
	}
	if err := o.Apply(b.Context(), db); err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := o.PublishInTx(ctx, tx, event)
		return err
	}
}

// concurrently runs an insertion in one transaction of each writer, all at once.
func concurrently(db *sql.DB, writers int, insert insertion) func() error {
	return func() error {
		var wg sync.WaitGroup
		failures := make(chan error, writers)
		for range writers {
			wg.Go(func() {
				tx, err := db.BeginTx(context.Background(), nil)
				if err == nil {
					defer func() { _ = tx.Rollback() }() // does nothing after a commit
					err = insert(context.Background(), tx)
				}
				if err == nil {
					err = tx.Commit()
				}
				if err != nil {
					failures <- err
				}
			})
		}
		wg.Wait()
		close(failures)
		return <-failures
	}
}
