package suite

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Timeout bounds every wait of a flow for something that must happen. It is for a machine
// with far too much to do: no flow waits for it to pass.
const Timeout = 2 * time.Minute

// Context returns a context that ends with the test or after [Timeout].
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	t.Cleanup(cancel)
	return ctx
}

// KafkaClient returns a Kafka client that knows nothing of Watermill, closed with the test.
// It creates topics by using them.
func KafkaClient(t testing.TB, addr string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addr),
		kgo.AllowAutoTopicCreation(),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// KafkaRecords reads n records with the client, in the order in which it gets them.
func KafkaRecords(ctx context.Context, t testing.TB, client *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	var records []*kgo.Record
	for len(records) < n {
		fetches := client.PollRecords(ctx, n-len(records))
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d of %d records: %v", len(records), n, err)
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			t.Fatalf("fetch %s/%d: %v", topic, partition, err)
		})
		records = append(records, fetches.Records()...)
	}
	return records
}

// AMQPChannel returns a channel with publisher confirms on a connection of its own that
// knows nothing of Watermill, closed with the test.
func AMQPChannel(t testing.TB, url string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the test may have stopped the server
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return channel
}

// AMQPPublish publishes and waits for the broker's confirm.
func AMQPPublish(ctx context.Context, t testing.TB, channel *amqp.Channel, exchange, key string, p amqp.Publishing) {
	t.Helper()
	confirm, err := channel.PublishWithDeferredConfirmWithContext(ctx, exchange, key, false, false, p)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
		t.Fatalf("publish to %q with key %q: confirmed %t, %v", exchange, key, ok, err)
	}
}

// AMQPDeliveries acknowledges and returns the next n deliveries of a queue.
func AMQPDeliveries(ctx context.Context, t testing.TB, channel *amqp.Channel, queue string, n int) []amqp.Delivery {
	t.Helper()
	consume, err := channel.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []amqp.Delivery
	for len(got) < n {
		select {
		case d, ok := <-consume:
			if !ok {
				t.Fatalf("queue %s closed after %d of %d deliveries", queue, len(got), n)
			}
			if err := d.Ack(false); err != nil {
				t.Fatal(err)
			}
			got = append(got, d)
		case <-ctx.Done():
			t.Fatalf("queue %s: %d of %d deliveries: %v", queue, len(got), n, ctx.Err())
		}
	}
	return got
}
