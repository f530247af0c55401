package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope/bus/amqpwire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// A transport is all that differs between one process and RabbitMQ.
type transport struct {
	pub    message.Publisher
	sub    message.Subscriber
	dead   message.Subscriber // of dead letters
	router *message.Router
}

func (t transport) close() { _ = errors.Join(t.pub.Close(), t.sub.Close(), t.dead.Close()) }

func connect(ctx context.Context, uri string) (t transport, err error) {
	if t.router, err = message.NewRouter(message.RouterConfig{}, watermill.NopLogger{}); err != nil {
		return t, err
	}
	if uri == "" {
		return t, t.inProcess()
	}
	return t, t.overRabbitMQ(ctx, rabbitmq.URI(uri))
}

// inProcess retries and puts aside what failed by Watermill's middlewares.
func (t *transport) inProcess() error {
	channels := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	t.pub, t.sub, t.dead = channels, channels, channels
	poison, err := wmmw.PoisonQueueWithFilter(channels, dead, hookmw.ShouldPoison)
	if err != nil {
		return err
	}
	t.router.AddMiddleware(poison, wmmw.Retry{
		MaxRetries: 4, InitialInterval: 100 * time.Millisecond, ShouldRetry: hookmw.ShouldRetry,
	}.Middleware)
	return nil
}

// overRabbitMQ leaves that to the queues, as workers on Hexeract do.
func (t *transport) overRabbitMQ(ctx context.Context, uri rabbitmq.URI) (err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	err = rabbitmq.EnsureTopology(ctx, uri, rabbitmq.Topology{
		Queues: []rabbitmq.Queue{{Name: orders}, {Name: invoices}, {Name: dead}},
	})
	if err != nil {
		return err
	}
	if t.pub, err = rabbitmq.NewPublisher(rabbitmq.PublisherConfig{
		URI: uri, Marshaler: amqpwire.Marshaler{}, Logger: log,
	}); err != nil {
		return err
	}
	config := rabbitmq.SubscriberConfig{URI: uri, Unmarshaler: amqpwire.Marshaler{}, RetryDelay: time.Second, Logger: log}
	if t.dead, err = rabbitmq.NewSubscriber(config); err != nil {
		return err
	}
	config.DeadLetterQueue = dead
	t.sub, err = rabbitmq.NewSubscriber(config)
	t.router.AddMiddleware(rabbitmq.Middleware)
	return err
}
