package peers_test

import (
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
)

// The flow against real brokers is in package real.
func TestKfakeGitHubBodies(t *testing.T) {
	server, err := servers.StartKfake(servers.KfakeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, server)
	suite.KafkaGitHubBodies(t, server.Addr())
}
