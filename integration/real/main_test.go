// Package real runs the flows against real servers: Apache Kafka and RabbitMQ, started for
// the package's tests and stopped after them.
package real

import (
	"context"
	"os"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
)

// The servers that the tests of this package share. A test that stops a server or needs
// other settings starts its own.
var (
	kafkaServer    *servers.Kafka
	rabbitmqServer *servers.RabbitMQ
)

func TestMain(m *testing.M) {
	suite.Child()
	var g servers.Group
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		kafkaServer, err = servers.StartKafka(ctx, servers.KafkaOptions{})
		return kafkaServer, err
	})
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		rabbitmqServer, err = servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{})
		return rabbitmqServer, err
	})
	os.Exit(g.Run(m))
}
