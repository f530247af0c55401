package redispubsub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
)

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// A subscription is one to one channel, over as many connections as it takes.
type subscription struct {
	config   SubscriberConfig
	channel  string
	log      *slog.Logger
	out      chan *message.Message
	received chan string // payloads, in their order

	values context.Context // of the messages; never ends
	open   context.Context // ends when no more is read
	end    context.CancelFunc

	current  *session
	failures int // in a row
}

func newSubscription(ctx context.Context, s *Subscriber, channel string) *subscription {
	sub := &subscription{
		config:   s.config,
		channel:  channel,
		log:      s.config.Logger.With("channel", channel),
		out:      make(chan *message.Message),
		received: make(chan string, s.config.Buffer),
		values:   context.WithoutCancel(ctx),
	}
	open, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(s.open, cancel)
	sub.open, sub.end = open, func() { cancel(); forget() }
	return sub
}

// start waits for the first confirmation. A refusal, such as a missing right, ends it at once.
func (s *subscription) start() error {
	ctx, cancel := context.WithTimeout(s.open, subscribeTimeout)
	defer cancel()
	for {
		v, err := s.receive(ctx)
		if _, ok := v.(*redis.Subscription); ok {
			s.failures = 0
			return nil
		}
		if err == nil || !isReply(err) && s.pause(ctx) {
			continue
		}
		s.drop()
		return unavailable(s.channel, fmt.Errorf("cannot subscribe: %w", err))
	}
}

// run reads and hands out until the subscription ends.
func (s *subscription) run() {
	var reader sync.WaitGroup
	reader.Go(s.read)
	s.handOut()
	reader.Wait()
}

// read reads into the buffer. While that is full it does not read.
func (s *subscription) read() {
	defer close(s.received)
	defer s.drop()
	for {
		v, err := s.receive(s.open)
		if s.open.Err() != nil {
			return
		}
		if err != nil {
			if s.failures == 0 {
				s.log.Warn("redispubsub: the subscription was interrupted; what is published until it is back is lost", "error", err)
			}
			if !s.pause(s.open) {
				return
			}
			continue
		}
		switch v := v.(type) {
		case *redis.Subscription:
			if s.failures > 0 {
				s.log.Info("redispubsub: subscribed again", "failures", s.failures)
				s.failures = 0
			}
		case *redis.Message:
			select {
			case s.received <- v.Payload:
			case <-s.open.Done():
				s.log.Warn("redispubsub: a message was received and is dropped: the subscription has ended")
				return
			}
		}
	}
}

// receive reads what comes next on the session, which it makes if there is none. After an
// error of the connection the client itself makes a new one and subscribes on it, perhaps
// before it returns the error, so the session stays: to give it up would lose what has come
// to it since. It is given up when Redis refuses to subscribe, and when it does not answer.
func (s *subscription) receive(ctx context.Context) (any, error) {
	if s.current == nil {
		s.current = newSession(s.open, s.config.Client, s.channel, s.config.PingInterval)
	}
	v, err := s.current.receive(ctx)
	if err != nil && (isReply(err) || s.current.isOver()) {
		if s.current.mute.Load() {
			err = errors.Join(errMute, err)
		}
		s.drop()
	}
	return v, err
}

// isReply reports whether Redis itself says so.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// drop gives the session up.
func (s *subscription) drop() {
	if s.current != nil {
		s.current.close()
		s.current = nil
	}
}

// pause waits before the next attempt, longer after each failure, and partly at random so that
// the subscribers of a Redis do not all come back at once. It reports false when ctx ends.
func (s *subscription) pause(ctx context.Context) bool {
	d := maxBackoff
	if s.failures < 5 {
		d = min(d, minBackoff<<s.failures)
	}
	s.failures++
	return sleep(ctx, d/2+rand.N(d/2+1))
}

// sleep reports false when ctx ends before d has passed.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// handOut hands out what was read, until the reader ends.
func (s *subscription) handOut() {
	defer close(s.out)
	dropped := 0
	for payload := range s.received {
		if s.open.Err() != nil || !s.handle([]byte(payload)) {
			dropped++
		}
	}
	if dropped > 0 {
		s.log.Warn("redispubsub: messages were received and are dropped: the subscription has ended", "messages", dropped)
	}
}

// handle hands one message out until it is settled. It reports false when the subscription
// ended before it was handed out, or between two attempts.
func (s *subscription) handle(payload []byte) bool {
	msg, err := s.unmarshal(payload)
	if err != nil {
		s.log.Error("redispubsub: a message cannot be unmarshaled and is dropped", "error_type", fmt.Sprintf("%T", err))
		return true
	}
	for attempt := 1; ; attempt++ {
		nacked, ok := s.attempt(msg.Copy()) // a handler may change what it is given
		if !ok || !nacked {
			return ok
		}
		if attempt == s.config.MaxAttempts {
			s.log.Error("redispubsub: a message was nacked and is dropped", "message_id", msg.UUID, "attempts", attempt)
			return true
		}
		if !sleep(s.open, s.config.RetryDelay) {
			return false
		}
	}
}

// attempt hands a message out and waits until it is settled. It reports not ok when the
// subscription ended before anybody took it.
func (s *subscription) attempt(msg *message.Message) (nacked, ok bool) {
	ctx, cancel := context.WithCancel(s.values)
	defer cancel()
	msg.SetContext(ctx)
	select {
	case s.out <- msg:
	case <-s.open.Done():
		return false, false
	}
	select {
	case <-msg.Acked():
		return false, true
	case <-msg.Nacked():
		return true, true
	case <-s.open.Done():
	}
	patience := time.NewTimer(s.config.CloseTimeout)
	defer patience.Stop()
	select {
	case <-msg.Acked():
		return false, true
	case <-msg.Nacked():
		return true, true
	case <-patience.C:
		s.log.Warn("redispubsub: a handler was not finished in time; its message does not come again", "message_id", msg.UUID)
		return false, true
	}
}

// unmarshal keeps a panic about bytes of somebody else from ending the process.
func (s *subscription) unmarshal(payload []byte) (msg *message.Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("redispubsub: the unmarshaler panicked with a %T", p)
		}
	}()
	msg, err = s.config.Unmarshaler.Unmarshal(s.channel, payload)
	if err == nil && msg == nil {
		err = errors.New("redispubsub: the unmarshaler returned no message")
	}
	return msg, err
}
