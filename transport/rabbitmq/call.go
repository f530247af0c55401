package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/bus"
)

// maxConnectionRefusals is how many connections a message may see the broker close over
// something that was sent, before it is taken for the culprit.
const maxConnectionRefusals = 3

// An item is one message of a call.
type item struct {
	message  *amqp.Publishing
	err      error
	sent     *sent // the last time
	alone    bool  // the broker closed a channel over it or over one beside it
	refusals int   // connections that the broker closed over it or over one beside it
}

// A call is one Publish.
type call struct {
	*Publisher
	topic string
	slot  *slot
}

// send sends the items and waits for their confirms. It sets the err of those that failed
// and returns those that have to be sent again.
func (c *call) send(ctx context.Context, items []*item) (again []*item) {
	lane, err := c.slot.lane(ctx, c.link.get, c.link.closed, c.maxInFlight)
	if err != nil {
		return c.noLane(ctx, items, err)
	}
	n := len(items)
	for i, it := range items {
		if err = c.sendOne(ctx, lane, it); err != nil {
			n = i // and nothing after it is sent, for the order's sake
			break
		}
	}
	for _, it := range items[:n] {
		if c.lost(ctx, it) {
			again = append(again, it)
		}
	}
	var lost *lostError
	if errors.As(err, &lost) {
		return append(again, items[n:]...)
	}
	for _, it := range items[n:] {
		it.fail(err)
	}
	return again
}

// noLane decides what becomes of items that no channel could be had for.
func (c *call) noLane(ctx context.Context, items []*item, err error) (again []*item) {
	if !errors.Is(err, ErrClosed) && !errors.Is(err, bus.ErrConnection) {
		// The connection was lost while the channel was opened, or has no more channels.
		pause := time.NewTimer(minBackoff)
		defer pause.Stop()
		select {
		case <-pause.C:
			return items
		case <-ctx.Done():
			err = c.link.failed(err)
		case <-c.link.closed:
			err = ErrClosed
		}
	}
	for _, it := range items {
		it.fail(err)
	}
	return nil
}

func (c *call) sendOne(ctx context.Context, lane *lane, it *item) error {
	select {
	case c.room <- struct{}{}:
	default:
		select {
		case c.room <- struct{}{}:
		case <-ctx.Done():
			return transport(fmt.Errorf("%d messages are in flight already: %w", cap(c.room), context.Cause(ctx)))
		case <-c.link.closed:
			return ErrClosed
		}
	}
	s := &sent{key: c.topic, message: it.message, room: c.room, done: make(chan struct{})}
	if err := lane.publish(ctx, c.exchange, c.mandatory, it.alone, s); err != nil {
		<-c.room
		return err
	}
	it.sent = s
	return nil
}

// lost waits for the broker's word on a message that was sent and reports whether it has to
// be sent again.
func (c *call) lost(ctx context.Context, it *item) bool {
	select {
	case <-it.sent.done:
	default:
		select {
		case <-it.sent.done:
		case <-ctx.Done():
			it.fail(context.Cause(ctx))
			return false
		}
	}
	var lost *lostError
	if !errors.As(it.sent.err, &lost) {
		it.err = it.sent.err
		return false
	}
	if !refused(lost.cause) {
		return true // an outage; the next attempt waits for its end
	}
	guilty := it.alone
	if lost.cause.Recover { // the channel only
		it.alone = true
	} else {
		it.refusals++
		guilty = it.refusals >= maxConnectionRefusals
	}
	if guilty {
		it.err = rejected(lost.cause)
	}
	return !guilty
}

// fail gives the item up. If it was ever sent, it may have been stored.
func (it *item) fail(err error) {
	if it.sent != nil {
		err = transport(fmt.Errorf("%w: %w", ErrUnconfirmed, err))
	}
	it.err = err
}
