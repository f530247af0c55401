package main

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/watermill-envelope/envelope/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func Test(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	exampletest.Run(t, "-brokers", cluster.ListenAddrs()[0])
}
