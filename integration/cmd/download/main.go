// Command download brings what the integration tests need besides Debian's packages into
// the user's cache folder, so that no test spends its time on it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/watermill-envelope/envelope/integration/hexeract"
	"github.com/watermill-envelope/envelope/integration/peers"
	"github.com/watermill-envelope/envelope/integration/servers"
)

// A download brings one thing and returns its folder. It does nothing when it is there.
type download struct {
	name  string
	bring func(context.Context) (string, error)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !all(ctx, []download{
		{"Apache Kafka " + servers.KafkaVersion, servers.InstallKafka},
		{"ElasticMQ " + servers.ElasticMQVersion, servers.InstallElasticMQ},
		{"RabbitMQ 4", servers.InstallRabbitMQ4},
		{"the S3 server versitygw " + servers.VersitygwVersion, servers.InstallVersitygw},
		{"the SDK for " + string(peers.Python050), peers.InstallPython},
		{"the SDK for " + string(peers.Rust060), peers.InstallRust},
		{"Hexeract " + hexeract.Version, hexeract.Install},
		{"bodies of GitHub's webhooks", peers.InstallGitHubBodies},
	}) {
		stop()
		os.Exit(1)
	}
}

// all brings everything side by side, and says what could not be had.
func all(ctx context.Context, downloads []download) bool {
	errs := make([]error, len(downloads))
	var wait sync.WaitGroup
	for i, d := range downloads {
		wait.Go(func() {
			begin := time.Now()
			dir, err := d.bring(ctx)
			if err == nil {
				fmt.Fprintf(os.Stdout, "%s: %s, %.1f s\n", d.name, dir, time.Since(begin).Seconds())
			}
			errs[i] = err
		})
	}
	wait.Wait()
	ok := true
	for i, err := range errs {
		if err != nil {
			fmt.Fprintf(os.Stdout, "missing: %s: %v\n", downloads[i].name, err)
			ok = false
		}
	}
	return ok
}
