package docs_test

import (
	"github.com/ThreeDotsLabs/watermill"
	amqpv2 "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func topicExchange(uri, exchange, queue, binding string, m amqpwire.Marshaler) amqp.Config {
	cfg := amqp.NewDurableTopicConfig(uri, exchange, queue)
	cfg.Marshaler = m
	cfg.Exchange.Durable = true // NewDurableTopicConfig leaves it false
	cfg.QueueBind.GenerateRoutingKey = func(string) string { return binding }
	cfg.Publish.ConfirmDelivery = true
	return cfg
}

func topicExchangeV2(uri, exchange, queue, binding string, m amqpwire.Marshaler) amqpv2.Config {
	cfg := amqpv2.NewDurablePubSubConfig(uri, amqpv2.GenerateQueueNameConstant(queue))
	cfg.Marshaler = m
	cfg.Exchange.Type = "topic"
	cfg.Exchange.GenerateName = func(string) string { return exchange }
	cfg.Publish.GenerateRoutingKey = func(topic string) string { return topic }
	cfg.QueueBind.GenerateRoutingKey = func(string) string { return binding }
	cfg.Publish.ConfirmDelivery = true
	return cfg
}

func rabbitmqService(uri string, router *message.Router, handle message.NoPublishHandlerFunc, body []byte, logger watermill.LoggerAdapter) error {
	cfg := topicExchange(uri, "hooks", "invoices", "ankusa.#", amqpwire.Marshaler{Source: "orders"})

	pub, err := amqp.NewPublisher(cfg, logger)
	if err != nil {
		return err
	}
	sub, err := amqp.NewSubscriber(cfg, logger)
	if err != nil {
		return err
	}
	router.AddMiddleware(hookmw.Malformed{}.Middleware)
	router.AddConsumerHandler("invoices", "ankusa.#", sub, handle)

	return pub.Publish("ankusa.orders", message.NewMessage(watermill.NewUUID(), body))
}

func rabbitmqUnrouted(cfg amqp.Config) amqp.Config {
	cfg.Exchange.Arguments = amqp091.Table{"alternate-exchange": "hooks.unrouted"}
	return cfg
}
