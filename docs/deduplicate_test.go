package docs_test

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope/inbox"
	"github.com/watermill-envelope/envelope/inbox/redisinbox"
	"github.com/watermill-envelope/envelope/inbox/sqlinbox"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func deduplicated(db *sql.DB, router *message.Router) error {
	seen, err := sqlinbox.New(sqlinbox.Config{DB: db, Dialect: sqlinbox.PostgreSQL})
	if err != nil {
		return err
	}
	deduplicate, err := hookmw.NewDeduplicate(hookmw.DeduplicateConfig{Seen: seen})
	if err != nil {
		return err
	}
	router.AddMiddleware(
		hookmw.Malformed{}.Middleware,
		deduplicate.Middleware,
	)
	return nil
}

func payOnce(msg *message.Message) error {
	tx, ok := sqlinbox.Tx(msg.Context())
	if !ok {
		return errNoTransaction
	}
	_, err := tx.ExecContext(msg.Context(), "UPDATE orders SET paid = true WHERE id = $1", string(msg.Payload))
	return err
}

var errNoTransaction = errors.New("no transaction")

func inboxTable(ctx context.Context, seen *sqlinbox.Inbox) error {
	if err := seen.Apply(ctx); err != nil { // or put seen.Schema() into a migration
		return err
	}
	return seen.Check(ctx)
}

func pruneInbox(ctx context.Context, seen *sqlinbox.Inbox) error {
	_, err := seen.Prune(ctx, 90*24*time.Hour, 1000)
	return err
}

func otherSeens(client *redis.Client) (inbox.Seen, inbox.Seen, error) {
	memory, err := inbox.NewMemory(inbox.MemoryConfig{Retention: time.Hour})
	if err != nil {
		return nil, nil, err
	}
	shared, err := redisinbox.New(redisinbox.Config{Client: client, Retention: 7 * 24 * time.Hour})
	if err != nil {
		return nil, nil, err
	}
	return memory, shared, nil
}

func watermillsDeduplicator(repository wmmw.ExpiringKeyRepository) *wmmw.Deduplicator {
	deduplicator := &wmmw.Deduplicator{
		KeyFactory: hookmw.DeduplicationKey,
		Repository: repository,
		Timeout:    5 * time.Second,
	}
	return deduplicator
}
