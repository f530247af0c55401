// Package bench measures what the library costs on real servers: make bench-kafka and
// make bench-transports. It has no tests.
package bench

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/watermill-envelope/envelope/integration/servers"
)

var kafkaServer *servers.Kafka

// TestMain starts the servers only for benchmarks.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run())
	}
	var g servers.Group
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		kafkaServer, err = servers.StartKafka(ctx, servers.KafkaOptions{})
		return kafkaServer, err
	})
	os.Exit(g.Run(m))
}
