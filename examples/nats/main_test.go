package main

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/watermill-envelope/envelope/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func Test(t *testing.T) {
	nats, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	nats.Start()
	defer nats.WaitForShutdown()
	defer nats.Shutdown()
	if !nats.ReadyForConnections(time.Minute) {
		t.Fatal("NATS does not start")
	}
	exampletest.Run(t, "-url", nats.ClientURL())
}
