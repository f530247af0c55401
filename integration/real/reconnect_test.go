package real

import (
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
)

func TestKafkaReconnect(t *testing.T) {
	server, err := servers.StartKafka(suite.Context(t), servers.KafkaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, server)
	suite.Reconnect(t, suite.Kafka(server.Addr(), suite.KafkaOptions{Partitions: 4}), server)
}

func TestRabbitMQReconnect(t *testing.T) {
	server, err := servers.StartRabbitMQ(suite.Context(t), servers.RabbitMQOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, server)
	suite.Reconnect(t, suite.RabbitMQ(server.URL(), suite.RabbitMQOptions{}), server)
}
