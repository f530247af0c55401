// Package embedded runs the flows against brokers inside the test process: Kafka's protocol
// by kfake, and Watermill's GoChannel.
package embedded

import (
	"context"
	"os"
	"testing"

	"github.com/watermill-envelope/envelope/integration/servers"
)

// kafkaServer is shared by the tests of this package. A test that stops it or needs other
// settings starts its own.
var kafkaServer *servers.Kfake

func TestMain(m *testing.M) {
	var g servers.Group
	g.Add(func(context.Context) (_ servers.Server, err error) {
		kafkaServer, err = servers.StartKfake(servers.KfakeOptions{})
		return kafkaServer, err
	})
	os.Exit(g.Run(m))
}
