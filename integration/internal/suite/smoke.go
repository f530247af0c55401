package suite

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	amqp "github.com/rabbitmq/amqp091-go"
)

// AllBytes is each of the 256 byte values once.
func AllBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// KafkaSmoke checks that a broker gives back what a client put in: value, key and header,
// byte for byte. It returns the topic that it put one record into.
func KafkaSmoke(t *testing.T, addr string) (topic string) {
	ctx := Context(t)
	topic = topicName(t, "smoke")
	client := KafkaClient(t, addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	sent := &kgo.Record{
		Topic: topic, Key: []byte("acme/github"), Value: AllBytes(),
		Headers: []kgo.RecordHeader{{Key: "Mixed-Case", Value: []byte("grüße")}},
	}
	if err := client.ProduceSync(ctx, sent).FirstErr(); err != nil {
		t.Fatal(err)
	}
	got := KafkaRecords(ctx, t, client, 1)[0]
	if !bytes.Equal(got.Value, sent.Value) || string(got.Key) != "acme/github" {
		t.Errorf("got key %q and value %x", got.Key, got.Value)
	}
	if len(got.Headers) != 1 || got.Headers[0].Key != "Mixed-Case" || string(got.Headers[0].Value) != "grüße" {
		t.Errorf("got headers %q", got.Headers)
	}
	return topic
}

// RabbitMQSmoke checks that a node confirms a message on a durable queue and delivers its
// body, properties and header as they were.
func RabbitMQSmoke(t *testing.T, url string) {
	ctx := Context(t)
	channel := AMQPChannel(t, url)
	queue, err := channel.QueueDeclare("smoke-"+t.Name(), true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	AMQPPublish(ctx, t, channel, "", queue.Name, amqp.Publishing{
		MessageId: "m-1", ContentType: "application/json", DeliveryMode: amqp.Persistent,
		Headers: amqp.Table{"Mixed-Case": "grüße"}, Body: AllBytes(),
	})
	got := AMQPDeliveries(ctx, t, channel, queue.Name, 1)[0]
	if !bytes.Equal(got.Body, AllBytes()) {
		t.Errorf("got body %x", got.Body)
	}
	if got.MessageId != "m-1" || got.ContentType != "application/json" || got.DeliveryMode != amqp.Persistent {
		t.Errorf("got id %q, type %q, mode %d", got.MessageId, got.ContentType, got.DeliveryMode)
	}
	if got.Headers["Mixed-Case"] != "grüße" {
		t.Errorf("got headers %v", got.Headers)
	}
}
