// Package aws runs the flows of SQS and SNS on a real ElasticMQ.
package aws

import (
	"context"
	"os"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/internal/suite/awssuite"
	"github.com/watermill-envelope/envelope/integration/servers"
)

// server is shared by the tests that leave it as it is.
var server *servers.ElasticMQ

func TestMain(m *testing.M) {
	var g servers.Group
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		server, err = servers.StartElasticMQ(ctx)
		return server, err
	})
	os.Exit(g.Run(m))
}

func all() awssuite.Servers {
	return awssuite.Servers{
		URL: server.URL(),
		Own: func(t testing.TB) awssuite.Server {
			t.Helper()
			own, err := servers.StartElasticMQ(suite.Context(t))
			if err != nil {
				t.Fatal(err)
			}
			servers.CloseAfter(t, own)
			return own
		},
	}
}

func TestQueues(t *testing.T) { awssuite.QueueFlows(t, all()) }

func TestFIFO(t *testing.T) { awssuite.FIFOFlows(t, all()) }

func TestLimits(t *testing.T) { awssuite.Limits(t, server.URL()) }

func TestServerRules(t *testing.T) { awssuite.ServerRules(t, server.URL(), true) }

func TestNoGoroutineIsLeft(t *testing.T) { awssuite.NoGoroutineIsLeft(t, server.URL()) }
