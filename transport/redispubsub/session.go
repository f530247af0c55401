package redispubsub

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

var errMute = errors.New("redispubsub: Redis does not answer")

// A session is a subscription of the client, and what watches over its connection.
type session struct {
	pubsub    *redis.PubSub
	over      context.Context // ends with close
	cancel    context.CancelFunc
	watcher   sync.WaitGroup
	receiving atomic.Bool
	arrivals  atomic.Int64
	mute      atomic.Bool // it was given up because Redis did not answer
}

func newSession(ctx context.Context, client redis.UniversalClient, channel string, interval time.Duration) *session {
	s := &session{}
	s.over, s.cancel = context.WithCancel(ctx)
	s.pubsub = client.Subscribe(s.over, channel) // without waiting; an error comes from receive
	s.watcher.Go(func() { s.watch(interval) })
	return s
}

// receive waits for what comes next: a message, the answer to a ping, or a confirmation. It has
// no deadline: the client would go on in the middle of a message that it was late with.
func (s *session) receive(ctx context.Context) (any, error) {
	// The client heeds the end of a context only while it connects.
	stop := context.AfterFunc(ctx, s.abort)
	defer stop()
	s.receiving.Store(true)
	v, err := s.pubsub.Receive(s.over)
	s.receiving.Store(false)
	if err == nil {
		s.arrivals.Add(1)
	}
	return v, err
}

// watch gives the session up when somebody waits to receive, nothing comes, and Redis has not
// answered a ping either.
func (s *session) watch(interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	pinged, before := false, int64(0)
	for {
		select {
		case <-tick.C:
		case <-s.over.Done():
			return
		}
		now := s.arrivals.Load()
		quiet := now == before && s.receiving.Load()
		before = now
		if quiet && pinged {
			s.mute.Store(true)
			s.abort()
			return
		}
		pinged = quiet && s.pubsub.Ping(s.over) == nil
	}
}

// abort closes the connection, which ends receive.
func (s *session) abort() {
	s.cancel()
	_ = s.pubsub.Close() // an error says that it was closed already
}

// isOver reports whether the session was given up.
func (s *session) isOver() bool { return s.over.Err() != nil }

func (s *session) close() {
	s.abort()
	s.watcher.Wait()
}
