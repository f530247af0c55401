// Package database runs what is kept in a database against real servers: PostgreSQL, MariaDB
// and Redis, started for the package's tests and stopped after them.
package database

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/watermill-envelope/envelope/integration/servers"
)

// The servers that the tests of this package share. A test that stops a server or needs
// other settings starts its own.
var (
	postgresServer *servers.Postgres
	mariadbServer  *servers.MariaDB
	redisServer    *servers.Redis
)

func TestMain(m *testing.M) {
	if os.Getenv(killAfter) != "" { // a child of TestInboxKilled
		fmt.Fprintln(os.Stderr, killChild())
		os.Exit(1)
	}
	if task := os.Getenv(outboxChild); task != "" {
		fmt.Fprintln(os.Stderr, runOutboxChild(task))
		os.Exit(1)
	}
	var g servers.Group
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		postgresServer, err = servers.StartPostgres(ctx, servers.PostgresOptions{})
		return postgresServer, err
	})
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		mariadbServer, err = servers.StartMariaDB(ctx)
		return mariadbServer, err
	})
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		redisServer, err = servers.StartRedis(ctx)
		return redisServer, err
	})
	os.Exit(g.Run(m))
}
