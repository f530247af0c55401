// Package redis runs the flows of Redis on a real one, started for the package's tests and
// stopped after them.
package redis

import (
	"context"
	"os"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/internal/suite/redissuite"
	"github.com/watermill-envelope/envelope/integration/servers"
)

// server is shared by the tests that leave it as it is. It takes no field over maxBulk.
var server *servers.Redis

// maxBulk is as little as Redis allows.
const maxBulk = 1 << 20

func TestMain(m *testing.M) {
	var g servers.Group
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		server, err = servers.StartRedis(ctx, "--proto-max-bulk-len", "1mb")
		return server, err
	})
	os.Exit(g.Run(m))
}

// ownServer is a Redis of the test's own.
func ownServer(t testing.TB, options ...string) *servers.Redis {
	t.Helper()
	own, err := servers.StartRedis(suite.Context(t), options...)
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, own)
	return own
}

func all() redissuite.Servers {
	return redissuite.Servers{
		Addr: server.Addr(),
		Own:  func(t testing.TB) redissuite.Server { return ownServer(t) },
	}
}

func TestStreams(t *testing.T) { redissuite.StreamsFlows(t, all()) }

func TestPubSub(t *testing.T) { redissuite.PubSubFlows(t, all()) }
