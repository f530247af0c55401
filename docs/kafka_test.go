package docs_test

import (
	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func kafkaService(brokers []string, router *message.Router, handle message.NoPublishHandlerFunc, logger watermill.LoggerAdapter) error {
	m := kafkawire.Marshaler{Source: "orders"}

	pub, err := kafka.NewPublisher(kafka.PublisherConfig{
		Brokers:   brokers,
		Marshaler: m,
	}, logger)
	if err != nil {
		return err
	}
	sub, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers:       brokers,
		Unmarshaler:   m,
		ConsumerGroup: "invoices",
	}, logger)
	if err != nil {
		return err
	}

	router.AddMiddleware(hookmw.Malformed{}.Middleware)
	router.AddConsumerHandler("invoices", "hooks", sub, handle)
	return pub.Close()
}

// The text of the README after its diff.
func kafkaDiff(brokers []string, router *message.Router, logger watermill.LoggerAdapter) error {
	m := kafkawire.Marshaler{Source: "orders", Fallback: kafka.DefaultMarshaler{}}
	pub, err := kafka.NewPublisher(kafka.PublisherConfig{
		Brokers:   brokers,
		Marshaler: m,
	}, logger)
	if err != nil {
		return err
	}
	sub, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers:       brokers,
		Unmarshaler:   m,
		ConsumerGroup: "invoices",
	}, logger)
	if err != nil {
		return err
	}
	router.AddMiddleware(hookmw.Malformed{}.Middleware)

	router.AddHandler("h", "in", sub, "out", pub, message.PassthroughHandler)
	return nil
}

func kafkaFromTheStart() *sarama.Config {
	cfg := kafka.DefaultSaramaSubscriberConfig()
	cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
	return cfg
}

func kafkaAllReplicas() *sarama.Config {
	cfg := kafka.DefaultSaramaSyncPublisherConfig()
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	return cfg
}

func kafkaKey() kafkawire.Marshaler {
	m := kafkawire.Marshaler{
		Source: "orders",
		Key: func(topic string, msg *message.Message) string {
			return msg.UUID // spread evenly; no order
		},
	}
	return m
}
