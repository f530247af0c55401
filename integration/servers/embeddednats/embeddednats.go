// Package embeddednats runs a NATS inside the test process. It is beside package servers so
// that only those who use it link a whole server.
package embeddednats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const readyTimeout = 2 * time.Minute // for a start whose context has no deadline of its own

// Options are how a server differs. The zero value has the server's own limits.
type Options struct {
	// MaxPayload is max_payload in bytes; 0 is the default of servers, 1 MiB.
	MaxPayload int32
}

// A Server is a NATS with JetStream. It keeps its streams while it is stopped.
type Server struct {
	options server.Options
	addr    string

	mu  sync.Mutex
	run *server.Server // nil while stopped
}

// Start starts a server without streams and waits until it serves.
func Start(ctx context.Context, o Options) (*Server, error) {
	dir, err := os.MkdirTemp("", "envelope-embedded-nats-")
	if err != nil {
		return nil, err
	}
	s := &Server{options: server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, MaxPayload: o.MaxPayload,
		JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	}}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	addr := s.run.Addr().(*net.TCPAddr)
	s.addr, s.options.Port = addr.String(), addr.Port
	return s, nil
}

// Addr is the server's host:port.
func (s *Server) Addr() string { return s.addr }

// Start starts the stopped server again, on the same port with the same streams. A server that
// runs already is left as it is.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return nil
	}
	options := s.options // the server writes into them
	run, err := server.NewServer(&options)
	if err != nil {
		return fmt.Errorf("embeddednats: %w", err)
	}
	run.Start()
	wait := readyTimeout
	if deadline, ok := ctx.Deadline(); ok {
		wait = time.Until(deadline)
	}
	if !run.ReadyForConnections(wait) {
		run.Shutdown()
		return fmt.Errorf("embeddednats: not ready after %s", wait)
	}
	s.run = run
	return nil
}

// Stop shuts the server down and keeps its streams.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		s.run.Shutdown()
		s.run.WaitForShutdown()
		s.run = nil
	}
	return nil
}

// Restart is Stop and Start.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.Start(ctx)
}

// LogTail says that there is no log.
func (s *Server) LogTail(int) string { return "an embedded NATS keeps no log" }

// Close stops the server for good and removes its streams.
func (s *Server) Close() error { return errors.Join(s.Stop(), os.RemoveAll(s.options.StoreDir)) }
