package docs_test

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/outbox"
)

type OutboxOrder struct {
	ID uuid.UUID `json:"id"`
}

func (OutboxOrder) EventType() string   { return "orders.placed" }
func (OutboxOrder) MessageType() string { return "orders.placed" }

func placeOrder(ctx context.Context, db *sql.DB, ob *outbox.Outbox, order OutboxOrder) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES ($1)", order.ID); err != nil {
		return err
	}
	if _, err := ob.PublishInTxWithSubject(ctx, tx, order.ID, order); err != nil {
		return err
	}
	return tx.Commit()
}

func outboxTables(ctx context.Context, db *sql.DB) (*outbox.Outbox, error) {
	ob, err := outbox.New(outbox.Config{Dialect: outbox.PostgreSQL, Table: "shop_outbox"})
	if err != nil {
		return nil, err
	}
	if err := ob.Apply(ctx, db); err != nil { // or put ob.Schema() into your migrations
		return nil, err
	}
	if err := ob.Check(ctx, db); err != nil {
		return nil, err
	}
	return ob, nil
}

func outboxRelay(ctx context.Context, db *sql.DB, ob *outbox.Outbox, pub message.Publisher) error {
	relay, err := ob.Relay(db, pub, outbox.RelayConfig{
		WorkerConfig: outbox.WorkerConfig{Logger: slog.Default()},
		Ordered:      true,
	})
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}

func outboxHooks() (outbox.RelayConfig, error) {
	form, err := outbox.HookForm{Source: "orders", Tenant: "acme"}.Form()
	return outbox.RelayConfig{Form: form}, err
}

func outboxWorker(db *sql.DB, ob *outbox.Outbox, router *message.Router, ship func(context.Context, OutboxOrder) error) error {
	sub, err := ob.Subscriber(db, outbox.WorkerConfig{Logger: slog.Default()})
	if err != nil {
		return err
	}
	router.AddMiddleware(outbox.KeepError)
	router.AddConsumerHandler("shipping", "orders.placed", sub, func(msg *message.Message) error {
		e, err := outbox.FromMessage(msg)
		if err != nil {
			return err
		}
		order, err := outbox.Decode[OutboxOrder](e)
		if err != nil {
			return err
		}
		return ship(msg.Context(), order)
	})
	return nil
}

func outboxConsumer(ship func(context.Context, OutboxOrder) error) message.NoPublishHandlerFunc {
	return bus.TypedConsumer(func(ctx context.Context, order OutboxOrder, e *bus.Envelope) error {
		return ship(ctx, order) // e.MessageID is the event's id, in every attempt
	})
}

func outboxOperations(ctx context.Context, db *sql.DB, ob *outbox.Outbox) error {
	if _, err := ob.Purge(ctx, db, 7*24*time.Hour, 1000); err != nil {
		return err
	}
	letters, err := ob.DeadLetters(ctx, db, outbox.DeadLetterFilter{EventType: "orders.placed"}, 0, 100)
	if err != nil {
		return err
	}
	for _, l := range letters {
		slog.InfoContext(ctx, "dead letter", "event", l.Envelope, "exhausted_at", l.ExhaustedAt) // without its payload
	}
	_, err = ob.Replay(ctx, db, outbox.DeadLetterFilter{EventType: "orders.placed"}, 100)
	return err
}
