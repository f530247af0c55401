package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/outbox"
)

type orderPlaced struct {
	Total int `json:"total"`
}

func (orderPlaced) EventType() string { return "orders.placed" }

// An event is written in the transaction of the data, and a router handles it like a message of a
// topic. A handler that fails gets the event again.
func Example_outbox() {
	if err := runOutbox(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// attempt 0: 7
	// attempt 1: 7
}

func runOutbox(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "outbox")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "orders.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return err
	}
	defer db.Close()
	events, err := outbox.New(outbox.Config{Dialect: outbox.SQLite})
	if err != nil {
		return err
	}
	if err := events.Apply(ctx, db); err != nil {
		return err
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := events.PublishInTx(ctx, tx, orderPlaced{Total: 7}); err != nil { // beside the order
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}

	subscriber, err := events.Subscriber(db, outbox.WorkerConfig{})
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	router.AddMiddleware(outbox.KeepError)
	router.AddConsumerHandler("orders", "orders.placed", subscriber, func(msg *message.Message) error {
		e, err := outbox.FromMessage(msg)
		if err != nil {
			return err
		}
		placed, err := outbox.Decode[orderPlaced](e)
		if err != nil {
			return err
		}
		fmt.Printf("attempt %d: %d\n", e.Attempts, placed.Total)
		if e.Attempts == 0 {
			return fmt.Errorf("no stock") // last_error, and it comes again
		}
		cancel()
		return nil
	})
	return router.Run(ctx)
}
