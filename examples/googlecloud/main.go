// Command googlecloud publishes two orders to a topic of Google Pub/Sub and handles them, until an
// interrupt or SIGTERM. The second one is too large for a message: its body lies in a folder
// meanwhile. Credentials are those of the environment.
//
//	go run ./googlecloud -project shop
//	PUBSUB_EMULATOR_HOST=localhost:8085 go run ./googlecloud
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
	"github.com/ThreeDotsLabs/watermill-googlecloud/v2/pkg/googlecloud"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/marshaler"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func main() {
	project := flag.String("project", "shop", "`id` of a project")
	folder := flag.String("store", "claims", "`folder` for large bodies")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	logger := watermill.NewSlogLogger(slog.Default())

	topics := must(googlecloud.NewPublisher(googlecloud.PublisherConfig{ProjectID: *project}, logger))
	subscriptions := must(googlecloud.NewSubscriber(googlecloud.SubscriberConfig{
		ProjectID: *project, GenerateSubscriptionName: googlecloud.TopicSubscriptionNameWithSuffix("-billing"),
	}, logger))
	pub := must(marshaler.WrapPublisher(topics, marshaler.Options{Source: "shop"}))
	sub := must(marshaler.WrapSubscriber(subscriptions, marshaler.Options{}))
	check(subscriptions.SubscribeInitialize("orders-poison")) // a topic keeps nothing without a subscription

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
	fmt.Println("stopped")
}

func must[T any](value T, err error) T { check(err); return value }

func check(err error) {
	if err != nil {
		slog.Error("stopped", "error", err)
		os.Exit(1)
	}
}
