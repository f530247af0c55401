package main

import (
	"testing"

	"github.com/watermill-envelope/envelope/examples/internal/goaws"
	"github.com/watermill-envelope/envelope/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func Test(t *testing.T) {
	server := goaws.Start()
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	t.Setenv("AWS_REGION", goaws.Region)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	exampletest.Run(t)
}
