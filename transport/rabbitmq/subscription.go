package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/bus"
)

var (
	errStopped        = errors.New("rabbitmq: the subscriber was closed before the handler was finished")
	errHandlerTimeout = errors.New("rabbitmq: the handler took longer than HandlerTimeout")
	errNacked         = errors.New("rabbitmq: nacked")
)

// A subscription consumes one queue over as many sessions as it takes. Its workers outlive
// sessions, so that a handler that still has a message of a lost connection keeps its place
// and never runs beside more others than Concurrency allows.
type subscription struct {
	settings
	link  *link
	queue string
	log   *slog.Logger
	out   chan *message.Message
	work  chan handed

	// open ends when no more deliveries are taken.
	open  context.Context
	close context.CancelFunc
	// patience ends when running handlers are not waited for any longer. Their contexts come
	// from it, and it has the values of Subscribe's.
	patience context.Context
	abandon  context.CancelCauseFunc
}

// A handed is a delivery and the session that it has to be settled on.
type handed struct {
	*session
	amqp.Delivery
}

func newSubscription(ctx context.Context, s *Subscriber, queue string) *subscription {
	sub := &subscription{
		settings: s.settings,
		link:     s.link,
		queue:    queue,
		log:      s.settings.log.With("queue", queue),
		out:      make(chan *message.Message),
		work:     make(chan handed),
	}
	open, end := context.WithCancel(ctx)
	forget := context.AfterFunc(s.open, end)
	sub.open, sub.close = open, func() { end(); forget() }
	sub.patience, sub.abandon = context.WithCancelCause(context.WithoutCancel(ctx))
	return sub
}

// start opens the first session.
func (s *subscription) start() (*session, error) {
	ctx, cancel := context.WithTimeout(s.open, subscribeTimeout)
	defer cancel()
	return s.openSession(ctx)
}

// run consumes until it is stopped, and then stops in good order.
func (s *subscription) run(current *session) {
	defer close(s.out)
	var workers sync.WaitGroup
	for range s.concurrency {
		workers.Go(func() {
			for it := range s.work {
				s.handle(it)
			}
		})
	}
	for current != nil && s.pump(current) {
		current.shut()
		current = s.reopen()
	}
	if current != nil {
		current.cancel()
	}
	close(s.work)
	timer := time.AfterFunc(s.closeTimeout, func() { s.abandon(errStopped) })
	workers.Wait()
	timer.Stop()
	s.abandon(errStopped)
	if current != nil {
		current.shut() // which returns to the queue what is not settled
	}
}

// pump hands deliveries to the workers. It reports true when the session is over, and false
// when the subscription is.
func (s *subscription) pump(current *session) bool {
	for {
		select {
		case d, ok := <-current.deliveries:
			if !ok {
				s.log.Warn("rabbitmq: the consumer has ended", "error", current.reason())
				return true
			}
			select {
			case s.work <- handed{current, d}:
			case <-current.over:
			case <-s.open.Done():
				return false
			}
		case <-s.open.Done():
			return false
		}
	}
}

// reopen opens the next session, however long it takes. It returns nil when the
// subscription is stopped meanwhile.
func (s *subscription) reopen() *session {
	for failures := 1; ; failures++ {
		next, err := s.openSession(s.open)
		if err == nil {
			return next
		}
		pause := time.NewTimer(backoff(failures))
		select {
		case <-s.open.Done():
			pause.Stop()
			return nil
		case <-pause.C:
			s.log.Warn("rabbitmq: cannot consume", "failures", failures, "error", err)
		}
	}
}

// handle hands one delivery out and settles it.
func (s *subscription) handle(it handed) {
	if size := int64(len(it.Body)); size > s.maxPayloadBytes {
		s.poison(it, tooLarge(size, s.maxPayloadBytes))
		return
	}
	msg, err := s.unmarshal(it.Delivery)
	if err == nil && msg.Metadata[bus.MetadataMalformed] != "" {
		err = invalid("message type", "missing or not UTF-8")
	}
	if err != nil {
		s.poison(it, err)
		return
	}
	a := &attempt{number: attempts(it.Headers, retryQueue(s.queue)) + 1}
	ctx, cancel := context.WithCancelCause(context.WithValue(s.patience, attemptKey{}, a))
	defer cancel(nil)
	msg.SetContext(ctx)

	select {
	case s.out <- msg:
	case <-s.open.Done():
		return // it goes back with the channel
	case <-it.over:
		return // it has gone back already
	}
	var timeout <-chan time.Time
	if s.handlerTimeout > 0 {
		timer := time.NewTimer(s.handlerTimeout)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-msg.Acked():
		s.settled(it, it.Ack(false))
	case <-msg.Nacked():
		err := a.failure()
		if err == nil {
			err = errNacked
		}
		s.failed(it, a.number, err)
	case <-timeout:
		cancel(errHandlerTimeout)
		s.failed(it, a.number, errHandlerTimeout)
	case <-s.patience.Done():
		s.log.Warn("rabbitmq: a handler was not finished in time; its message goes back", "message_id", it.MessageId)
	}
}

// unmarshal keeps a panic about bytes of somebody else from ending the process.
func (s *subscription) unmarshal(d amqp.Delivery) (msg *message.Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("rabbitmq: the unmarshaler panicked with a %T", p)
		}
	}()
	msg, err = s.unmarshaler.Unmarshal(d)
	if err == nil && msg == nil {
		err = errors.New("rabbitmq: the unmarshaler returned no message")
	}
	return msg, err
}

// settled notes an acknowledgement that the broker did not get: it delivers the message again.
func (s *subscription) settled(it handed, err error) {
	if err != nil {
		s.log.Warn("rabbitmq: not acknowledged; the message will come again", "message_id", it.MessageId, "error", said(err))
	}
}
