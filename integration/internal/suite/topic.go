package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
)

// A kafkaSubscriber is Watermill's, except that a topic that it has initialized is served.
//
// Kafka answers that a topic is created before the broker has opened its partitions. On a
// busy machine a producer that starts at once runs out of retries, and sarama then refuses
// the topic for ten seconds (circuit breaker is open).
type kafkaSubscriber struct {
	*kafka.Subscriber
	addr string
}

// SubscribeInitialize creates the topic and waits until its partitions answer.
func (s kafkaSubscriber) SubscribeInitialize(topic string) (err error) {
	if err := s.Subscriber.SubscribeInitialize(topic); err != nil {
		return err
	}
	client, err := sarama.NewClient([]string{s.addr}, sarama.NewConfig())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := served(client, topic)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("topic %s: %w", topic, errors.Join(err, ctx.Err()))
		}
	}
}

// served reports why a partition of the topic does not answer yet.
func served(client sarama.Client, topic string) error {
	partitions, err := client.Partitions(topic)
	for _, partition := range partitions {
		// The offset comes from the partition itself, not from what is known of it.
		_, offsetErr := client.GetOffset(topic, partition, sarama.OffsetNewest)
		err = errors.Join(err, offsetErr)
	}
	return err
}
