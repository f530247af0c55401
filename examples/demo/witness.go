package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

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
