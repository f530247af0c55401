// Command kafka publishes two orders and handles them, until an interrupt or SIGTERM. The
// second one is too large for a record: its body lies in a folder meanwhile.
//
//	go run ./kafka -brokers localhost:9092
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func main() {
	brokers := flag.String("brokers", "localhost:9092", "Kafka, as `host:port`[,host:port]")
	folder := flag.String("store", "claims", "`folder` for large bodies")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	logger := watermill.NewSlogLogger(slog.Default())

	wire, addrs := kafkawire.Marshaler{Source: "shop"}, strings.Split(*brokers, ",")
	producer, consumer := kafka.DefaultSaramaSyncPublisherConfig(), kafka.DefaultSaramaSubscriberConfig()
	producer.Producer.RequiredAcks = sarama.WaitForAll
	consumer.Consumer.Offsets.Initial = sarama.OffsetOldest // of a new group
	pub := must(kafka.NewPublisher(kafka.PublisherConfig{Brokers: addrs, Marshaler: wire, OverwriteSaramaConfig: producer}, logger))
	sub := must(kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: addrs, Unmarshaler: wire, ConsumerGroup: "billing", OverwriteSaramaConfig: consumer,
		InitializeTopicDetails: &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: -1},
	}, logger))
	check(errors.Join(sub.SubscribeInitialize("orders"), sub.SubscribeInitialize("orders-poison")))

	bodies := must(hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: must(filestore.New(*folder))}))
	chain := must(hookmw.NewChain(hookmw.ChainConfig{ClaimCheck: bodies, Logger: slog.Default()}))
	chained := must(chain.WrapPublisher(pub, wire))
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
