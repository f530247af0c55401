package marshaler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// WrapSubscriber returns a subscriber that opens what inner delivers. It is a
// [message.SubscribeInitializer] where inner is one; a panic in inner's SubscribeInitialize
// is returned as an error.
//
// Each delivery is a new message with the context of inner's; inner's own is never changed,
// because transports deliver it again after a Nack. Ack and Nack are handed back to it until
// the subscription ends.
//
// With PassThrough, a payload that is not an envelope is delivered as it is, with its UUID
// and metadata, marked with [envelope.MetadataFallback]; our names are removed from its
// metadata. A message that has the attribute ankusa_message_version is one of ours all the
// same, and malformed.
func WrapSubscriber(inner message.Subscriber, o Options) (message.Subscriber, error) {
	err := o.Validate()
	if inner == nil {
		err = errors.Join(errNilSubscriber, err)
	}
	if err != nil {
		return nil, err
	}
	s := &subscriber{
		inner:       inner,
		wire:        o.wire(),
		passThrough: o.PassThrough,
		closing:     make(chan struct{}),
		closed:      make(chan struct{}),
	}
	if init, ok := inner.(message.SubscribeInitializer); ok {
		return &initSubscriber{s, init}, nil
	}
	return s, nil
}

type subscriber struct {
	inner       message.Subscriber
	wire        Wire
	passThrough bool

	mu      sync.Mutex // guards running against Close
	running sync.WaitGroup
	closing chan struct{} // closed when Close is called: nothing more is delivered
	closed  chan struct{} // closed when inner is closed: nothing more comes
	once    sync.Once
	err     error
}

// Subscribe opens the messages of one inner subscription, in its order.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := s.start(); err != nil {
		return nil, err
	}
	in, err := s.inner.Subscribe(ctx, topic)
	if err != nil {
		s.running.Done()
		return nil, err
	}
	out := make(chan *message.Message)
	go func() {
		defer s.running.Done()
		defer close(out)
		s.run(ctx, topic, in, out)
	}()
	return out, nil
}

// start counts one more subscription, unless Close was called.
func (s *subscriber) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closing:
		return ErrClosed
	default:
		s.running.Add(1)
		return nil
	}
}

// run delivers until the inner channel is closed. Once the subscription ends it takes what
// still comes and leaves it unanswered, as a consumer that went away would, so that inner is
// not held up in closing the channel.
func (s *subscriber) run(ctx context.Context, topic string, in <-chan *message.Message, out chan<- *message.Message) {
	done := make(chan struct{})
	var answers sync.WaitGroup
	defer answers.Wait()
	defer close(done)
	for {
		var received *message.Message
		var ok bool
		select {
		case received, ok = <-in:
			if !ok {
				return
			}
		case <-s.closed:
			return
		}
		opened := s.open(topic, received)
		select {
		case out <- opened:
			answers.Go(func() { answer(opened, received, done) })
		case <-ctx.Done():
		case <-s.closing:
		}
	}
}

// answer hands the answer to the opened message back to the received one. It outlives the
// message's context, which with GoChannel's PreserveContext is the publisher's and may be
// done long before the handler is.
func answer(opened, received *message.Message, done <-chan struct{}) {
	select {
	case <-opened.Acked():
	case <-opened.Nacked():
	case <-done:
	}
	select {
	case <-opened.Acked():
		received.Ack()
	case <-opened.Nacked():
		received.Nack()
	default:
	}
}

func (s *subscriber) open(topic string, received *message.Message) *message.Message {
	r := Received{
		Body:   received.Payload,
		Native: maps.All(received.Metadata),
		ID:     received.UUID,
		Topic:  topic,
	}
	if s.passThrough {
		r.Fallback = func() (*message.Message, error) {
			msg := message.NewMessage(received.UUID, bytes.Clone(received.Payload))
			maps.Copy(msg.Metadata, received.Metadata)
			return msg, nil
		}
	}
	opened := s.wire.Open(r)
	opened.SetContext(received.Context())
	return opened
}

// Close closes the inner subscriber, once, and waits until every subscription has ended.
func (s *subscriber) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		close(s.closing)
		s.mu.Unlock()
		s.err = s.inner.Close()
		close(s.closed)
		s.running.Wait()
	})
	return s.err
}

// String returns the name that Watermill gives to the inner subscriber.
func (s *subscriber) String() string { return structName(s.inner) }

type initSubscriber struct {
	*subscriber
	init message.SubscribeInitializer
}

func (s *initSubscriber) SubscribeInitialize(topic string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("marshaler: SubscribeInitialize of %s panicked: %v", s.String(), p)
		}
	}()
	return s.init.SubscribeInitialize(topic)
}
