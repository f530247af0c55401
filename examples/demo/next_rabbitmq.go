package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	wmamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
)

// rabbit is the URL of a RabbitMQ.
type rabbit string

func startRabbit(config) (next, func(), error) {
	uri, stop, err := startAMQP()
	return rabbit(uri), stop, err
}

func (r rabbit) publisher(topic string, log watermill.LoggerAdapter) (message.Publisher, marshaler.Sealer, error) {
	conf := wmamqp.NewDurableQueueConfig(string(r))
	wire := amqpwire.Marshaler{}
	conf.Marshaler = wire
	conf.Publish.ConfirmDelivery = true

	// RabbitMQ drops what no queue takes, without an error: the queue comes first.
	sub, err := wmamqp.NewSubscriber(conf, log)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(sub.SubscribeInitialize(topic), sub.Close()); err != nil {
		return nil, nil, err
	}
	pub, err := wmamqp.NewPublisher(conf, log)
	return pub, wire, err
}

// An amqpWitness reads one queue.
type amqpWitness struct {
	conn       *amqp.Connection
	channel    *amqp.Channel
	queue      string
	deliveries <-chan amqp.Delivery
}

func (r rabbit) witness(_ context.Context, queue string) (witness, error) {
	conn, err := amqp.Dial(string(r))
	if err != nil {
		return nil, err
	}
	w := &amqpWitness{conn: conn, queue: queue}
	if w.channel, err = conn.Channel(); err == nil {
		w.deliveries, err = w.channel.Consume(queue, "witness", true, false, false, false, nil)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return w, nil
}

func (w *amqpWitness) next(ctx context.Context) (delivery, error) {
	select {
	case d, ok := <-w.deliveries:
		if !ok {
			return delivery{}, errors.New("reading from RabbitMQ: the connection is closed")
		}
		return fromAMQP(d), nil
	case <-ctx.Done():
		return delivery{}, waiting("RabbitMQ", ctx.Err())
	}
}

func fromAMQP(d amqp.Delivery) delivery {
	headers := make(map[string]string, len(d.Headers))
	for name, value := range d.Headers {
		headers[name] = fmt.Sprint(value)
	}
	return delivery{
		place: d.RoutingKey + "  message_id " + d.MessageId, id: d.MessageId, body: d.Body, attributes: headers,
		open: func() (*message.Message, error) { return amqpwire.Marshaler{}.Unmarshal(d) },
	}
}

// remove deletes the queue.
func (w *amqpWitness) remove() error {
	_, err := w.channel.QueueDelete(w.queue, false, false, false)
	return err
}

func (w *amqpWitness) close() { _ = w.conn.Close() }
