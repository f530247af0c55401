package embedded

import (
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
)

// s3Claims is a bucket on an S3 server of the test's own.
func s3Claims(t testing.TB, o servers.Gofakes3Options) (suite.ClaimStore, *servers.Gofakes3) {
	t.Helper()
	server, err := servers.StartGofakes3(o)
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, server)
	return suite.S3Claims(t, server.Client(), server.Bucket(), server), server
}

func TestClaimCheck(t *testing.T) {
	next := ownKafka(t)
	b, peer := broker()
	for name, store := range map[string]func(testing.TB) suite.ClaimStore{
		"files": suite.FileClaims,
		"s3": func(t testing.TB) suite.ClaimStore {
			store, _ := s3Claims(t, servers.Gofakes3Options{})
			return store
		},
	} {
		t.Run(name, func(t *testing.T) {
			suite.ClaimCheck(t, suite.ClaimServers{
				Broker: b, Peer: peer, Store: store,
				Next: suite.Kafka(next.Addr(), suite.KafkaOptions{}), NextPeer: suite.KafkaPeer{Addr: next.Addr()},
			})
		})
	}
}

func TestComponents(t *testing.T) {
	next := ownKafka(t)
	b, peer := broker()
	suite.Components(t, suite.ClaimServers{
		Broker: b, Peer: peer, Store: suite.FileClaims,
		Next: suite.Kafka(next.Addr(), suite.KafkaOptions{}), NextPeer: suite.KafkaPeer{Addr: next.Addr()},
	})
}
