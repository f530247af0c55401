package main

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kfake"
	garage "github.com/valinurovam/garagemq/config"
	"github.com/valinurovam/garagemq/metrics"
	"github.com/valinurovam/garagemq/server"
)

// startKafka starts a Kafka inside this process. It keeps everything in memory.
func startKafka() (addr string, stop func(), err error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(3), kfake.AllowAutoTopicCreation())
	if err != nil {
		return "", nil, err
	}
	return cluster.ListenAddrs()[0], cluster.Close, nil
}

// startAMQP starts an AMQP 0-9-1 server inside this process. It serves a demo well and is
// no reference for RabbitMQ: it has no dead letters, no limits and no quorum queues. It ends
// with the process; stop removes its files.
func startAMQP() (uri string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "envelope-demo-")
	if err != nil {
		return "", nil, err
	}
	stop = func() { _ = os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			stop()
		}
	}()
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	conf, err := garage.CreateDefault()
	if err != nil {
		return "", nil, err
	}
	password := md5.Sum([]byte("demo"))
	conf.Users = []garage.User{{Username: "demo", Password: hex.EncodeToString(password[:])}}
	conf.Db = garage.Db{DefaultPath: dir, Engine: "buntdb"}

	logrus.SetOutput(io.Discard)                    // the server logs each connection
	metrics.NewTrackRegistry(15, time.Second, true) // the server counts in a global registry
	srv := server.NewServer("127.0.0.1", port, conf.Proto, conf)
	go srv.Start() // never returns
	uri = "amqp://demo:demo@127.0.0.1:" + port + "/"
	if err := waitAMQP(uri, 10*time.Second); err != nil {
		return "", nil, err
	}
	// The server exits the process on these, in the middle of what it does. Ours come later.
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	return uri, stop, nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// waitAMQP returns once the server at uri lets a client in.
func waitAMQP(uri string, patience time.Duration) error {
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		conn, err := amqp.Dial(uri)
		if err == nil {
			return conn.Close()
		}
		if time.Since(start) > patience {
			return fmt.Errorf("the embedded AMQP server did not start: %w", err)
		}
	}
}
