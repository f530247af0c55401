package matrix

import (
	"context"
	"os"
	"testing"

	"github.com/watermill-envelope/envelope/integration/servers"
	"github.com/watermill-envelope/envelope/integration/servers/embeddedaws"
)

// The servers of all ends.
var (
	kafkaServer    *servers.Kafka
	rabbitmqServer *servers.RabbitMQ
	natsServer     *servers.NATS
	redisServer    *servers.Redis
	postgresServer *servers.Postgres
	mariadbServer  *servers.MariaDB
	sqsServer      *servers.ElasticMQ
	snsServer      *embeddedaws.Server
)

func TestMain(m *testing.M) {
	var g servers.Group
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		kafkaServer, err = servers.StartKafka(ctx, servers.KafkaOptions{})
		return kafkaServer, err
	})
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		rabbitmqServer, err = servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{})
		return rabbitmqServer, err
	})
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		natsServer, err = servers.StartNATS(ctx, servers.NATSOptions{})
		return natsServer, err
	})
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		redisServer, err = servers.StartRedis(ctx)
		return redisServer, err
	})
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		postgresServer, err = servers.StartPostgres(ctx, servers.PostgresOptions{})
		return postgresServer, err
	})
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		mariadbServer, err = servers.StartMariaDB(ctx)
		return mariadbServer, err
	})
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		sqsServer, err = servers.StartElasticMQ(ctx)
		return sqsServer, err
	})
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		snsServer, err = embeddedaws.Start(ctx)
		return snsServer, err
	})
	os.Exit(g.Run(m))
}
