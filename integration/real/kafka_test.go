package real

import (
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
)

func kafkaBroker() (suite.Broker, suite.Peer) {
	return suite.Kafka(kafkaServer.Addr(), suite.KafkaOptions{}), suite.KafkaPeer{Addr: kafkaServer.Addr()}
}

func TestKafka(t *testing.T) {
	suite.KafkaFlows(t, suite.KafkaServers{
		Addr: kafkaServer.Addr(),
		Own: func(t testing.TB) suite.KafkaServer {
			server, err := servers.StartKafka(suite.Context(t), servers.KafkaOptions{})
			if err != nil {
				t.Fatal(err)
			}
			servers.CloseAfter(t, server)
			return server
		},
		// A RabbitMQ of the test's own, which goes down.
		Poison: func(t testing.TB) (suite.Broker, suite.Peer, suite.Outage) {
			server, err := servers.StartRabbitMQ(suite.Context(t), servers.RabbitMQOptions{})
			if err != nil {
				t.Fatal(err)
			}
			servers.CloseAfter(t, server)
			return suite.RabbitMQ(server.URL(), suite.RabbitMQOptions{}), suite.AMQPPeer{URL: server.URL()}, server
		},
	})
}
