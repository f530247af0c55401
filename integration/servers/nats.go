package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// NATSOptions are how a NATS differs. The zero value has the server's own limits.
type NATSOptions struct {
	// MaxPayload is max_payload in bytes; 0 is the default of servers, 1 MiB.
	MaxPayload int
}

// A NATS is a real NATS with JetStream, which keeps streams in its folder.
type NATS struct {
	*Process
	addr string
}

// Addr is the server's host:port.
func (n *NATS) Addr() string { return n.addr }

// StartNATS starts the installed NATS without streams and waits until it serves. See
// [Process.Start] for the context.
func StartNATS(ctx context.Context, o NATSOptions) (*NATS, error) {
	server, err := exec.LookPath("nats-server")
	if err != nil {
		return nil, fmt.Errorf("servers: NATS is missing, which make integration installs: %w", err)
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("nats")
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf("host: 127.0.0.1\nport: %d\njetstream { store_dir: %q }\n", ports[0], filepath.Join(dir, "streams"))
	if o.MaxPayload > 0 {
		config += fmt.Sprintf("max_payload: %d\n", o.MaxPayload)
	}
	file := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	n := &NATS{addr: loopback(ports[0])}
	n.Process = newProcess("nats", dir, "Server is ready", func() *exec.Cmd {
		cmd := exec.Command(server, "-c", file)
		cmd.Dir = dir
		return cmd
	})
	if err := n.Start(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return n, nil
}
