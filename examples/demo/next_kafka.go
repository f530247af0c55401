package main

import (
	"context"
	"fmt"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

// kafkaNext is a topic on the Kafka that the hooks come from, by its brokers.
type kafkaNext []string

func (n kafkaNext) publisher(topic string, log watermill.LoggerAdapter) (message.Publisher, marshaler.Sealer, error) {
	wire := kafkawire.Marshaler{}
	sub, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: n, Unmarshaler: wire,
		InitializeTopicDetails: &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: -1},
	}, log)
	if err != nil {
		return nil, nil, err
	}
	if err := sub.SubscribeInitialize(topic); err != nil {
		return nil, nil, err
	}
	if err := sub.Close(); err != nil {
		return nil, nil, err
	}
	pub, err := newKafkaPublisher(n, wire, log)
	return pub, wire, err
}

type kafkaNextWitness struct {
	*kafkaWitness
	topic string
}

func (n kafkaNext) witness(_ context.Context, topic string) (witness, error) {
	w, err := witnessKafka(n, topic)
	return kafkaNextWitness{w, topic}, err
}

func (w kafkaNextWitness) next(ctx context.Context) (delivery, error) {
	r, err := w.kafkaWitness.next(ctx)
	if err != nil {
		return delivery{}, err
	}
	return delivery{
		place: fmt.Sprintf("%s[%d]@%d  key %s", r.Topic, r.Partition, r.Offset, r.Key),
		body:  r.Value, attributes: recordHeaders(r),
		open: func() (*message.Message, error) { return kafkawire.Marshaler{}.Unmarshal(consumed(r)) },
	}, nil
}

func (w kafkaNextWitness) remove() error {
	return w.kafkaWitness.remove(context.Background(), w.topic)
}

// consumed is a record as sarama gives it to a marshaler.
func consumed(r *kgo.Record) *sarama.ConsumerMessage {
	c := &sarama.ConsumerMessage{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		c.Headers = append(c.Headers, &sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
	}
	return c
}
