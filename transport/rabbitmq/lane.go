package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A lane is a channel in confirm mode that many goroutines publish on at once.
//
// The client tells of returns and confirms through Go channels that its reader sends on.
// The reader gives a listener that does not listen five seconds and then drops what it had
// to say, and meanwhile it holds locks that a publish needs. So one goroutine of the lane
// does nothing but listen, and takes no lock that is held while frames are written.
type lane struct {
	channel *amqp.Channel
	sending chan struct{} // holds a token from the numbering of a message until it is written
	dead    chan struct{} // closed after the last sent message is settled

	mu    sync.Mutex
	queue []*sent // not settled, in the order of their numbers
	err   *amqp.Error
	ended bool
}

// A sent message waits for the broker's word.
type sent struct {
	key      string
	message  *amqp.Publishing
	returned *amqp.Return
	room     <-chan struct{} // gives a token back once it is settled; may be nil
	done     chan struct{}   // closed when it is settled; err is then set
	err      error
}

// A lostError says that the channel ended before a message was confirmed.
type lostError struct{ cause *amqp.Error }

func (e *lostError) Error() string {
	if e.cause == nil {
		return "rabbitmq: the channel was closed before the confirm"
	}
	return "rabbitmq: the channel was closed before the confirm: " + e.cause.Error()
}

// maxReturns is how many returns wait for the listener before the client's reader does.
const maxReturns = 64

// openLane opens a channel for up to window messages that are not settled.
func openLane(conn *connection, window int) (*lane, error) {
	channel, err := conn.Channel()
	if err != nil {
		return nil, transport(fmt.Errorf("open a channel: %w", said(err)))
	}
	l := &lane{channel: channel, sending: make(chan struct{}, 1), dead: make(chan struct{})}
	closes := channel.NotifyClose(make(chan *amqp.Error, 1))
	returns := channel.NotifyReturn(make(chan amqp.Return, min(window, maxReturns)))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, window))
	go l.listen(returns, confirms, closes)
	if err := channel.Confirm(false); err != nil {
		_ = channel.Close()
		return nil, transport(fmt.Errorf("turn on confirms: %w", said(err)))
	}
	return l, nil
}

// alive reports whether the lane can take messages.
func (l *lane) alive() bool {
	select {
	case <-l.dead:
		return false
	default:
		return !l.channel.IsClosed()
	}
}

// publish sends one message and returns without waiting for its confirm. alone: it waits
// until every message before it is settled, and until it is settled itself nothing is sent
// after it. An error means that the message was not sent.
func (l *lane) publish(ctx context.Context, exchange string, mandatory, alone bool, s *sent) error {
	select {
	case l.sending <- struct{}{}:
		defer func() { <-l.sending }()
	case <-l.dead:
		return &lostError{l.cause()}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if alone {
		if last := l.last(); last != nil {
			select {
			case <-last.done:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	if !l.enqueue(s) {
		return &lostError{l.cause()}
	}
	// An error is the end of the channel, and listen settles what was sent.
	if err := l.channel.Publish(exchange, s.key, mandatory, false, *s.message); err == nil && alone {
		select {
		case <-s.done:
		case <-ctx.Done():
		}
	}
	return nil
}

func (l *lane) last() *sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return nil
	}
	return l.queue[len(l.queue)-1]
}

func (l *lane) enqueue(s *sent) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.queue = append(l.queue, s)
	return true
}

func (l *lane) cause() *amqp.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// listen settles messages until the channel ends.
func (l *lane) listen(returns <-chan amqp.Return, confirms <-chan amqp.Confirmation, closes <-chan *amqp.Error) {
	for {
		select {
		case r, ok := <-returns:
			if !ok {
				returns = nil
				continue
			}
			l.returned(r)
		case c, ok := <-confirms:
			// The broker returns a message before it confirms it, so what was returned is in
			// the other channel by now.
			for more := returns != nil; more; {
				select {
				case r, open := <-returns:
					if more = open; open {
						l.returned(r)
					}
				default:
					more = false
				}
			}
			if !ok {
				l.end(<-closes)
				return
			}
			l.confirmed(c.Ack)
		}
	}
}

// returned notes that a message could not be routed. The broker does not say which number
// it had, but returns come in the order of the messages: it is the first one that is the same.
// Of several that are the same any will do.
func (l *lane) returned(r amqp.Return) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.queue {
		if s.returned == nil && s.key == r.RoutingKey && s.message.MessageId == r.MessageId &&
			s.message.Type == r.Type && string(s.message.Body) == string(r.Body) {
			s.returned = &r
			return
		}
	}
}

// confirmed settles the first message: the client puts the confirms into order.
func (l *lane) confirmed(ack bool) {
	l.mu.Lock()
	if len(l.queue) == 0 {
		l.mu.Unlock()
		return
	}
	s := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.mu.Unlock()
	switch {
	case s.returned != nil:
		s.settle(unroutable(s.returned))
	case !ack:
		s.settle(transport(errors.New("nacked by the broker")))
	default:
		s.settle(nil)
	}
}

// end settles everything that was sent as lost.
func (l *lane) end(err *amqp.Error) {
	if err != nil {
		err = scrub(err)
	}
	l.mu.Lock()
	lost := l.queue
	l.queue, l.err, l.ended = nil, err, true
	l.mu.Unlock()
	for _, s := range lost {
		s.settle(&lostError{err})
	}
	close(l.dead)
}

func (s *sent) settle(err error) {
	s.err = err
	close(s.done)
	if s.room != nil {
		<-s.room
	}
}

// A slot is a place for one channel.
type slot struct {
	busy    atomic.Int32 // calls that use it
	current atomic.Pointer[lane]
	opening chan struct{} // holds a token while a channel is opened
}

// lane returns the slot's channel and opens one if there is none, on what connect returns.
func (s *slot) lane(
	ctx context.Context, connect func(context.Context) (*connection, error), closed <-chan struct{}, window int,
) (*lane, error) {
	if ln := s.current.Load(); ln != nil && ln.alive() {
		return ln, nil
	}
	select {
	case s.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-closed:
		return nil, ErrClosed
	}
	if ln := s.current.Load(); ln != nil && ln.alive() {
		<-s.opening
		return ln, nil
	}
	conn, err := connect(ctx)
	if err != nil {
		<-s.opening
		return nil, err
	}
	// The client waits for the broker without a limit; whoever asked does not.
	opened := make(chan error, 1)
	go func() {
		ln, err := openLane(conn, window)
		if err == nil {
			s.current.Store(ln)
		}
		<-s.opening
		opened <- err
	}()
	select {
	case err := <-opened:
		if err != nil {
			return nil, err
		}
		return s.current.Load(), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-closed:
		return nil, ErrClosed
	}
}
