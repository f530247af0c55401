package redispubsub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
)

// The defaults of a [SubscriberConfig].
const (
	DefaultBuffer       = 100
	DefaultMaxAttempts  = 5
	DefaultRetryDelay   = 100 * time.Millisecond
	DefaultPingInterval = 3 * time.Second
	DefaultCloseTimeout = 30 * time.Second
)

const subscribeTimeout = 30 * time.Second // for a Redis that is down when Subscribe is called

// An Unmarshaler makes a message of a payload: PubSubMarshaler of marshaler/rediswire does. A
// payload that it returns an error for, or panics on, is dropped with a log line.
type Unmarshaler interface {
	Unmarshal(channel string, payload []byte) (*message.Message, error)
}

// A SubscriberConfig is what [NewSubscriber] needs to know. Client and Unmarshaler are
// required.
type SubscriberConfig struct {
	Client      redis.UniversalClient // is not closed
	Unmarshaler Unmarshaler
	// Buffer is how many messages a subscription reads ahead of the one that is handled; 0 is
	// 100. While it is full nothing is read, and what is published waits in Redis. It is what
	// the end of a process loses.
	Buffer int
	// MaxAttempts is how often a message that is nacked is handed out before it is dropped
	// with a log line; 0 is 5. Redis cannot be asked for it again, so it is kept and handed
	// out here, and those behind it wait meanwhile.
	MaxAttempts int
	// RetryDelay is the time between two attempts; 0 is 100 ms.
	RetryDelay time.Duration
	// PingInterval is how often a subscription to which nothing comes asks Redis whether it
	// is there; 0 is 3 seconds. Without an answer until the next time, it is made anew.
	PingInterval time.Duration
	// CloseTimeout bounds how long the end of a subscription waits for the handler of the
	// message that was handed out: it would never come again. 0 is 30 seconds.
	CloseTimeout time.Duration
	// Logger gets a line when a subscription is interrupted and when it is back, and for each
	// message that is dropped. It never gets a payload. nil: none.
	Logger *slog.Logger
}

// Validate reports everything that is wrong with c. It does not ask Redis.
func (c SubscriberConfig) Validate() error {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("redispubsub: Client is missing"))
	}
	if c.Unmarshaler == nil {
		errs = append(errs, errors.New("redispubsub: Unmarshaler is missing"))
	}
	for _, a := range []struct {
		name  string
		value int64
	}{
		{"Buffer", int64(c.Buffer)},
		{"MaxAttempts", int64(c.MaxAttempts)},
		{"RetryDelay", int64(c.RetryDelay)},
		{"PingInterval", int64(c.PingInterval)},
		{"CloseTimeout", int64(c.CloseTimeout)},
	} {
		if a.value < 0 {
			errs = append(errs, fmt.Errorf("redispubsub: %s is negative", a.name))
		}
	}
	return errors.Join(errs...)
}

// A Subscriber subscribes to channels. It may be used by several goroutines at once.
type Subscriber struct {
	config SubscriberConfig

	open  context.Context // ends with Close
	close context.CancelFunc

	mu  sync.Mutex
	all sync.WaitGroup
}

// NewSubscriber returns a subscriber. It does not ask Redis: Subscribe does.
func NewSubscriber(c SubscriberConfig) (*Subscriber, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Buffer == 0 {
		c.Buffer = DefaultBuffer
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = DefaultMaxAttempts
	}
	if c.RetryDelay == 0 {
		c.RetryDelay = DefaultRetryDelay
	}
	if c.PingInterval == 0 {
		c.PingInterval = DefaultPingInterval
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = DefaultCloseTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Subscriber{config: c}
	s.open, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Subscribe subscribes to a channel on a connection of its own. When it returns, Redis has
// confirmed it: what is published from now on arrives, in the order in which Redis got it.
// Subscribe waits up to 30 seconds for a Redis that is down; later on the subscription
// outlives connections and Redis itself, and comes back after a pause that grows up to two
// seconds.
//
// One message is handed out at a time, and the next one when it is acked. A Nack, which a
// handler's error amounts to in a router, hands out a copy of it again: see MaxAttempts. The
// context of a message has the values of ctx, and ends when the message is settled.
//
// The end of ctx ends the subscription as Close does. The Go channel is closed at its end.
func (s *Subscriber) Subscribe(ctx context.Context, channel string) (<-chan *message.Message, error) {
	if channel == "" {
		return nil, errNoChannel
	}
	s.mu.Lock()
	if s.open.Err() != nil {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	s.all.Add(1)
	s.mu.Unlock()

	sub := newSubscription(ctx, s, channel)
	if err := sub.start(); err != nil {
		sub.end()
		s.all.Done()
		if s.open.Err() != nil {
			return nil, ErrClosed
		}
		return nil, err
	}
	go func() {
		defer s.all.Done()
		defer sub.end()
		sub.run()
	}()
	return sub.out, nil
}

// Close ends every subscription: it reads no more, waits until the handlers of the messages
// that were handed out are finished, for CloseTimeout at most, and ends the contexts of those
// that are not. Messages that were read ahead are dropped with a log line. Close does not
// close the client. Closing twice is the same. The error is nil.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.all.Wait()
	return nil
}
