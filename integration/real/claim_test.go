package real

import (
	"testing"

	"github.com/watermill-envelope/envelope/claimcheck/s3store"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
)

// s3Bucket returns an empty bucket on an S3 server of the test's own.
func s3Bucket(t testing.TB) suite.ClaimStore {
	t.Helper()
	server, err := servers.StartVersitygw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, server)
	store, err := s3store.New(s3store.Config{Client: server.Client(), Bucket: server.Bucket()})
	if err != nil {
		t.Fatal(err)
	}
	return suite.ClaimStore{PrunableStore: store, Outage: server}
}

func TestKafkaClaimCheck(t *testing.T) {
	b, peer := kafkaBroker()
	next, nextPeer := rabbitBroker()
	suite.ClaimCheck(t, suite.ClaimServers{Broker: b, Peer: peer, Next: next, NextPeer: nextPeer, Store: s3Bucket})
}

func TestRabbitMQClaimCheck(t *testing.T) {
	b, peer := rabbitBroker()
	next, nextPeer := kafkaBroker()
	suite.ClaimCheck(t, suite.ClaimServers{Broker: b, Peer: peer, Next: next, NextPeer: nextPeer, Store: s3Bucket})
}

func TestKafkaClaimProcesses(t *testing.T) {
	_, peer := kafkaBroker()
	suite.ClaimProcesses(t, kafkaServer.Addr(), "", peer)
}

func TestRabbitMQClaimProcesses(t *testing.T) {
	_, peer := rabbitBroker()
	suite.ClaimProcesses(t, "", rabbitmqServer.URL(), peer)
}

func TestKafkaToRabbitMQComponents(t *testing.T) {
	b, peer := kafkaBroker()
	next, nextPeer := rabbitBroker()
	suite.Components(t, suite.ClaimServers{Broker: b, Peer: peer, Next: next, NextPeer: nextPeer, Store: suite.FileClaims})
}

func TestRabbitMQToKafkaComponents(t *testing.T) {
	b, peer := rabbitBroker()
	next, nextPeer := kafkaBroker()
	suite.Components(t, suite.ClaimServers{Broker: b, Peer: peer, Next: next, NextPeer: nextPeer, Store: suite.FileClaims})
}
