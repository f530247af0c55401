package docs_test

import (
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func stack(brokers []string, router *message.Router, sub message.Subscriber, handle message.HandlerFunc, logger watermill.LoggerAdapter) error {
	m := kafkawire.Marshaler{Source: "orders"}
	pub, err := kafka.NewPublisher(kafka.PublisherConfig{Brokers: brokers, Marshaler: m}, logger)
	if err != nil {
		return err
	}
	chain, err := hookmw.NewChain(hookmw.ChainConfig{Logger: slog.Default()})
	if err != nil {
		return err
	}
	chained, err := chain.WrapPublisher(pub, m)
	if err != nil {
		return err
	}
	poison, err := chain.PoisonQueue(chained, nil, "hooks.poison")
	if err != nil {
		return err
	}
	router.AddMiddleware(
		poison,
		wmmw.Retry{MaxRetries: 5, InitialInterval: time.Second, ShouldRetry: hookmw.ShouldRetry}.Middleware,
		wmmw.Recoverer,
		chain.Middleware,
	)
	router.AddHandler("invoices", "hooks", sub, "invoices", chained, handle)
	return nil
}

func stackEverywhere(chained message.Publisher, outbox message.Subscriber, topic cqrs.GenerateEventPublishTopicFn, logger watermill.LoggerAdapter, use func(*cqrs.EventBus, *forwarder.Forwarder)) error {
	events, err := cqrs.NewEventBusWithConfig(chained, cqrs.EventBusConfig{
		GeneratePublishTopic: topic,
		Marshaler:            cqrs.JSONMarshaler{},
	})
	if err != nil {
		return err
	}
	out, err := forwarder.NewForwarder(outbox, chained, logger, forwarder.Config{ForwarderTopic: "outbox"})
	if err != nil {
		return err
	}
	use(events, out)
	return nil
}

func stackDecorated(router *message.Router, chain *hookmw.Chain, m kafkawire.Marshaler) {
	router.AddPublisherDecorators(chain.PublisherDecorator(m))
}
