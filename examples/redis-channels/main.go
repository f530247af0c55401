// Command redis-channels publishes two orders to a channel of Redis and handles them, until an
// interrupt or SIGTERM. The second one is too large for a message: its body lies in a folder
// meanwhile. Redis keeps nothing that is on a channel, so there is no poison topic.
//
//	go run ./redis-channels -redis localhost:6379
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
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
	"github.com/watermill-envelope/envelope/transport/redispubsub"
)

func main() {
	addr := flag.String("redis", "localhost:6379", "Redis, as `host:port`")
	folder := flag.String("store", "claims", "`folder` for large bodies")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	logger := watermill.NewSlogLogger(slog.Default())

	wire := rediswire.PubSubMarshaler{Source: "shop"}
	client := redis.NewClient(&redis.Options{Addr: *addr})
	pub := must(redispubsub.NewPublisher(redispubsub.PublisherConfig{Client: client, Marshaler: wire}))
	sub := must(redispubsub.NewSubscriber(redispubsub.SubscriberConfig{
		Client: client, Unmarshaler: wire, Logger: slog.Default(),
	}))

	bodies := must(hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: must(filestore.New(*folder))}))
	chain := must(hookmw.NewChain(hookmw.ChainConfig{ClaimCheck: bodies, Logger: slog.Default()}))
	chained := must(chain.WrapPublisher(pub, wire))
	retry := wmmw.Retry{MaxRetries: 5, InitialInterval: time.Second, ShouldRetry: hookmw.ShouldRetry}
	router := must(message.NewRouter(message.RouterConfig{}, logger))
	router.AddMiddleware(retry.Middleware, wmmw.Recoverer, chain.Middleware)
	router.AddConsumerHandler("billing", "orders", sub, func(msg *message.Message) error {
		fmt.Println("order", msg.UUID, "of", msg.Metadata.Get(envelope.MetadataSourceID), "has", len(msg.Payload), "bytes")
		return nil
	})
	go func() { defer stop(); check(router.Run(context.Background())) }()
	<-router.Running()

	check(chained.Publish("orders", message.NewMessage(envelope.NewID(), []byte(`{"item":"A-1"}`))))
	check(chained.Publish("orders", message.NewMessage(envelope.NewID(), make([]byte, 3<<20))))
	<-ctx.Done()
	check(errors.Join(router.Close(), pub.Close(), client.Close())) // messages under way are handled first
	fmt.Println("stopped")
}

func must[T any](value T, err error) T { check(err); return value }

func check(err error) {
	if err != nil {
		slog.Error("stopped", "error", err)
		os.Exit(1)
	}
}
