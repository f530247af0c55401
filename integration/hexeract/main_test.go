package hexeract

import (
	"context"
	"os"
	"testing"

	"github.com/watermill-envelope/envelope/integration/servers"
)

// The servers that the tests share. The brokers count attempts in different ways.
var (
	rabbitmq3, rabbitmq4 *servers.RabbitMQ
	postgres             *servers.Postgres // for the outbox
)

func TestMain(m *testing.M) {
	var g servers.Group
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		rabbitmq3, err = servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{})
		return rabbitmq3, err
	})
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		rabbitmq4, err = servers.StartRabbitMQ4(ctx, servers.RabbitMQOptions{})
		return rabbitmq4, err
	})
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		postgres, err = servers.StartPostgres(ctx, servers.PostgresOptions{})
		return postgres, err
	})
	os.Exit(g.Run(m))
}

// onBoth runs a test on each broker.
func onBoth(t *testing.T, test func(t *testing.T, url string)) {
	t.Parallel()
	for name, server := range map[string]*servers.RabbitMQ{"3": rabbitmq3, "4": rabbitmq4} {
		t.Run("RabbitMQ"+name, func(t *testing.T) {
			t.Parallel()
			test(t, server.URL())
		})
	}
}
