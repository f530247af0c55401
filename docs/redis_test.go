package docs_test

import (
	"errors"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope/marshaler/rediswire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
	"github.com/watermill-envelope/envelope/transport/redispubsub"
)

func redisStreams(options *redis.Options, router *message.Router, handle message.NoPublishHandlerFunc, logger watermill.LoggerAdapter) error {
	m := rediswire.Marshaler{Source: "orders"}

	pub, err := redisstream.NewPublisher(redisstream.PublisherConfig{
		Client:     redis.NewClient(options), // Close closes it
		Marshaller: m,
	}, logger)
	if err != nil {
		return err
	}
	sub, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client:          redis.NewClient(options), // one of its own
		Unmarshaller:    m,
		ConsumerGroup:   "invoices",
		NackResendSleep: time.Second,
	}, logger)
	if err != nil {
		return err
	}

	router.AddMiddleware(hookmw.Malformed{}.Middleware)
	router.AddConsumerHandler("invoices", "hooks", sub, handle)
	return pub.Close()
}

func redisChannels(client redis.UniversalClient, router *message.Router, handle message.NoPublishHandlerFunc) error {
	m := rediswire.PubSubMarshaler{Source: "orders"}

	pub, err := redispubsub.NewPublisher(redispubsub.PublisherConfig{
		Client:    client, // yours: nobody closes it
		Marshaler: m,
	})
	if err != nil {
		return err
	}
	sub, err := redispubsub.NewSubscriber(redispubsub.SubscriberConfig{
		Client:      client,
		Unmarshaler: m,
		Logger:      slog.Default(),
	})
	if err != nil {
		return err
	}

	router.AddMiddleware(hookmw.Malformed{}.Middleware)
	router.AddConsumerHandler("invoices", "hooks", sub, handle)
	return pub.Close()
}

func redisNobody(pub *redispubsub.Publisher, msg *message.Message) error {
	err := pub.Publish("hooks", msg)
	if errors.Is(err, redispubsub.ErrNoSubscribers) {
		return nil // this service does not mind
	}
	return err
}
