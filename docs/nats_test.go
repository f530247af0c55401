package docs_test

import (
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-nats/v2/pkg/jetstream"
	"github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope/marshaler/natswire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func natsJetStream(url string, router *message.Router, handle message.NoPublishHandlerFunc, logger watermill.LoggerAdapter) error {
	m := natswire.Marshaler{Source: "orders"}

	pub, err := nats.NewPublisher(nats.PublisherConfig{
		URL:       url,
		Marshaler: m,
	}, logger)
	if err != nil {
		return err
	}
	sub, err := nats.NewSubscriber(nats.SubscriberConfig{
		URL:              url,
		Unmarshaler:      m,
		QueueGroupPrefix: "invoices",
		AckWaitTimeout:   30 * time.Second,
		JetStream: nats.JetStreamConfig{
			DurablePrefix: "invoices",
			SubscribeOptions: []natsgo.SubOpt{
				natsgo.ManualAck(), natsgo.DeliverAll(), natsgo.AckExplicit(),
				natsgo.MaxAckPending(64), natsgo.AckWait(30 * time.Second),
			},
		},
	}, logger)
	if err != nil {
		return err
	}

	router.AddMiddleware(hookmw.Malformed{}.Middleware)
	router.AddConsumerHandler("invoices", "hooks", sub, handle)
	return pub.Close()
}

func natsPull(conn *natsgo.Conn, logger watermill.LoggerAdapter) (*jetstream.Subscriber, error) {
	return jetstream.NewSubscriber(jetstream.SubscriberConfig{
		Conn:                conn,
		Logger:              logger,
		Unmarshaler:         natswire.JetStreamUnmarshaler{},
		ResourceInitializer: jetstream.GroupedConsumer("invoices"),
	})
}

func natsFallback() natswire.Marshaler {
	var seen counts
	m := natswire.Marshaler{Source: "orders", Fallback: &nats.NATSMarshaler{}, Observer: &seen}
	return m
}
