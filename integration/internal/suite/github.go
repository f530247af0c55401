package suite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	amqptransport "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/peers"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

// A hop is one topic of a broker: what goes in, what a Watermill subscriber gets, and what
// lies on the broker for a client that knows nothing of Watermill.
type hop struct {
	publisher  message.Publisher
	subscriber message.Subscriber
	// values returns the first n values of the topic. It is called after they were published.
	values func(ctx context.Context, n int) [][]byte
}

// KafkaGitHubBodies sends all bodies of [peers.GitHubBodies] through a Kafka broker: a
// handler sees them byte for byte, and both SDKs read them from the topic.
func KafkaGitHubBodies(t *testing.T, addr string) {
	const topic = "github-bodies"
	m := kafkawire.Marshaler{}
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{Brokers: []string{addr}, Marshaler: m}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, publisher)
	config := kafka.DefaultSaramaSubscriberConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: []string{addr}, Unmarshaler: m, ConsumerGroup: topic, OverwriteSaramaConfig: config,
	}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, subscriber)
	githubBodies(t, topic, hop{publisher, subscriber, func(ctx context.Context, n int) (values [][]byte) {
		client := KafkaClient(t, addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		for _, record := range KafkaRecords(ctx, t, client, n) {
			values = append(values, record.Value)
		}
		return values
	}})
}

// RabbitMQGitHubBodies is [KafkaGitHubBodies] for RabbitMQ.
func RabbitMQGitHubBodies(t *testing.T, url string) {
	const topic = "github-bodies"
	config := amqptransport.NewDurablePubSubConfig(url, amqptransport.GenerateQueueNameTopicNameWithSuffix("handler"))
	config.Marshaler = amqpwire.Marshaler{}
	config.Publish.ConfirmDelivery = true
	publisher, err := amqptransport.NewPublisher(config, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, publisher)
	subscriber, err := amqptransport.NewSubscriber(config, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, subscriber)
	if err := subscriber.SubscribeInitialize(topic); err != nil {
		t.Fatal(err)
	}
	channel := AMQPChannel(t, url)
	queue, err := channel.QueueDeclare(topic+".native", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.QueueBind(queue.Name, "", topic, false, nil); err != nil {
		t.Fatal(err)
	}
	githubBodies(t, topic, hop{publisher, subscriber, func(ctx context.Context, n int) (values [][]byte) {
		for _, delivery := range AMQPDeliveries(ctx, t, channel, queue.Name, n) {
			values = append(values, delivery.Body)
		}
		return values
	}})
}

func closeAfter(t *testing.T, c interface{ Close() error }) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func githubBodies(t *testing.T, topic string, h hop) {
	ctx := Context(t)
	received, err := h.subscriber.Subscribe(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*envelope.Envelope{}
	for i, body := range peers.GitHubBodies(t) {
		e := githubHook(i, body)
		if err := h.publisher.Publish(topic, e.Message()); err != nil {
			t.Fatalf("body %d: %v", i, err)
		}
		// What must arrive has what sealing computes.
		sum := sha256.Sum256(body.Body)
		e.Size, e.SHA256 = int64(len(body.Body)), hex.EncodeToString(sum[:])
		e.IdempotencyKey = "acme:github:" + e.DedupeKey
		want[e.ID] = e
	}
	handled := map[string]bool{}
	for len(handled) < len(want) {
		select {
		case msg := <-received:
			if handled[msg.UUID] {
				t.Errorf("%s was delivered twice", msg.UUID)
			}
			handled[msg.UUID] = true
			checkHandled(t, msg, want[msg.UUID])
			msg.Ack()
		case <-ctx.Done():
			t.Fatalf("%d of %d messages: %v", len(handled), len(want), ctx.Err())
		}
	}
	checkValues(t, h.values(ctx, len(want)), want)
}

// githubHook is a body as a receiver of GitHub's webhooks publishes it.
func githubHook(i int, body peers.GitHubBody) *envelope.Envelope {
	delivery := fmt.Sprintf("72d3162e-cc78-11e3-81ab-%012d", i)
	return &envelope.Envelope{
		ID: envelope.NewID(), SourceID: "github", TenantID: "acme",
		ReceivedAt:  time.UnixMilli(time.Now().UnixMilli()),
		ContentType: "application/json",
		Headers: []envelope.Header{
			{Name: "user-agent", Value: "GitHub-Hookshot/044aadd"},
			{Name: "x-github-delivery", Value: delivery},
			{Name: "x-github-event", Value: body.Event},
		},
		Body: body.Body, DedupeKey: delivery,
		Verification: envelope.Verification{Status: envelope.VerificationOK},
	}
}

// checkHandled compares what a handler got with what was sent: the payload, which a handler
// knows, and the whole envelope.
func checkHandled(t *testing.T, msg *message.Message, want *envelope.Envelope) {
	t.Helper()
	if want == nil {
		t.Errorf("%s was never sent", msg.UUID)
		return
	}
	if !bytes.Equal(msg.Payload, want.Body) {
		t.Errorf("%s: a payload of %d bytes is not the body of %d bytes", msg.UUID, len(msg.Payload), len(want.Body))
	}
	got, err := envelope.FromMessage(msg)
	if err != nil {
		t.Errorf("%s: %v", msg.UUID, err)
		return
	}
	checkEnvelope(t, got, want)
}

func checkEnvelope(t *testing.T, got, want *envelope.Envelope) {
	t.Helper()
	same := *got
	if same.ReceivedAt.Equal(want.ReceivedAt) {
		same.ReceivedAt = want.ReceivedAt // whatever its zone
	}
	if len(same.Metadata) == 0 {
		same.Metadata = want.Metadata
	}
	if len(same.Unknown) == 0 {
		same.Unknown = want.Unknown
	}
	if !reflect.DeepEqual(&same, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// checkValues reads what lies on the broker with ParseWire and with both SDKs.
func checkValues(t *testing.T, values [][]byte, want map[string]*envelope.Envelope) {
	t.Helper()
	sdks := []*peers.Peer{peers.Python(t), peers.Rust(t)}
	seen := map[string]bool{}
	for _, value := range values {
		e, err := envelope.ParseWire(value)
		if err != nil {
			t.Errorf("ParseWire: %v", err)
			continue
		}
		sent := want[e.ID]
		if sent == nil || seen[e.ID] {
			t.Errorf("%s was not sent, or lies there twice", e.ID)
			continue
		}
		seen[e.ID] = true
		checkEnvelope(t, e, sent)
		read := peers.Want(sent)
		read["v"] = json.Number("1")
		for _, p := range sdks {
			got, refusal := p.Decode(t, value)
			if refusal != nil {
				t.Errorf("%s refuses %s: %s", p.SDK, e.ID, refusal)
				continue
			}
			for _, line := range p.Diff(got, read) {
				t.Errorf("%s: %s: %s", p.SDK, e.ID, line)
			}
		}
	}
}
