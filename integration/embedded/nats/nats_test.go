// Package nats runs the flows of NATS on one inside the test process.
package nats

import (
	"context"
	"os"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/internal/suite/natssuite"
	"github.com/watermill-envelope/envelope/integration/servers"
	"github.com/watermill-envelope/envelope/integration/servers/embeddednats"
)

// server is shared by the tests that leave it as it is.
var server *embeddednats.Server

func TestMain(m *testing.M) {
	var g servers.Group
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		server, err = embeddednats.Start(ctx, embeddednats.Options{})
		return server, err
	})
	os.Exit(g.Run(m))
}

func all() natssuite.Servers {
	return natssuite.Servers{
		Addr: server.Addr(),
		Own: func(t testing.TB, maxPayload int) natssuite.Server {
			t.Helper()
			own, err := embeddednats.Start(suite.Context(t), embeddednats.Options{MaxPayload: int32(maxPayload)})
			if err != nil {
				t.Fatal(err)
			}
			servers.CloseAfter(t, own)
			return own
		},
	}
}

func TestJetStream(t *testing.T) { natssuite.JetStreamFlows(t, all()) }

func TestPull(t *testing.T) { natssuite.PullFlows(t, all()) }

func TestCore(t *testing.T) { natssuite.CoreFlows(t, all()) }
