package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// A Redis is a real Redis that writes every command to its log before it answers.
type Redis struct {
	*Process
	addr string
}

// Addr is the server's host:port.
func (r *Redis) Addr() string { return r.addr }

// StartRedis starts the installed Redis with an empty data folder and waits until it serves.
// options are further arguments, such as "--proto-max-bulk-len", "1mb". See [Process.Start]
// for the context.
func StartRedis(ctx context.Context, options ...string) (*Redis, error) {
	server, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("servers: Redis is missing, which make integration installs: %w", err)
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("redis")
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1", "--dir", dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always",
	}, options...)
	r := &Redis{addr: loopback(ports[0])}
	r.Process = newProcess("redis", dir, "Ready to accept connections", func() *exec.Cmd {
		cmd := exec.Command(server, args...)
		cmd.Dir = dir
		return cmd
	})
	if err := r.Start(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return r, nil
}
