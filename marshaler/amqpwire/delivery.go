package amqpwire

import (
	"errors"
	"iter"
	"strconv"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/amqpframe"
	"github.com/watermill-envelope/envelope/marshaler"
)

var errNoDelivery = errors.New("amqpwire: zero delivery: the channel is closed")

// Unmarshal opens a delivery. Its error is nil whatever the delivery holds: one that cannot
// be read is malformed and keeps its bytes and its headers. Only the zero Delivery, which a
// closed channel yields, is an error.
//
// Headers that are not strings become text where they have an obvious form: integers and
// decimals in digits, booleans, floats, times as RFC 3339 in UTC, byte strings of UTF-8 as
// they are, and tables and arrays of these (x-death) as JSON. Other headers, and those that
// are not valid UTF-8, are dropped.
//
// Headers that RabbitMQ writes itself (x-death, x-delivery-count, ...) are metadata too, and
// those of this delivery win over what a copy that was published again brought along.
func (m Marshaler) Unmarshal(d amqp.Delivery) (*message.Message, error) {
	if d.Acknowledger == nil && d.DeliveryTag == 0 {
		return nil, errNoDelivery
	}
	r := marshaler.Received{
		Body:    d.Body,
		Native:  headers(d.Headers),
		ID:      d.MessageId,
		Receipt: receipt(d),
		Topic:   d.Exchange,
	}
	if r.Topic == "" {
		r.Topic = d.RoutingKey // the default exchange routes to the queue of that name
	}
	if m.Fallback != nil {
		r.Fallback = func() (*message.Message, error) { return m.Fallback.Unmarshal(d) }
	}
	w := m.wire(nil)
	msg := w.Open(r)
	if !envelope.IsMalformed(msg) {
		for name, value := range d.Headers {
			if amqpframe.BrokerOwned(name) {
				if s, ok := text(value); ok {
					msg.Metadata[name] = s
				}
			}
		}
	}
	return msg, nil
}

// headers yields the headers that have a text form.
func headers(t amqp.Table) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for name, value := range t {
			if s, ok := text(value); ok && !yield(name, s) {
				return
			}
		}
	}
}

// receipt names a stored copy as well as RabbitMQ does: exchange/routing key/deaths. A copy
// that was dead-lettered and came back is another one.
func receipt(d amqp.Delivery) string {
	b := make([]byte, 0, len(d.Exchange)+len(d.RoutingKey)+8)
	b = append(b, d.Exchange...)
	b = append(b, '/')
	b = append(b, d.RoutingKey...)
	b = append(b, '/')
	b = strconv.AppendInt(b, deaths(d.Headers["x-death"]), 10)
	return string(b)
}

// deaths sums the counts of an x-death header.
func deaths(header any) (n int64) {
	events, _ := header.([]any)
	for _, event := range events {
		if t, ok := event.(amqp.Table); ok {
			count, _ := t["count"].(int64)
			n += count
		}
	}
	return n
}
