// Command sql publishes two orders to a table of PostgreSQL and handles them, until an interrupt
// or SIGTERM. The second one is large: its body lies in a folder meanwhile.
//
//	go run ./sql -dsn postgres://localhost:5432/shop
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/marshaler"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func main() {
	dsn := flag.String("dsn", "postgres://localhost:5432/shop", "`url` of a database")
	folder := flag.String("store", "claims", "`folder` for large bodies")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	logger := watermill.NewSlogLogger(slog.Default())

	pool := must(pgxpool.New(ctx, *dsn))
	db := sql.BeginnerFromPgx(pool)
	schema := sql.DefaultPostgreSQLSchema{GeneratePayloadType: func(string) string { return "BYTEA" }} // for what is no JSON, too
	table := must(sql.NewPublisher(db, sql.PublisherConfig{SchemaAdapter: schema, AutoInitializeSchema: true}, logger))
	rows := must(sql.NewSubscriber(db, sql.SubscriberConfig{
		ConsumerGroup: "billing", SchemaAdapter: schema, OffsetsAdapter: sql.DefaultPostgreSQLOffsetsAdapter{}, InitializeSchema: true,
	}, logger))
	pub := must(marshaler.WrapPublisher(table, marshaler.Options{Source: "shop"}))
	sub := must(marshaler.WrapSubscriber(rows, marshaler.Options{}))

	bodies := must(hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: must(filestore.New(*folder))}))
	chain := must(hookmw.NewChain(hookmw.ChainConfig{ClaimCheck: bodies, Logger: slog.Default()}))
	chained := must(chain.WrapPublisher(pub, nil))
	retry := wmmw.Retry{MaxRetries: 5, InitialInterval: time.Second, ShouldRetry: hookmw.ShouldRetry}
	router := must(message.NewRouter(message.RouterConfig{}, logger))
	router.AddMiddleware(must(chain.PoisonQueue(chained, nil, "orders-poison")), retry.Middleware, wmmw.Recoverer, chain.Middleware)
	router.AddConsumerHandler("billing", "orders", sub, func(msg *message.Message) error {
		fmt.Println("order", msg.UUID, "of", msg.Metadata.Get(envelope.MetadataSourceID), "has", len(msg.Payload), "bytes")
		return nil
	})
	go func() { defer stop(); check(router.Run(context.Background())) }()
	<-router.Running()

	check(chained.Publish("orders", message.NewMessage(envelope.NewID(), []byte(`{"item":"A-1"}`))))
	check(chained.Publish("orders", message.NewMessage(envelope.NewID(), make([]byte, 3<<20))))
	<-ctx.Done()
	check(errors.Join(router.Close(), pub.Close())) // messages under way are handled first
	pool.Close()
	fmt.Println("stopped")
}

func must[T any](value T, err error) T { check(err); return value }

func check(err error) {
	if err != nil {
		slog.Error("stopped", "error", err)
		os.Exit(1)
	}
}
