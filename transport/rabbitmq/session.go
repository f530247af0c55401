package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// A session is a consumer on one connection.
type session struct {
	conn       *connection
	channel    *amqp.Channel
	tag        string
	deliveries <-chan amqp.Delivery
	over       chan struct{} // closed when the channel has ended
	err        *amqp.Error   // why; set before over is closed
	copies     slot          // the channel for retries and dead letters
}

// openSession declares the queues of the subscription and starts to consume.
func (s *subscription) openSession(ctx context.Context) (*session, error) {
	conn, err := s.link.get(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.within(ctx)()
	channel, err := conn.Channel()
	if err != nil {
		return nil, s.failedTo("open a channel", err)
	}
	current, err := s.consume(conn, channel)
	if err != nil {
		_ = channel.Close()
		return nil, err
	}
	return current, nil
}

func (s *subscription) consume(conn *connection, channel *amqp.Channel) (_ *session, err error) {
	if err := s.declare(channel); err != nil {
		return nil, err
	}
	current := &session{
		conn:    conn,
		channel: channel,
		tag:     "envelope-" + uuid.Must(uuid.NewV7()).String(),
		over:    make(chan struct{}),
		copies:  slot{opening: make(chan struct{}, 1)},
	}
	closes := channel.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		if err := <-closes; err != nil {
			current.err = scrub(err)
		}
		close(current.over)
	}()
	if err := channel.Qos(s.prefetch, 0, false); err != nil {
		return nil, s.failedTo("set the prefetch", err)
	}
	current.deliveries, err = channel.Consume(s.queue, current.tag, false, false, false, false, nil)
	if err != nil {
		return nil, s.failedTo("consume", err)
	}
	return current, nil
}

// declare declares the retry queue and the dead-letter queue. The queue itself is the user's.
func (s *subscription) declare(channel *amqp.Channel) error {
	retry := retryQueue(s.queue)
	_, err := channel.QueueDeclare(retry, true, false, false, false, amqp.Table{
		"x-message-ttl":             s.retryDelay.Milliseconds(),
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": s.queue,
	})
	if err != nil {
		return s.failedTo(fmt.Sprintf("declare the retry queue %q with RetryDelay %s", retry, s.retryDelay), err)
	}
	if s.deadLetterQueue == "" {
		return nil
	}
	if _, err := channel.QueueDeclare(s.deadLetterQueue, true, false, false, false, nil); err != nil {
		return s.failedTo(fmt.Sprintf("declare the dead-letter queue %q", s.deadLetterQueue), err)
	}
	return nil
}

func (s *subscription) failedTo(do string, err error) error {
	return fmt.Errorf("queue %q: %s: %w", s.queue, do, transport(said(err)))
}

// reason says why the deliveries have ended.
func (c *session) reason() error {
	select {
	case <-c.over:
	default:
		return errors.New("the broker cancelled the consumer: was the queue deleted?")
	}
	if c.err == nil {
		return amqp.ErrClosed
	}
	return c.err
}

// cancel asks the broker for no more deliveries.
func (c *session) cancel() { _ = c.channel.Cancel(c.tag, true) }

// shut closes the session's channels, and with that returns to the queue what is not settled.
func (c *session) shut() {
	timer := time.AfterFunc(closeWait, c.conn.abort)
	defer timer.Stop()
	_ = c.channel.Close()
	if ln := c.copies.current.Load(); ln != nil {
		_ = ln.channel.Close()
	}
}

// connected is the session's connection, for a [slot].
func (c *session) connected(context.Context) (*connection, error) {
	if c.conn.IsClosed() {
		return nil, amqp.ErrClosed
	}
	return c.conn, nil
}
