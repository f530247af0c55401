package real

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

func kafkaBroker() (suite.Broker, suite.Peer) {
	return suite.Kafka(kafkaServer.Addr(), suite.KafkaOptions{}), suite.KafkaPeer{Addr: kafkaServer.Addr()}
}

func TestKafkaPubSub(t *testing.T) {
	b := suite.Kafka(kafkaServer.Addr(), suite.KafkaOptions{Partitions: 4})
	suite.PubSub(t, b, tests.Features{
		ConsumerGroups: true,
		Persistent:     true,
		// Order is per lane, and the suite's messages go to several partitions; see
		// TestKafkaPubSubOrdered.
		GuaranteedOrder: false,
	})
}

func TestKafkaPubSubOrdered(t *testing.T) {
	// One partition: what is one lane is one order.
	suite.PubSub(t, suite.Kafka(kafkaServer.Addr(), suite.KafkaOptions{}), tests.Features{
		ConsumerGroups: true, Persistent: true, GuaranteedOrder: true,
	})
}

func TestKafkaLiteral(t *testing.T) {
	b, _ := kafkaBroker()
	suite.KafkaLiteral(t, kafkaServer.Addr(), b)
}

func TestKafkaForeign(t *testing.T) {
	b, peer := kafkaBroker()
	suite.Foreign(t, b, peer)
}

func TestKafkaDeadLetters(t *testing.T) {
	b, peer := kafkaBroker()
	suite.DeadLetters(t, b, peer)
}

// The poison topic lies on another broker, which is down: a RabbitMQ of the test's own.
func TestKafkaPoisonOutage(t *testing.T) {
	outage, err := servers.StartRabbitMQ(suite.Context(t), servers.RabbitMQOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, outage)
	b, peer := kafkaBroker()
	poison := suite.RabbitMQ(outage.URL(), suite.RabbitMQOptions{})
	suite.PoisonOutage(t, b, peer, poison, suite.AMQPPeer{URL: outage.URL()}, outage)
}

func TestKafkaRollover(t *testing.T) {
	_, peer := kafkaBroker()
	var opened suite.Opened
	stock := suite.Kafka(kafkaServer.Addr(), suite.KafkaOptions{Marshaler: kafka.DefaultMarshaler{}, Partitions: 4})
	ours := suite.Kafka(kafkaServer.Addr(), suite.KafkaOptions{Partitions: 4, Marshaler: kafkawire.Marshaler{
		Source: "suite", Fallback: kafka.DefaultMarshaler{}, Observer: &opened,
	}})
	suite.Rollover(t, stock, ours, &opened, peer)
}

func TestKafkaReceiverOutage(t *testing.T) {
	outage, err := servers.StartKafka(suite.Context(t), servers.KafkaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, outage)
	suite.ReceiverOutage(t, suite.Kafka(outage.Addr(), suite.KafkaOptions{}), suite.KafkaPeer{Addr: outage.Addr()}, outage)
}

func TestKafkaPubSubWithoutGroup(t *testing.T) {
	suite.OldMessages(t, suite.Kafka(kafkaServer.Addr(), suite.KafkaOptions{}))
}
