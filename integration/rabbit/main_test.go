// Package rabbit runs package transport/rabbitmq against a real RabbitMQ, started for the
// package's tests and stopped after them.
package rabbit

import (
	"context"
	"os"
	"testing"

	"github.com/watermill-envelope/envelope/integration/servers"
)

// server is shared by the tests that leave it as it is.
var server *servers.RabbitMQ

func TestMain(m *testing.M) {
	if queue := os.Getenv(workerVariable); queue != "" {
		worker(queue) // which is killed
	}
	var g servers.Group
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		server, err = servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{Config: []string{maxMessage}})
		return server, err
	})
	os.Exit(g.Run(m))
}

// maxMessage bounds bodies, for the test of one that is over it.
const maxMessage = "max_message_size = 1048576"
