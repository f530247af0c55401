// Package redis runs the flows of Redis on one inside the test process.
package redis

import (
	"context"
	"os"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite/redissuite"
	"github.com/watermill-envelope/envelope/integration/servers"
)

// server is shared by the tests that leave it as it is.
var server *servers.Miniredis

func TestMain(m *testing.M) {
	var g servers.Group
	g.Add(func(context.Context) (_ servers.Server, err error) {
		server, err = servers.StartMiniredis()
		return server, err
	})
	os.Exit(g.Run(m))
}

func all() redissuite.Servers {
	return redissuite.Servers{
		Addr:     server.Addr(),
		Embedded: true,
		Own: func(t testing.TB) redissuite.Server {
			t.Helper()
			own, err := servers.StartMiniredis()
			if err != nil {
				t.Fatal(err)
			}
			servers.CloseAfter(t, own)
			return own
		},
	}
}

func TestStreams(t *testing.T) { redissuite.StreamsFlows(t, all()) }

func TestPubSub(t *testing.T) { redissuite.PubSubFlows(t, all()) }
