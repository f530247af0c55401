package redispubsub

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope"
)

// A Marshaler makes the payload of a message: PubSubMarshaler of marshaler/rediswire does. Its
// errors should be permanent.
type Marshaler interface {
	Marshal(channel string, msg *message.Message) ([]byte, error)
}

// A PublisherConfig is what [NewPublisher] needs to know. Client and Marshaler are required.
type PublisherConfig struct {
	Client    redis.UniversalClient // is not closed
	Marshaler Marshaler
	// AllowNoSubscribers takes a message that nobody is subscribed to for published, as a
	// channel with optional listeners wants it. Otherwise it is [ErrNoSubscribers].
	AllowNoSubscribers bool
}

// Validate reports everything that is wrong with c. It does not ask Redis.
func (c PublisherConfig) Validate() error {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("redispubsub: Client is missing"))
	}
	if c.Marshaler == nil {
		errs = append(errs, errors.New("redispubsub: Marshaler is missing"))
	}
	return errors.Join(errs...)
}

// A Publisher publishes on channels. It may be used by many goroutines at once.
type Publisher struct {
	config PublisherConfig

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

// NewPublisher returns a publisher. It does not ask Redis.
func NewPublisher(c PublisherConfig) (*Publisher, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Publisher{config: c}, nil
}

// Publish publishes the messages on a channel, one after the other. When it returns nil, each
// was sent to at least one subscriber (unless AllowNoSubscribers is set), which says nothing
// of what became of it there.
//
// A message that cannot be marshaled (a permanent error) ends the call before anything is
// sent. Any other error ends it at its message: those before it were published, those after
// it were not. It is an [*Error], transient, and [ErrNoSubscribers] where that is what
// happened; or permanent and [envelope.ErrMessageTooLarge] for a payload that Redis refuses.
//
// How long Publish waits is up to the client's timeouts and retries, and to the context of
// the message: when that ends, Publish returns an error that is [ErrUnconfirmed]. A context
// that was done before the call (Watermill's Timeout middleware ends it before the router
// publishes) has its values counted but not its end.
func (p *Publisher) Publish(channel string, messages ...*message.Message) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return ErrClosed
	}
	p.calls.Add(1)
	p.mu.Unlock()
	defer p.calls.Done()

	if channel == "" {
		return envelope.Permanent(errNoChannel)
	}
	payloads := make([][]byte, len(messages))
	contexts := make([]context.Context, len(messages))
	for i, msg := range messages {
		var err error
		if payloads[i], err = p.config.Marshaler.Marshal(channel, msg); err != nil {
			return ofBatch(err, i, len(messages))
		}
		contexts[i] = msg.Context()
		if contexts[i].Err() != nil {
			contexts[i] = context.WithoutCancel(contexts[i])
		}
	}
	for i, payload := range payloads {
		if err := p.send(contexts[i], channel, payload); err != nil {
			return ofBatch(err, i, len(messages))
		}
	}
	return nil
}

// ofBatch says which message of several err is about.
func ofBatch(err error, i, n int) error {
	if n == 1 {
		return err
	}
	return fmt.Errorf("message %d of %d: %w", i, n, err)
}

// send publishes one message. The client does not heed the end of a context while it waits
// for an answer, so a call that may be left behind has a goroutine of its own, for which Close
// waits.
func (p *Publisher) send(ctx context.Context, channel string, payload []byte) error {
	if ctx.Done() == nil {
		return p.publish(ctx, channel, payload)
	}
	if ctx.Err() != nil { // since the call began
		return unavailable(channel, context.Cause(ctx))
	}
	done := make(chan error, 1)
	p.calls.Go(func() { done <- p.publish(ctx, channel, payload) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return unavailable(channel, fmt.Errorf("%w: %w", ErrUnconfirmed, context.Cause(ctx)))
	}
}

func (p *Publisher) publish(ctx context.Context, channel string, payload []byte) error {
	n, err := p.config.Client.Publish(ctx, channel, payload).Result()
	if err != nil {
		return publishing(channel, err)
	}
	if n == 0 && !p.config.AllowNoSubscribers {
		return &Error{Code: CodeNoSubscribers, Channel: channel}
	}
	return nil
}

// Close waits for the calls that are under way, as long as the client's timeouts let them
// take. It does not close the client. Closing twice is the same. The error is nil.
func (p *Publisher) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.calls.Wait()
	return nil
}
