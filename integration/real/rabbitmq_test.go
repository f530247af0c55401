package real

import (
	"context"
	"testing"

	amqp3 "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
)

func rabbitBroker() (suite.Broker, suite.Peer) {
	return suite.RabbitMQ(rabbitmqServer.URL(), suite.RabbitMQOptions{}), suite.AMQPPeer{URL: rabbitmqServer.URL()}
}

// rabbitFeatures are the features that watermill-amqp declares of itself.
var rabbitFeatures = tests.Features{
	ConsumerGroups:                      true,
	GuaranteedOrder:                     true,
	GuaranteedOrderWithSingleSubscriber: true,
	Persistent:                          true,
}

func TestRabbitMQPubSub(t *testing.T) {
	suite.PubSub(t, suite.RabbitMQ(rabbitmqServer.URL(), suite.RabbitMQOptions{PoolSize: 50}), rabbitFeatures)
}

func TestRabbitMQv2PubSub(t *testing.T) {
	suite.PubSub(t, suite.RabbitMQv2(rabbitmqServer.URL()), rabbitFeatures)
}

func TestRabbitMQLiteral(t *testing.T) {
	for _, b := range []suite.Broker{
		suite.RabbitMQ(rabbitmqServer.URL(), suite.RabbitMQOptions{}),
		suite.RabbitMQv2(rabbitmqServer.URL()),
	} {
		t.Run(b.Name, func(t *testing.T) { suite.RabbitMQLiteral(t, rabbitmqServer.URL(), b) })
	}
}

func TestRabbitMQForeign(t *testing.T) {
	b, peer := rabbitBroker()
	suite.Foreign(t, b, peer)
}

func TestRabbitMQDeadLetters(t *testing.T) {
	b, peer := rabbitBroker()
	suite.DeadLetters(t, b, peer)
}

func TestRabbitMQTraces(t *testing.T) {
	b, peer := rabbitBroker()
	suite.Traces(t, b, peer)
}

func TestRabbitMQLongDiagnostics(t *testing.T) {
	b, peer := rabbitBroker()
	suite.LongDiagnostics(t, b, peer)
}

func TestRabbitMQGarbage(t *testing.T) {
	b, peer := rabbitBroker()
	channel := suite.AMQPChannel(t, rabbitmqServer.URL())
	suite.Garbage(t, b, peer, func(ctx context.Context, topic string, bodies []string) error {
		for _, body := range bodies {
			suite.AMQPPublish(ctx, t, channel, topic, "", amqp.Publishing{Body: []byte(body), DeliveryMode: amqp.Persistent})
		}
		return ctx.Err()
	})
}

// Watermill's consumers take one message at a time (prefetch 1), so that what was nacked comes
// again before the next one.
func TestRabbitMQOrdering(t *testing.T) {
	b, _ := rabbitBroker()
	suite.Ordering(t, b)
}

// The poison topic lies on another broker, which is down: a Kafka of the test's own.
func TestRabbitMQPoisonOutage(t *testing.T) {
	outage, err := servers.StartKafka(suite.Context(t), servers.KafkaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, outage)
	b, peer := rabbitBroker()
	poison := suite.Kafka(outage.Addr(), suite.KafkaOptions{})
	suite.PoisonOutage(t, b, peer, poison, suite.KafkaPeer{Addr: outage.Addr()}, outage)
}

func TestRabbitMQRollover(t *testing.T) {
	_, peer := rabbitBroker()
	var opened suite.Opened
	stock := suite.RabbitMQ(rabbitmqServer.URL(), suite.RabbitMQOptions{Marshaler: amqp3.DefaultMarshaler{}})
	ours := suite.RabbitMQ(rabbitmqServer.URL(), suite.RabbitMQOptions{Marshaler: amqpwire.Marshaler{
		Source: "suite", Fallback: amqp3.DefaultMarshaler{}, Observer: &opened,
	}})
	suite.Rollover(t, stock, ours, &opened, peer)
}

func TestRabbitMQReceiverOutage(t *testing.T) {
	outage, err := servers.StartRabbitMQ(suite.Context(t), servers.RabbitMQOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, outage)
	suite.ReceiverOutage(t, suite.RabbitMQ(outage.URL(), suite.RabbitMQOptions{}), suite.AMQPPeer{URL: outage.URL()}, outage)
}
