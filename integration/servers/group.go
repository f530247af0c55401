package servers

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A Server is what [Group] and [CloseAfter] need to know of one.
type Server interface {
	// Close stops the server for good and removes what it wrote.
	Close() error
	// LogTail returns the last n lines of its log.
	LogTail(n int) string
}

// A Group is the servers that the tests of one package share. The zero value is ready.
//
//	var kafka *servers.Kafka
//
//	func TestMain(m *testing.M) {
//		var g servers.Group
//		g.Add(func(ctx context.Context) (_ servers.Server, err error) {
//			kafka, err = servers.StartKafka(ctx, servers.KafkaOptions{})
//			return kafka, err
//		})
//		os.Exit(g.Run(m))
//	}
type Group struct {
	starts []func(context.Context) (Server, error)
}

// Add adds a server that Run starts.
func (g *Group) Add(start func(context.Context) (Server, error)) {
	g.starts = append(g.starts, start)
}

// Run starts the servers side by side, runs the tests, and stops the servers, also when the
// tests are interrupted or terminated. It returns the exit code of the package: that of the
// tests, or 1 when a server did not start or did not stop. After a failure it prints the
// end of each server's log.
func (g *Group) Run(m interface{ Run() int }) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	running, errs := g.start(ctx)
	code := 1
	if len(errs) == 0 {
		finished := make(chan int, 1)
		go func() { finished <- m.Run() }()
		select {
		case code = <-finished:
		case <-ctx.Done():
			stop() // a second interrupt ends the process at once
			fmt.Fprintln(os.Stderr, "servers: interrupted; stopping")
			code = 130
		}
	}
	if code == 1 {
		for _, s := range running {
			fmt.Fprintf(os.Stderr, "servers: end of the log of %T:\n%s\n", s, s.LogTail(25))
		}
	}
	var all sync.WaitGroup
	closed := make([]error, len(running))
	for i, s := range running {
		all.Go(func() { closed[i] = s.Close() })
	}
	all.Wait()
	for _, err := range append(errs, closed...) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// start starts all servers and returns those that run and the errors of the others.
func (g *Group) start(ctx context.Context) (running []Server, errs []error) {
	if len(g.starts) == 0 {
		return nil, nil
	}
	begin := time.Now()
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, start := range g.starts {
		all.Go(func() {
			s, err := start(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else {
				running = append(running, s)
			}
		})
	}
	all.Wait()
	fmt.Fprintf(os.Stderr, "servers: %d of %d ready after %.1f s\n",
		len(running), len(g.starts), time.Since(begin).Seconds())
	return running, errs
}

// CloseAfter closes s when the test and its subtests are over. When the test failed it logs
// the end of the server's log first.
func CloseAfter(t testing.TB, s Server) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the log of %T:\n%s", s, s.LogTail(25))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
