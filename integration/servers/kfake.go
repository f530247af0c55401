package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
)

// KfakeOptions are the settings of an embedded broker. The zero value is one broker whose
// topics are created by their first use, with one partition.
type KfakeOptions struct {
	Partitions int               // of a topic that is created by its first use; 0: one
	Config     map[string]string // of the broker, such as message.max.bytes
	Extra      []kfake.Opt
}

// A Kfake is a Kafka broker inside this process. It keeps its data while it is stopped.
type Kfake struct {
	addr string
	dir  string
	open func() (*kfake.Cluster, error)

	mu      sync.Mutex
	cluster *kfake.Cluster // nil while stopped
}

// StartKfake starts an embedded broker with no data.
func StartKfake(o KfakeOptions) (*Kfake, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("kfake")
	if err != nil {
		return nil, err
	}
	options := append([]kfake.Opt{
		kfake.NumBrokers(1),
		kfake.Ports(ports[0]),
		kfake.DataDir(filepath.Join(dir, "data")),
		kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(max(1, o.Partitions)),
		kfake.BrokerConfigs(o.Config),
	}, o.Extra...)
	k := &Kfake{addr: loopback(ports[0]), dir: dir, open: func() (*kfake.Cluster, error) {
		return kfake.NewCluster(options...)
	}}
	if err := k.Start(context.Background()); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return k, nil
}

// Addr is the broker's host:port.
func (k *Kfake) Addr() string { return k.addr }

// Cluster is the running broker, for its faults and controls; nil while it is stopped.
func (k *Kfake) Cluster() *kfake.Cluster {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cluster
}

// Start starts the stopped broker again, on the same port with the same data. It takes a
// context so that tests can treat embedded and real brokers alike.
func (k *Kfake) Start(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cluster != nil {
		return nil
	}
	c, err := k.open()
	if err != nil {
		return fmt.Errorf("servers: start kfake: %w", err)
	}
	k.cluster = c
	return nil
}

// Stop closes the broker's connections and listener and keeps its data.
func (k *Kfake) Stop() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cluster != nil {
		k.cluster.Close()
		k.cluster = nil
	}
	return nil
}

// Restart is Stop and Start.
func (k *Kfake) Restart(ctx context.Context) error { return errors.Join(k.Stop(), k.Start(ctx)) }

// LogTail says that there is no log.
func (k *Kfake) LogTail(int) string { return "kfake keeps no log" }

// Close stops the broker for good and removes its data.
func (k *Kfake) Close() error { return errors.Join(k.Stop(), os.RemoveAll(k.dir)) }
