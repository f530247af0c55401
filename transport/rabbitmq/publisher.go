package rabbitmq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
)

// The defaults of a [PublisherConfig].
const (
	DefaultMaxChannels    = 8
	DefaultMaxInFlight    = 1024
	DefaultPublishTimeout = 30 * time.Second
)

// A Marshaler makes a publishing of a message: that of marshaler/amqpwire, of bus/amqpwire,
// or any Marshaler of watermill-amqp. Its errors should be permanent.
type Marshaler interface {
	Marshal(*message.Message) (amqp.Publishing, error)
}

// A PublisherConfig is what [NewPublisher] needs to know. URI and Marshaler are required.
type PublisherConfig struct {
	URI       URI
	TLS       *tls.Config // for amqps; nil: what the URI says
	Marshaler Marshaler
	// Exchange gets every message. It must exist ([EnsureTopology]). Empty is the default
	// exchange, where the topic is the name of a queue.
	Exchange string
	// AllowUnroutable takes a message that no queue gets for published, as an exchange with
	// optional listeners wants it. Otherwise it is an error that is [bus.ErrUnroutable].
	AllowUnroutable bool
	// MaxChannels bounds the channels on the publisher's connection. 0 is 8. They are shared:
	// it does not bound how many publish at once.
	MaxChannels int
	// MaxInFlight bounds the messages that are sent and not yet confirmed; over that Publish
	// waits. 0 is 1024.
	MaxInFlight int
	// PublishTimeout bounds one Publish, however many messages it has: waiting for a
	// connection, for room and for confirms, and sending again after an outage. 0 is 30
	// seconds. A broker that stops reading can add the 10 seconds after which a connection
	// that takes no bytes is given up.
	PublishTimeout time.Duration
	// Logger gets a line when a connection is made, cannot be made or is lost. nil: none.
	Logger *slog.Logger
}

// Validate reports everything that is wrong with c.
func (c PublisherConfig) Validate() error {
	var errs []error
	errs = append(errs, c.URI.Validate())
	if c.Marshaler == nil {
		errs = append(errs, errors.New("rabbitmq: Marshaler is missing"))
	}
	if c.Exchange != "" {
		errs = append(errs, validateName("exchange name", c.Exchange))
	}
	errs = append(errs, notNegative(
		amount{"MaxChannels", int64(c.MaxChannels)},
		amount{"MaxInFlight", int64(c.MaxInFlight)},
		amount{"PublishTimeout", int64(c.PublishTimeout)},
	)...)
	return errors.Join(errs...)
}

// A Publisher publishes with confirms: when Publish returns nil, a queue has every message
// (unless AllowUnroutable is set), and the broker has it on disk where queue and message are
// durable. It may be used by many goroutines at once.
type Publisher struct {
	marshaler   Marshaler
	exchange    string
	mandatory   bool
	maxInFlight int
	timeout     time.Duration
	link        *link
	slots       []slot
	turn        atomic.Uint32
	room        chan struct{} // a token for each message that is not settled

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
	ended  chan struct{} // closed when everything is closed
}

// NewPublisher returns a publisher. It does not connect: the first Publish does, or Connect.
func NewPublisher(c PublisherConfig) (*Publisher, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxChannels == 0 {
		c.MaxChannels = DefaultMaxChannels
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = DefaultMaxInFlight
	}
	if c.PublishTimeout == 0 {
		c.PublishTimeout = DefaultPublishTimeout
	}
	p := &Publisher{
		marshaler:   c.Marshaler,
		exchange:    c.Exchange,
		mandatory:   !c.AllowUnroutable,
		maxInFlight: c.MaxInFlight,
		timeout:     c.PublishTimeout,
		link:        newLink(c.URI, c.TLS, c.Logger),
		slots:       make([]slot, c.MaxChannels),
		room:        make(chan struct{}, c.MaxInFlight),
		ended:       make(chan struct{}),
	}
	for i := range p.slots {
		p.slots[i].opening = make(chan struct{}, 1)
	}
	return p, nil
}

// Connect connects, so that a service can find out at its start that it cannot. Until ctx
// ends it waits for a broker that is down.
func (p *Publisher) Connect(ctx context.Context) error {
	_, err := p.link.get(ctx)
	return err
}

// Publish publishes the messages on the exchange with the topic as routing key, in their
// order, and returns when the broker has confirmed all of them. Several messages are sent
// before the first confirm arrives, so one call with many is much faster than many calls.
//
// A message that cannot be marshaled or sent as it is (a permanent error) ends the call
// before anything is sent. All other errors are about single messages: for a call with one
// it is the error itself, for a call with several a [BatchError].
//
// While the broker is down Publish waits up to PublishTimeout for it to come back; messages
// whose confirm the outage swallowed are then sent again, and may be stored twice, those that
// were confirmed are not. After PublishTimeout the error is transient. The first message's
// context is honoured too, except where it was done before the call: then its values count
// but not its end (Watermill's Timeout middleware ends it before the router publishes).
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	if err := p.begin(); err != nil {
		return err
	}
	defer p.calls.Done()
	if len(messages) == 0 {
		return nil
	}
	items, err := p.marshal(topic, messages)
	if err != nil {
		return err
	}
	ctx := messages[0].Context()
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()

	if p.link.frameMax.Load() == unknown {
		if _, err := p.link.get(ctx); err != nil {
			return err
		}
		for i, it := range items {
			if err := checkHeaderSize(it.message, p.link.frameMax.Load()); err != nil {
				return ofBatch(err, i, len(items))
			}
		}
	}
	c := call{Publisher: p, topic: topic, slot: p.slot()}
	defer c.slot.busy.Add(-1)
	for left := items; len(left) > 0; {
		left = c.send(ctx, left)
	}
	return failures(items)
}

// slot returns the place of the channel to publish on: the first that nobody else uses now,
// so that who publishes one message at a time has one channel, and else each in turn.
func (p *Publisher) slot() *slot {
	for i := range p.slots {
		if s := &p.slots[i]; s.busy.CompareAndSwap(0, 1) {
			return s
		}
	}
	s := &p.slots[p.turn.Add(1)%uint32(len(p.slots))]
	s.busy.Add(1)
	return s
}

// ofBatch says which message of several err is about.
func ofBatch(err error, i, n int) error {
	if n == 1 {
		return err
	}
	return fmt.Errorf("message %d of %d: %w", i, n, err)
}

func (p *Publisher) marshal(topic string, messages []*message.Message) ([]*item, error) {
	items := make([]*item, len(messages))
	for i, msg := range messages {
		publishing, err := p.marshaler.Marshal(msg)
		if err == nil {
			publishing.Timestamp = repaired(publishing.Timestamp)
			err = check(topic, &publishing)
		}
		if err == nil {
			err = checkHeaderSize(&publishing, p.link.frameMax.Load())
		}
		if err != nil {
			return nil, ofBatch(err, i, len(messages))
		}
		items[i] = &item{message: &publishing}
	}
	return items, nil
}

func failures(items []*item) error {
	if len(items) == 1 {
		return items[0].err
	}
	var failed []Failure
	for i, it := range items {
		if it.err != nil {
			failed = append(failed, Failure{i, it.err})
		}
	}
	if failed == nil {
		return nil
	}
	return &BatchError{Messages: len(items), Failed: failed}
}

func (p *Publisher) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	p.calls.Add(1)
	return nil
}

// Close waits until what was sent is confirmed, for PublishTimeout at most, and closes the
// connection. Calls that wait for a connection or for room fail at once with [ErrClosed].
// Closing twice does nothing more than waiting for the first. The error is nil.
func (p *Publisher) Close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	if !first {
		<-p.ended
		return nil
	}
	p.link.stop()
	p.calls.Wait() // each is bounded
	p.link.close()
	close(p.ended)
	return nil
}
