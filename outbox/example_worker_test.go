package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/outbox"
)

// A router handles the events of the table like messages of a topic; the empty topic has those of
// every type.
func ExampleOutbox_Subscriber() {
	run := func(ctx context.Context, db *sql.DB) error {
		events, err := outbox.New(outbox.Config{Dialect: outbox.PostgreSQL})
		if err != nil {
			return err
		}
		subscriber, err := events.Subscriber(db, outbox.WorkerConfig{Logger: slog.Default()})
		if err != nil {
			return err
		}
		router, err := message.NewRouter(message.RouterConfig{}, watermill.NewSlogLogger(slog.Default()))
		if err != nil {
			return err
		}
		router.AddMiddleware(outbox.KeepError)
		router.AddConsumerHandler("orders", "orders.placed", subscriber, func(msg *message.Message) error {
			e, err := outbox.FromMessage(msg)
			if err != nil {
				return err
			}
			fmt.Println(e.EventID, e.CreatedAt, e.Attempts)
			return nil
		})
		return router.Run(ctx)
	}
	_ = run
}

// A relay publishes the events of the table: here as hooks, in the order of each subject.
func ExampleOutbox_Relay() {
	run := func(ctx context.Context, db *sql.DB, publisher message.Publisher) error {
		events, err := outbox.New(outbox.Config{Dialect: outbox.PostgreSQL})
		if err != nil {
			return err
		}
		hooks, err := outbox.HookForm{Source: "orders"}.Form()
		if err != nil {
			return err
		}
		relay, err := events.Relay(db, publisher, outbox.RelayConfig{
			WorkerConfig: outbox.WorkerConfig{Logger: slog.Default()},
			Topic:        func(*outbox.Envelope) string { return "hooks" },
			Form:         hooks,
			Ordered:      true,
		})
		if err != nil {
			return err
		}
		return relay.Run(ctx)
	}
	_ = run
}
