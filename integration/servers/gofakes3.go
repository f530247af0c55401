package servers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"golang.org/x/net/netutil"
)

// Gofakes3Options are the settings of an embedded S3 server. The zero value answers at once
// and takes any number of connections.
type Gofakes3Options struct {
	// Delay is how long each request waits before it is answered, as if the server were far.
	Delay time.Duration
	// Connections is how many connections are open at a time; whoever comes then waits until
	// one ends, which each does with its answer: an idle one would keep the others out. 0: no
	// limit.
	Connections int
}

// A Gofakes3 is an S3 server inside this process. It is a store only: it checks neither
// signatures nor digests ([Versitygw] does). It keeps its objects while it is stopped.
type Gofakes3 struct {
	addr    string
	bucket  string
	options Gofakes3Options
	s3      http.Handler

	mu     sync.Mutex
	server *http.Server // nil while stopped
	ended  chan struct{}
	fault  Fault
	counts map[string]int
}

// StartGofakes3 starts an embedded S3 server with one empty bucket.
func StartGofakes3(o Gofakes3Options) (*Gofakes3, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	backend := s3mem.New()
	g := &Gofakes3{
		addr: loopback(ports[0]), bucket: "claims-bucket", options: o,
		s3:     gofakes3.New(backend, gofakes3.WithoutVersioning(), gofakes3.WithLogger(gofakes3.DiscardLog())).Server(),
		counts: map[string]int{},
	}
	if err := backend.CreateBucket(g.bucket); err != nil {
		return nil, fmt.Errorf("servers: gofakes3: %w", err)
	}
	if err := g.Start(context.Background()); err != nil {
		return nil, err
	}
	return g, nil
}

// URL is the endpoint of clients, which address buckets by path.
func (g *Gofakes3) URL() string { return "http://" + g.addr }

// Bucket is the name of the bucket that is there.
func (g *Gofakes3) Bucket() string { return g.bucket }

// Client returns a client of the server, after the changes that are given. It makes one attempt
// per operation, so that tests see each failure.
func (g *Gofakes3) Client(changes ...func(*s3.Options)) *s3.Client {
	return s3Client(g.URL(), "anyone", "anything", changes)
}

// Requests is how many requests of the method have come since the server was made, those
// included that a fault answered.
func (g *Gofakes3) Requests(method string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counts[method]
}

// Break lets a fault answer the requests that come from now on; nil mends the server.
func (g *Gofakes3) Break(f Fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fault = f
}

// ServeHTTP serves one request, with its delay and fault.
func (g *Gofakes3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.counts[r.Method]++
	fault := g.fault
	g.mu.Unlock()
	if g.options.Delay > 0 {
		timer := time.NewTimer(g.options.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	if fault == nil {
		g.s3.ServeHTTP(w, r)
		return
	}
	fault(w, r, g.s3)
}

// Start starts the stopped server again, on the same port with the same objects.
func (g *Gofakes3) Start(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.server != nil {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", g.addr)
	if err != nil {
		return fmt.Errorf("servers: start gofakes3: %w", err)
	}
	server, ended := &http.Server{
		Handler:           g,
		ReadHeaderTimeout: readyTimeout,
		// It would report each fault, and how gofakes3 answers a body that was cut.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}, make(chan struct{})
	if n := g.options.Connections; n > 0 {
		l = netutil.LimitListener(l, n)
		server.SetKeepAlivesEnabled(false)
	}
	g.server, g.ended = server, ended
	go func() {
		defer close(ended)
		_ = server.Serve(l) // until Stop closes it
	}()
	return nil
}

// Stop closes the server's connections and listener and keeps its objects.
func (g *Gofakes3) Stop() error {
	g.mu.Lock()
	server, ended := g.server, g.ended
	g.server = nil
	g.mu.Unlock()
	if server == nil {
		return nil
	}
	err := server.Close()
	<-ended
	return err
}

// Restart is Stop and Start.
func (g *Gofakes3) Restart(ctx context.Context) error { return errors.Join(g.Stop(), g.Start(ctx)) }

// LogTail says that there is no log.
func (g *Gofakes3) LogTail(int) string { return "gofakes3 keeps no log" }

// Close stops the server for good.
func (g *Gofakes3) Close() error { return g.Stop() }
