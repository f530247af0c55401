package rabbitmq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
)

// The defaults of a [SubscriberConfig].
const (
	DefaultPrefetch        = 16
	DefaultMaxAttempts     = 5
	DefaultRetryDelay      = 5 * time.Second
	DefaultMaxPayloadBytes = 1 << 20
	DefaultCloseTimeout    = 30 * time.Second
)

const subscribeTimeout = 30 * time.Second // for a broker that is down when Subscribe is called

// An Unmarshaler makes a message of a delivery: that of marshaler/amqpwire, of bus/amqpwire,
// or any Marshaler of watermill-amqp. A delivery that it returns an error for, or panics on,
// is poison: no attempt can help.
type Unmarshaler interface {
	Unmarshal(amqp.Delivery) (*message.Message, error)
}

// A SubscriberConfig is what [NewSubscriber] needs to know. URI and Unmarshaler are required;
// the defaults are those of a worker on Hexeract.
type SubscriberConfig struct {
	URI         URI
	TLS         *tls.Config // for amqps; nil: what the URI says
	Unmarshaler Unmarshaler
	// Prefetch bounds the deliveries that the broker hands out before they are settled, for
	// each subscription. 0 is 16, or Concurrency where that is more.
	Prefetch int
	// Concurrency is how many messages of a subscription are handled at once. 0 is 1: in the
	// order of the queue.
	Concurrency int
	// MaxAttempts is how often a message is handled before it counts as exhausted. 0 is 5.
	// All workers of a queue should agree on it.
	MaxAttempts int
	// RetryDelay is the time between two attempts, in milliseconds on the wire. 0 is 5
	// seconds. All workers of a queue must agree on it: it is a setting of the retry queue.
	RetryDelay time.Duration
	// DeadLetterQueue gets a copy of what is exhausted or poison. Empty: what is exhausted
	// is dropped with a warning, and what is poison is rejected (which a dead-letter exchange
	// of the queue still catches).
	DeadLetterQueue string
	// MaxPayloadBytes is the most that a body may have; more is poison. 0 is 1 MiB.
	MaxPayloadBytes int64
	// HandlerTimeout bounds one attempt. When it is over the context of the message ends and
	// the attempt has failed, whatever the handler does from then on; its Ack comes too late.
	// A handler that does not heed its context is thus left behind: it keeps running, and the
	// next message is handled beside it. 0: none; such a handler then blocks its place until
	// RabbitMQ loses patience (consumer_timeout, 30 minutes).
	HandlerTimeout time.Duration
	// CloseTimeout bounds how long Close waits for running handlers. 0 is 30 seconds.
	CloseTimeout time.Duration
	// Logger gets what happens to messages that are not simply handled, and to connections.
	// It never gets a body or a header's value. nil: none.
	Logger *slog.Logger
}

// Validate reports everything that is wrong with c.
func (c SubscriberConfig) Validate() error {
	var errs []error
	errs = append(errs, c.URI.Validate())
	if c.Unmarshaler == nil {
		errs = append(errs, errors.New("rabbitmq: Unmarshaler is missing"))
	}
	if c.DeadLetterQueue != "" {
		errs = append(errs, validateName("dead-letter queue", c.DeadLetterQueue))
	}
	errs = append(errs, notNegative(
		amount{"Prefetch", int64(c.Prefetch)},
		amount{"Concurrency", int64(c.Concurrency)},
		amount{"MaxAttempts", int64(c.MaxAttempts)},
		amount{"RetryDelay", int64(c.RetryDelay)},
		amount{"MaxPayloadBytes", c.MaxPayloadBytes},
		amount{"HandlerTimeout", int64(c.HandlerTimeout)},
		amount{"CloseTimeout", int64(c.CloseTimeout)},
	)...)
	if c.Prefetch > 0 && c.Prefetch < c.Concurrency {
		errs = append(errs, fmt.Errorf("rabbitmq: Prefetch %d feeds no %d handlers at once", c.Prefetch, c.Concurrency))
	}
	if c.Prefetch > maxPrefetch {
		errs = append(errs, fmt.Errorf("rabbitmq: Prefetch %d is over the %d of the protocol", c.Prefetch, maxPrefetch))
	}
	if c.RetryDelay%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("rabbitmq: RetryDelay %s is no whole number of milliseconds", c.RetryDelay))
	}
	return errors.Join(errs...)
}

const maxPrefetch = 65535

// withDefaults returns c with what zero stands for.
func (c SubscriberConfig) withDefaults() SubscriberConfig {
	if c.Concurrency == 0 {
		c.Concurrency = 1
	}
	if c.Prefetch == 0 {
		c.Prefetch = max(DefaultPrefetch, c.Concurrency)
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = DefaultMaxAttempts
	}
	if c.RetryDelay == 0 {
		c.RetryDelay = DefaultRetryDelay
	}
	if c.MaxPayloadBytes == 0 {
		c.MaxPayloadBytes = DefaultMaxPayloadBytes
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = DefaultCloseTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// A Subscriber consumes queues as a worker on Hexeract does, with manual acknowledgement. It
// may be used by several goroutines at once.
type Subscriber struct {
	settings settings
	link     *link

	open  context.Context // ends with Close
	close context.CancelFunc

	mu  sync.Mutex
	all sync.WaitGroup
}

// settings are those of a SubscriberConfig without the URI.
type settings struct {
	unmarshaler     Unmarshaler
	prefetch        int
	concurrency     int
	maxAttempts     int
	retryDelay      time.Duration
	deadLetterQueue string
	maxPayloadBytes int64
	handlerTimeout  time.Duration
	closeTimeout    time.Duration
	log             *slog.Logger
}

// NewSubscriber returns a subscriber. It does not connect: Subscribe does.
func NewSubscriber(c SubscriberConfig) (*Subscriber, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	s := &Subscriber{
		settings: settings{
			unmarshaler:     c.Unmarshaler,
			prefetch:        c.Prefetch,
			concurrency:     c.Concurrency,
			maxAttempts:     c.MaxAttempts,
			retryDelay:      c.RetryDelay,
			deadLetterQueue: c.DeadLetterQueue,
			maxPayloadBytes: c.MaxPayloadBytes,
			handlerTimeout:  c.HandlerTimeout,
			closeTimeout:    c.CloseTimeout,
			log:             c.Logger,
		},
		link: newLink(c.URI, c.TLS, c.Logger),
	}
	s.open, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Subscribe consumes the queue of this name, which must exist ([EnsureTopology]), and
// declares its retry queue and the dead-letter queue. A retry queue that exists with another
// delay is an error (406) that says both. Subscribe waits up to 30 seconds for a broker that
// is down. Later on the subscription outlives connections, channels and the queue itself: it
// comes back after a pause that grows up to ten seconds.
//
// Each message has to be acked or nacked, by the router or by whoever reads the Go channel.
// A Nack, which a handler's error or panic amounts to in a router, is a failed attempt; see
// [Middleware] for errors that are permanent. The context of a message has the values of ctx,
// and ends when the message is settled.
//
// The end of ctx ends the subscription as Close does. The Go channel is closed at its end.
func (s *Subscriber) Subscribe(ctx context.Context, queue string) (<-chan *message.Message, error) {
	if err := validateName("queue name", queue); err != nil {
		return nil, err
	}
	if queue == s.settings.deadLetterQueue {
		return nil, invalid("queue name", "the queue is its own dead-letter queue")
	}
	s.mu.Lock()
	if s.open.Err() != nil {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	s.all.Add(1)
	s.mu.Unlock()

	sub := newSubscription(ctx, s, queue)
	first, err := sub.start()
	if err != nil {
		sub.close()
		sub.abandon(nil)
		s.all.Done()
		return nil, err
	}
	go func() {
		defer s.all.Done()
		defer sub.close()
		sub.run(first)
	}()
	return sub.out, nil
}

// Close stops every subscription: it takes no more deliveries, waits until the handlers of
// those that were handed out are finished, for CloseTimeout at most, ends the contexts of
// those that are not, and gives everything that is not settled back to its queue. Then it
// closes the connection. Closing twice is the same. The error is nil.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.link.stop()
	s.all.Wait()
	s.link.close()
	return nil
}
