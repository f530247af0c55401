package docs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
	busamqp "github.com/watermill-envelope/envelope/bus/amqpwire"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

func rabbitmqTopology(ctx context.Context, uri rabbitmq.URI) error {
	return rabbitmq.EnsureTopology(ctx, uri, rabbitmq.Topology{
		Exchanges: []rabbitmq.Exchange{{Name: "shop", Kind: rabbitmq.Topic}},
		Queues:    []rabbitmq.Queue{{Name: "billing"}},
		Bindings:  []rabbitmq.Binding{{Queue: "billing", Exchange: "shop", RoutingKey: "orders.#"}},
	})
}

func rabbitmqPublish(ctx context.Context, uri rabbitmq.URI, msgs []*message.Message) error {
	pub, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{
		URI:       uri, // amqp://user:password@host:5672/vhost, or amqps
		Exchange:  "shop",
		Marshaler: busamqp.Marshaler{}, // or marshaler/amqpwire's, for webhooks
		Logger:    slog.Default(),
	})
	if err != nil {
		return err
	}
	if err := pub.Connect(ctx); err != nil { // optional: the first Publish connects
		return err
	}
	defer pub.Close()

	err = pub.Publish("orders.placed", msgs...)
	var batch *rabbitmq.BatchError
	switch {
	case errors.Is(err, bus.ErrUnroutable):
		// no queue is bound to this key
	case errors.As(err, &batch):
		for _, f := range batch.Failed {
			fmt.Println(msgs[f.Index].UUID, f.Err) // all others are stored
		}
	case errors.Is(err, rabbitmq.ErrUnconfirmed):
		// sent, and perhaps stored
	}
	return err
}

func rabbitmqWorker(uri rabbitmq.URI, router *message.Router, handle message.NoPublishHandlerFunc) error {
	sub, err := rabbitmq.NewSubscriber(rabbitmq.SubscriberConfig{
		URI:             uri,
		Unmarshaler:     busamqp.Marshaler{},
		DeadLetterQueue: "billing.dead",
		Concurrency:     8, // the default is 1: in the order of the queue
		HandlerTimeout:  time.Minute,
		Logger:          slog.Default(),
	})
	if err != nil {
		return err
	}
	router.AddMiddleware(rabbitmq.Middleware) // first: outside of all others
	router.AddConsumerHandler("billing", "billing", sub, handle)
	return nil
}

func rabbitmqAttempt(charge func(context.Context) error) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		if n := rabbitmq.Attempt(msg.Context()); n > 1 {
			slog.Info("again", "message_id", msg.UUID, "attempt", n)
		}
		if len(msg.Payload) == 0 {
			return envelope.Permanent(errors.New("an order of nothing")) // no second attempt
		}
		return charge(msg.Context())
	}
}
