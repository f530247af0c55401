package suite

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A Raw is a message as a client sees it that is not Watermill and not ours.
type Raw struct {
	Key     string // Kafka only
	ID      string // the message_id property, RabbitMQ only
	Headers []Pair // in wire order on Kafka; of a RabbitMQ table only the strings, sorted by nothing
	Body    []byte
}

// A Pair is one header.
type Pair struct{ Name, Value string }

// Header returns the value of the first header of that name and whether there is one.
func (r Raw) Header(name string) (string, bool) {
	for _, h := range r.Headers {
		if h.Name == name {
			return h.Value, true
		}
	}
	return "", false
}

// Names returns the names of the headers in their order.
func (r Raw) Names() []string {
	names := make([]string, len(r.Headers))
	for i, h := range r.Headers {
		names[i] = h.Name
	}
	return names
}

// A Peer reads and writes a server without Watermill.
type Peer interface {
	// Keep makes a topic keep what is published from now on, for a later Watch.
	Keep(t testing.TB, topic string)
	// Watch begins to read a topic, from where Keep was called or from now on where it was
	// not; what it returns waits for the next n messages.
	Watch(ctx context.Context, t testing.TB, topic string) (next func(n int) []Raw)
	// Put writes one message and waits until the server has it.
	Put(ctx context.Context, t testing.TB, topic string, m Raw)
	// Refuse makes the server refuse whatever is published to a topic that was not used
	// before, until allow is called.
	Refuse(ctx context.Context, t testing.TB, topic string) (allow func())
}

// A TextPeer is the [Peer] of a transport that carries text, as XML has it, and no empty
// headers.
type TextPeer interface {
	Peer
	TextOnly()
}

// KafkaPeer is a [Peer] over franz-go. It reads topics from their start.
type KafkaPeer struct{ Addr string }

// Keep implements [Peer]: a log keeps everything.
func (KafkaPeer) Keep(testing.TB, string) {}

// Watch implements [Peer].
func (p KafkaPeer) Watch(ctx context.Context, t testing.TB, topic string) func(int) []Raw {
	t.Helper()
	client := KafkaClient(t, p.Addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	return func(n int) []Raw {
		t.Helper()
		var raws []Raw
		for _, r := range KafkaRecords(ctx, t, client, n) {
			raw := Raw{Key: string(r.Key), Body: r.Value}
			for _, h := range r.Headers {
				raw.Headers = append(raw.Headers, Pair{h.Key, string(h.Value)})
			}
			raws = append(raws, raw)
		}
		return raws
	}
}

// Put implements [Peer].
func (p KafkaPeer) Put(ctx context.Context, t testing.TB, topic string, m Raw) {
	t.Helper()
	record := &kgo.Record{Topic: topic, Value: m.Body}
	if m.Key != "" {
		record.Key = []byte(m.Key)
	}
	for _, h := range m.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
	}
	if err := KafkaClient(t, p.Addr).ProduceSync(ctx, record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// Refuse implements [Peer] by a topic that takes no batch of the size that every batch has.
func (p KafkaPeer) Refuse(ctx context.Context, t testing.TB, topic string) func() {
	t.Helper()
	const limit = "max.message.bytes"
	client := KafkaClient(t, p.Addr)
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{
		Topic: topic, NumPartitions: 1, ReplicationFactor: 1,
		Configs: []kmsg.CreateTopicsRequestTopicConfig{{Name: limit, Value: new("1")}},
	}}
	created, err := create.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(created.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
		alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{
				Name: limit, Op: kmsg.IncrementalAlterConfigOpDelete,
			}},
		}}
		altered, err := alter.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(altered.Resources[0].ErrorCode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// AMQPPeer is a [Peer] over amqp091-go: a topic is a durable fanout exchange of its name.
type AMQPPeer struct{ URL string }

func (p AMQPPeer) exchange(t testing.TB, topic string) *amqp.Channel {
	t.Helper()
	channel := AMQPChannel(t, p.URL)
	if err := channel.ExchangeDeclare(topic, "fanout", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	return channel
}

// Keep implements [Peer] with a durable queue beside the topic's own.
func (p AMQPPeer) Keep(t testing.TB, topic string) { t.Helper(); p.queue(t, topic) }

func (p AMQPPeer) queue(t testing.TB, topic string) (*amqp.Channel, string) {
	t.Helper()
	channel := p.exchange(t, topic)
	queue, err := channel.QueueDeclare(topic+".watch", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.QueueBind(queue.Name, "", topic, false, nil); err != nil {
		t.Fatal(err)
	}
	return channel, queue.Name
}

// Watch implements [Peer].
func (p AMQPPeer) Watch(ctx context.Context, t testing.TB, topic string) func(int) []Raw {
	t.Helper()
	channel, queue := p.queue(t, topic)
	consume, err := channel.ConsumeWithContext(ctx, queue, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(n int) []Raw {
		t.Helper()
		var raws []Raw
		for len(raws) < n {
			select {
			case d, ok := <-consume:
				if !ok {
					t.Fatalf("exchange %s: closed after %d of %d messages", topic, len(raws), n)
				}
				raw := Raw{ID: d.MessageId, Body: d.Body}
				for name, value := range d.Headers {
					if text, ok := value.(string); ok {
						raw.Headers = append(raw.Headers, Pair{name, text})
					}
				}
				raws = append(raws, raw)
			case <-ctx.Done():
				t.Fatalf("exchange %s: %d of %d messages: %v", topic, len(raws), n, ctx.Err())
			}
		}
		return raws
	}
}

// Put implements [Peer].
func (p AMQPPeer) Put(ctx context.Context, t testing.TB, topic string, m Raw) {
	t.Helper()
	publishing := amqp.Publishing{MessageId: m.ID, Body: m.Body, DeliveryMode: amqp.Persistent, Headers: amqp.Table{}}
	for _, h := range m.Headers {
		publishing.Headers[h.Name] = h.Value
	}
	AMQPPublish(ctx, t, p.exchange(t, topic), topic, "", publishing)
}

// Refuse implements [Peer] by a queue that is full.
func (p AMQPPeer) Refuse(_ context.Context, t testing.TB, topic string) func() {
	t.Helper()
	channel := p.exchange(t, topic)
	queue, err := channel.QueueDeclare(topic+".full", true, false, false, false, amqp.Table{
		"x-max-length": 0, "x-overflow": "reject-publish",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.QueueBind(queue.Name, "", topic, false, nil); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := channel.QueueDelete(queue.Name, false, false, false); err != nil {
			t.Fatal(err)
		}
	}
}
