package embedded

import (
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
)

func broker() (suite.Broker, suite.Peer) {
	return suite.Kafka(kafkaServer.Addr(), suite.KafkaOptions{}), suite.KafkaPeer{Addr: kafkaServer.Addr()}
}

// ownKafka is a broker of the test's own.
func ownKafka(t testing.TB) *servers.Kfake {
	t.Helper()
	server, err := servers.StartKfake(servers.KfakeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, server)
	return server
}

func TestKafka(t *testing.T) {
	suite.KafkaFlows(t, suite.KafkaServers{
		Addr: kafkaServer.Addr(),
		Own:  func(t testing.TB) suite.KafkaServer { return ownKafka(t) },
		Poison: func(t testing.TB) (suite.Broker, suite.Peer, suite.Outage) {
			server := ownKafka(t)
			return suite.Kafka(server.Addr(), suite.KafkaOptions{}), suite.KafkaPeer{Addr: server.Addr()}, server
		},
	})
}
