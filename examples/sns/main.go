// Command sns publishes two orders to a topic of Amazon SNS and handles them, from a queue of SQS
// that it subscribes, until an interrupt or SIGTERM. The second one is too large for a message:
// its body lies in a folder meanwhile. What fails goes to a queue, because a topic keeps nothing.
// Region, credentials and endpoint are those of the AWS SDK's variables and files.
//
//	go run ./sns
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
	"github.com/ThreeDotsLabs/watermill-aws/sns"
	"github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/aws/aws-sdk-go-v2/config"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/marshaler/snswire"
	"github.com/watermill-envelope/envelope/marshaler/sqswire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func main() {
	folder := flag.String("store", "claims", "`folder` for large bodies")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	logger := watermill.NewSlogLogger(slog.Default())

	aws, topics, queues := must(config.LoadDefaultConfig(ctx)), sns.TransparentTopicResolver{}, sqswire.Marshaler{Source: "shop"}
	pub := must(snswire.NewPublisher(sns.PublisherConfig{AWSConfig: aws, TopicResolver: topics}, snswire.Marshaler{Source: "shop"}, logger))
	sub := must(sns.NewSubscriber(sns.SubscriberConfig{
		AWSConfig: aws, TopicResolver: topics, // with raw delivery, unless told otherwise
		GenerateSqsQueueName: func(context.Context, sns.TopicArn) (string, error) { return "orders-billing", nil },
	}, sqswire.SubscriberConfig(aws, queues), logger))
	failed := must(sqs.NewPublisher(sqswire.PublisherConfig(aws, queues), logger))
	name := "orders"
	orders := *must(awssns.NewFromConfig(aws).CreateTopic(ctx, &awssns.CreateTopicInput{Name: &name})).TopicArn // or is there already

	bodies := must(hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: must(filestore.New(*folder))}))
	chain := must(hookmw.NewChain(hookmw.ChainConfig{ClaimCheck: bodies, Logger: slog.Default()}))
	chained := must(chain.WrapPublisher(pub, nil))
	retry := wmmw.Retry{MaxRetries: 5, InitialInterval: time.Second, ShouldRetry: hookmw.ShouldRetry}
	router := must(message.NewRouter(message.RouterConfig{}, logger))
	router.AddMiddleware(must(chain.PoisonQueue(failed, queues, "orders-poison")), retry.Middleware, wmmw.Recoverer, chain.Middleware)
	router.AddConsumerHandler("billing", orders, sub, func(msg *message.Message) error {
		fmt.Println("order", msg.UUID, "of", msg.Metadata.Get(envelope.MetadataSourceID), "has", len(msg.Payload), "bytes")
		return nil
	})
	go func() { defer stop(); check(router.Run(context.Background())) }()
	<-router.Running()

	check(chained.Publish(orders, message.NewMessage(envelope.NewID(), []byte(`{"item":"A-1"}`))))
	check(chained.Publish(orders, message.NewMessage(envelope.NewID(), make([]byte, 3<<20))))
	<-ctx.Done()
	check(errors.Join(router.Close(), pub.Close(), failed.Close())) // messages under way are handled first
	fmt.Println("stopped")
}

func must[T any](value T, err error) T { check(err); return value }

func check(err error) {
	if err != nil {
		slog.Error("stopped", "error", err)
		os.Exit(1)
	}
}
