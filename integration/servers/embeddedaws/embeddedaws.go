// Package embeddedaws runs goaws, which speaks SQS and SNS, inside the test process. It is
// beside package servers so that only those who use it link it.
package embeddedaws

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/Admiral-Piett/goaws/app/gosqs"
	"github.com/Admiral-Piett/goaws/app/models"
	"github.com/Admiral-Piett/goaws/app/router"
	"github.com/sirupsen/logrus"
)

// MaxMessageSize is how many bytes the body of a message may have in a queue whose creator
// says nothing else.
const MaxMessageSize = 1 << 20

// AccountID and Region are those of every queue and topic.
const (
	AccountID = "000000000000"
	Region    = "us-east-1"
)

// A Server is an endpoint for SQS and SNS clients. Queues and topics belong to the process:
// all its servers have the same ones, also after they were stopped. Beside what goaws says of
// itself: no group of a FIFO queue is really locked, a deduplication id is forgotten when its
// message is deleted, SNS forwards neither group nor deduplication id, and ten attributes,
// their names and values, and characters in bodies are not checked.
type Server struct {
	addr string

	mu   sync.Mutex
	http *http.Server  // nil while stopped
	done chan struct{} // closed when it has ended
}

// Start starts an endpoint and waits until it serves.
func Start(ctx context.Context) (*Server, error) {
	s := &Server{addr: "127.0.0.1:0"}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// URL is the endpoint for clients.
func (s *Server) URL() string { return "http://" + s.addr }

// Start starts the stopped server again, on the same port. A server that runs already is left
// as it is.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	s.addr = listener.Addr().String()
	begin.Do(setUp)
	server := &http.Server{Handler: http.HandlerFunc(serve), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Close
	}()
	s.http, s.done = server, done
	return nil
}

// Stop closes the listener and the connections.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http == nil {
		return nil
	}
	err := s.http.Close()
	<-s.done
	s.http = nil
	return err
}

// Restart is Stop and Start.
func (s *Server) Restart(ctx context.Context) error { return errors.Join(s.Stop(), s.Start(ctx)) }

// LogTail says that there is no log.
func (s *Server) LogTail(int) string { return "goaws keeps no log" }

// Close stops the server for good.
func (s *Server) Close() error { return s.Stop() }

var (
	begin sync.Once
	// goaws reads its maps without their locks, so one request at a time has it.
	goaws  sync.Mutex
	routes http.Handler
)

// setUp makes the one goaws of the process, which ends with it.
func setUp() {
	logrus.SetLevel(logrus.PanicLevel)
	logrus.SetOutput(io.Discard)
	models.CurrentEnvironment = models.Environment{
		// Clients take the path of a queue's URL and their own endpoint's host.
		Host: "127.0.0.1", Port: "0", Region: Region, AccountID: AccountID,
		EnableDuplicates: true, QueueAttributeDefaults: models.EnvQueueAttributes{
			VisibilityTimeout: 30, MaximumMessageSize: MaxMessageSize,
		},
	}
	routes = router.New()
	const often = 50 * time.Millisecond // what is invisible becomes visible
	go gosqs.PeriodicTasks(often, nil)
}
