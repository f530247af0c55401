package embedded

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

func broker() (suite.Broker, suite.Peer) {
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
	b, _ := broker()
	suite.KafkaLiteral(t, kafkaServer.Addr(), b)
}

func TestKafkaForeign(t *testing.T) {
	b, peer := broker()
	suite.Foreign(t, b, peer)
}

func TestKafkaDeadLetters(t *testing.T) {
	b, peer := broker()
	suite.DeadLetters(t, b, peer)
}

func TestKafkaPoisonOutage(t *testing.T) {
	b, peer := broker()
	outage, err := servers.StartKfake(servers.KfakeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, outage)
	poison := suite.Kafka(outage.Addr(), suite.KafkaOptions{})
	suite.PoisonOutage(t, b, peer, poison, suite.KafkaPeer{Addr: outage.Addr()}, outage)
}

func TestKafkaRollover(t *testing.T) {
	_, peer := broker()
	var opened suite.Opened
	stock := suite.Kafka(kafkaServer.Addr(), suite.KafkaOptions{Marshaler: kafka.DefaultMarshaler{}, Partitions: 4})
	ours := suite.Kafka(kafkaServer.Addr(), suite.KafkaOptions{Partitions: 4, Marshaler: kafkawire.Marshaler{
		Source: "suite", Fallback: kafka.DefaultMarshaler{}, Observer: &opened,
	}})
	suite.Rollover(t, stock, ours, &opened, peer)
}

func TestKafkaReceiverOutage(t *testing.T) {
	outage, err := servers.StartKfake(servers.KfakeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, outage)
	suite.ReceiverOutage(t, suite.Kafka(outage.Addr(), suite.KafkaOptions{}), suite.KafkaPeer{Addr: outage.Addr()}, outage)
}

func TestKafkaPubSubWithoutGroup(t *testing.T) {
	suite.OldMessages(t, suite.Kafka(kafkaServer.Addr(), suite.KafkaOptions{}))
}
