// Package aws runs the flows of SQS and SNS on goaws inside the test process.
package aws

import (
	"context"
	"os"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/internal/suite/awssuite"
	"github.com/watermill-envelope/envelope/integration/servers"
	"github.com/watermill-envelope/envelope/integration/servers/embeddedaws"
)

// server is shared by the tests that leave it as it is.
var server *embeddedaws.Server

func TestMain(m *testing.M) {
	var g servers.Group
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		server, err = embeddedaws.Start(ctx)
		return server, err
	})
	os.Exit(g.Run(m))
}

func all() awssuite.Servers {
	return awssuite.Servers{
		URL: server.URL(),
		Own: func(t testing.TB) awssuite.Server {
			t.Helper()
			own, err := embeddedaws.Start(suite.Context(t))
			if err != nil {
				t.Fatal(err)
			}
			servers.CloseAfter(t, own)
			return own
		},
	}
}

func TestQueues(t *testing.T) { awssuite.QueueFlows(t, all()) }

func TestTopics(t *testing.T) { awssuite.TopicFlows(t, all()) }

func TestServerRules(t *testing.T) { awssuite.ServerRules(t, server.URL(), false) }

func TestNoGoroutineIsLeft(t *testing.T) { awssuite.NoGoroutineIsLeft(t, server.URL()) }
