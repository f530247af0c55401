package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
)

const (
	copyTimeout  = 30 * time.Second       // for the confirm of a copy
	requeuePause = 500 * time.Millisecond // before a message whose copy failed is delivered again
)

func tooLarge(size, limit int64) error {
	return &bus.Error{Code: bus.CodePayloadTooLarge, Size: size, Max: limit}
}

// failed settles a delivery whose attempt failed: it is retried later, or exhausted.
func (s *subscription) failed(it handed, number int64, err error) {
	log := s.log.With("message_id", it.MessageId, "attempt", number, "error", err)
	if number < int64(s.maxAttempts) && !envelope.IsPermanent(err) {
		log.Info("rabbitmq: attempt failed; the message is retried", "delay", s.retryDelay)
		s.move(it, retryQueue(s.queue), retryCopy(it.Delivery, number))
		return
	}
	if s.deadLetterQueue == "" {
		log.Warn("rabbitmq: no more attempts; the message is dropped, for there is no dead-letter queue")
		s.settled(it, it.Ack(false))
		return
	}
	log.Warn("rabbitmq: no more attempts; the message is dead", "dead_letter_queue", s.deadLetterQueue)
	s.move(it, s.deadLetterQueue, deadCopy(it.Delivery, number))
}

// poison settles a delivery that no handler can be given.
func (s *subscription) poison(it handed, err error) {
	log := s.log.With("message_id", it.MessageId, "error", shown(err))
	if s.deadLetterQueue == "" {
		log.Warn("rabbitmq: poison message rejected")
		s.settled(it, it.Nack(false, false))
		return
	}
	log.Warn("rabbitmq: poison message; it is dead", "dead_letter_queue", s.deadLetterQueue)
	s.move(it, s.deadLetterQueue, deadCopy(it.Delivery, attempts(it.Headers, retryQueue(s.queue))))
}

// move publishes the copy of a delivery to a queue and acks the delivery once it is
// confirmed. A copy that can never be published is rejected: a dead-letter exchange of the
// queue is the last that can keep it. After any other failure the delivery comes again.
func (s *subscription) move(it handed, queue string, p amqp.Publishing) {
	err := s.publish(it.session, queue, &p)
	if err == nil {
		s.settled(it, it.Ack(false))
		return
	}
	log := s.log.With("message_id", it.MessageId, "to", queue, "error", err)
	if errors.Is(err, bus.ErrUnroutable) || envelope.IsPermanent(err) {
		log.Error("rabbitmq: the copy of a message cannot be stored; it is rejected, and lost unless its queue has a dead-letter exchange")
		s.settled(it, it.Nack(false, false))
		return
	}
	log.Warn("rabbitmq: the copy of a message was not stored; the message comes again")
	pause := time.NewTimer(requeuePause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-s.patience.Done():
	case <-it.over:
	}
	s.settled(it, it.Nack(false, true))
}

// publish publishes to a queue and waits for the confirm.
func (s *subscription) publish(on *session, queue string, p *amqp.Publishing) error {
	if err := errors.Join(check(queue, p), checkHeaderSize(p, int64(on.conn.Config.FrameSize))); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.patience, copyTimeout)
	defer cancel()
	lane, err := on.copies.lane(ctx, on.connected, on.over, s.concurrency)
	if err != nil {
		return err
	}
	m := &sent{key: queue, message: p, done: make(chan struct{})}
	if err := lane.publish(ctx, "", true, true, m); err != nil {
		return err
	}
	select {
	case <-m.done:
	case <-ctx.Done():
		return transport(ErrUnconfirmed)
	}
	var lost *lostError
	if errors.As(m.err, &lost) && refused(lost.cause) {
		return rejected(lost.cause) // nothing was beside it
	}
	return m.err
}

// shown is what a log may have of an unmarshaler's error: those that are not ours may quote
// headers and bodies.
func shown(err error) string {
	var ours *bus.Error
	var malformed *envelope.Error
	if errors.As(err, &ours) || errors.As(err, &malformed) {
		return err.Error()
	}
	return fmt.Sprintf("the unmarshaler's %T", err)
}
