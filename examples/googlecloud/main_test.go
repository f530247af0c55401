package main

import (
	"testing"

	"cloud.google.com/go/pubsub/v2/pstest"

	"github.com/watermill-envelope/envelope/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func Test(t *testing.T) {
	server := pstest.NewServer()
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	t.Setenv("PUBSUB_EMULATOR_HOST", server.Addr)
	exampletest.Run(t)
}
