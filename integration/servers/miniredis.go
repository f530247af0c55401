package servers

import (
	"context"

	"github.com/alicebob/miniredis/v2"
)

// A Miniredis is a Redis inside this process. It keeps its data while it is stopped.
type Miniredis struct {
	mini *miniredis.Miniredis
}

// StartMiniredis starts an embedded Redis with no data.
func StartMiniredis() (*Miniredis, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	m := &Miniredis{miniredis.NewMiniRedis()}
	return m, m.mini.StartAddr(loopback(ports[0]))
}

// Addr is the server's host:port.
func (m *Miniredis) Addr() string { return m.mini.Addr() }

// Stop closes the server's connections and listener and keeps its data.
func (m *Miniredis) Stop() error {
	m.mini.Close()
	return nil
}

// Start starts the stopped server again, on the same port with the same data. It takes a
// context so that tests can treat embedded and real servers alike.
func (m *Miniredis) Start(context.Context) error { return m.mini.Restart() }

// Restart is Stop and Start.
func (m *Miniredis) Restart(ctx context.Context) error {
	m.mini.Close()
	return m.Start(ctx)
}

// LogTail says that there is no log.
func (m *Miniredis) LogTail(int) string { return "miniredis keeps no log" }

// Close stops the server for good.
func (m *Miniredis) Close() error { return m.Stop() }
