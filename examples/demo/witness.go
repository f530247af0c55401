package main

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The witnesses read what stands on the brokers with the brokers' own clients. They know
// neither Watermill nor this library.

// A kafkaWitness reads topics from their start.
type kafkaWitness struct{ client *kgo.Client }

func witnessKafka(brokers []string, topics ...string) (*kafkaWitness, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	return &kafkaWitness{client}, err
}

// next waits for the next record of the topics.
func (w *kafkaWitness) next(ctx context.Context) (*kgo.Record, error) {
	for {
		fetches := w.client.PollRecords(ctx, 1)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("reading from Kafka: %w", err)
		}
		if records := fetches.Records(); len(records) > 0 {
			return records[0], nil
		}
	}
}

// put writes a record to its partition, as a foreign producer does.
func (w *kafkaWitness) put(ctx context.Context, r *kgo.Record) error {
	return w.client.ProduceSync(ctx, r).FirstErr()
}

// remove deletes topics.
func (w *kafkaWitness) remove(ctx context.Context, topics ...string) error {
	q := kmsg.NewPtrDeleteTopicsRequest()
	q.TopicNames = topics
	for _, name := range topics {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = new(name)
		q.Topics = append(q.Topics, topic)
	}
	resp, err := q.RequestWith(ctx, w.client)
	if err != nil {
		return err
	}
	for _, topic := range resp.Topics {
		err = errors.Join(err, kerr.ErrorForCode(topic.ErrorCode))
	}
	return err
}

func (w *kafkaWitness) close() { w.client.Close() }

// An amqpWitness reads one queue.
type amqpWitness struct {
	conn       *amqp.Connection
	channel    *amqp.Channel
	deliveries <-chan amqp.Delivery
}

func witnessAMQP(uri, queue string) (*amqpWitness, error) {
	conn, err := amqp.Dial(uri)
	if err != nil {
		return nil, err
	}
	w := &amqpWitness{conn: conn}
	if w.channel, err = conn.Channel(); err == nil {
		w.deliveries, err = w.channel.Consume(queue, "witness", true, false, false, false, nil)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return w, nil
}

func (w *amqpWitness) next(ctx context.Context) (amqp.Delivery, error) {
	select {
	case d, ok := <-w.deliveries:
		if !ok {
			return d, errors.New("reading from RabbitMQ: the connection is closed")
		}
		return d, nil
	case <-ctx.Done():
		return amqp.Delivery{}, fmt.Errorf("reading from RabbitMQ: %w", ctx.Err())
	}
}

// remove deletes a queue.
func (w *amqpWitness) remove(queue string) error {
	_, err := w.channel.QueueDelete(queue, false, false, false)
	return err
}

func (w *amqpWitness) close() { _ = w.conn.Close() }
