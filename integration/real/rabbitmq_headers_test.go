package real

import (
	"errors"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	amqp3 "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
)

// A quorum queue counts deliveries in an integer header, and the stock marshaler never reads
// the message again after the first Nack.
func TestRabbitMQRedeliveryFromAQuorumQueue(t *testing.T) {
	ctx := suite.Context(t)
	config := amqp3.NewDurableQueueConfig(rabbitmqServer.URL())
	config.Queue.Arguments = amqp.Table{"x-queue-type": "quorum"}
	config.Publish.ConfirmDelivery = true
	config.Marshaler = amqpwire.Marshaler{Source: "suite"}
	pub, err := amqp3.NewPublisher(config, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	sub, err := amqp3.NewSubscriber(config, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	messages, err := sub.Subscribe(ctx, t.Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.Publish(t.Name(), message.NewMessage("again", []byte("body"))); err != nil {
		t.Fatal(err)
	}
	next := func() *message.Message {
		t.Helper()
		select {
		case msg := <-messages:
			return msg
		case <-ctx.Done():
			t.Fatal(ctx.Err())
			return nil
		}
	}
	first := next()
	receipt := first.Metadata[envelope.MetadataReceipt]
	first.Nack()
	second := next()
	defer second.Ack()
	if second.UUID != "again" || string(second.Payload) != "body" {
		t.Errorf("redelivered as %q with body %q", second.UUID, second.Payload)
	}
	if got := second.Metadata["x-delivery-count"]; got != "1" {
		t.Errorf("x-delivery-count is %q, want 1", got)
	}
	if got := second.Metadata[envelope.MetadataReceipt]; got != receipt || got == "" {
		t.Errorf("the receipt of the same copy is %q, was %q", got, receipt)
	}
}

// RabbitMQ tells the story of a dead-lettered message in a table of tables.
func TestRabbitMQReadsDeadLetteredMessages(t *testing.T) {
	ctx := suite.Context(t)
	b, _ := rabbitBroker()
	work, dead := t.Name()+".work", t.Name()+".dead"
	messages, err := b.Subscriber(t, "dead").Subscribe(ctx, dead)
	if err != nil {
		t.Fatal(err)
	}
	channel := suite.AMQPChannel(t, rabbitmqServer.URL())
	if err := channel.ExchangeDeclare(work, "fanout", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare(work, true, false, false, false, amqp.Table{"x-dead-letter-exchange": dead}); err != nil {
		t.Fatal(err)
	}
	if err := channel.QueueBind(work, "", work, false, nil); err != nil {
		t.Fatal(err)
	}
	pub := b.Publisher(t)
	if err := pub.Publish(work, message.NewMessage("dead-1", []byte("body"))); err != nil {
		t.Fatal(err)
	}
	d, ok, err := channel.Get(work, false)
	if err != nil || !ok {
		t.Fatalf("the work queue gave %t, %v", ok, err)
	}
	if err := d.Reject(false); err != nil {
		t.Fatal(err)
	}
	var msg *message.Message
	select {
	case msg = <-messages:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	defer msg.Ack()
	if msg.UUID != "dead-1" || string(msg.Payload) != "body" {
		t.Fatalf("read as %q with body %q", msg.UUID, msg.Payload)
	}
	if story := msg.Metadata["x-death"]; !strings.Contains(story, "rejected") || !strings.Contains(story, work) {
		t.Errorf("x-death is %q, want the reason and the queue", story)
	}

	// Passed on, the broker's own headers are not forged.
	next := suite.AMQPPeer{URL: rabbitmqServer.URL()}.Watch(ctx, t, t.Name()+".next")
	if err := pub.Publish(t.Name()+".next", msg); err != nil {
		t.Fatal(err)
	}
	if got := next(1)[0]; len(got.Names()) == 0 || strings.Contains(strings.Join(got.Names(), " "), "x-death") {
		t.Errorf("passed on with the headers %v", got.Names())
	}
}

// The content header of a message must fit into one frame: at the limit the broker takes it,
// one byte over we refuse it before the broker closes the connection.
func TestRabbitMQContentHeaderLimit(t *testing.T) {
	ctx := suite.Context(t)
	b, peer := rabbitBroker()
	next := peer.Watch(ctx, t, t.Name())
	pub := b.Publisher(t)
	publish := func(pub message.Publisher, lane int) error {
		msg := message.NewMessage("limit", nil)
		msg.Metadata.Set(envelope.MetadataOrderingKey, strings.Repeat("k", lane))
		return pub.Publish(t.Name(), msg)
	}
	var tooLarge *envelope.TooLargeError
	if err := publish(pub, 200_000); !errors.As(err, &tooLarge) {
		t.Fatalf("a lane key of 200,000 bytes: %v, want it refused", err)
	}
	lane := 200_000 - int(tooLarge.Size-tooLarge.Max) // everything else stays the same
	if tooLarge.Max != amqpwire.DefaultFrameMax-8 {
		t.Errorf("the limit is %d, want %d", tooLarge.Max, amqpwire.DefaultFrameMax-8)
	}
	if err := publish(pub, lane+1); !errors.Is(err, envelope.ErrMessageTooLarge) {
		t.Errorf("one byte over: %v, want it refused", err)
	}
	if err := publish(pub, lane); err != nil {
		t.Fatalf("at the limit: %v", err)
	}
	if got, _ := next(1)[0].Header(envelope.MetadataOrderingKey); len(got) != lane {
		t.Errorf("the broker delivered a lane key of %d bytes, want %d", len(got), lane)
	}
	unlimited := suite.RabbitMQ(rabbitmqServer.URL(), suite.RabbitMQOptions{
		Marshaler: amqpwire.Marshaler{Source: "suite", FrameMax: 1 << 20},
	})
	// RabbitMQ lets a frame be larger than agreed by the 8 bytes of an empty one.
	if err := publish(unlimited.Publisher(t), lane+8); err != nil {
		t.Errorf("8 bytes over, past our check: %v, want the broker to be lenient", err)
	}
	if err := publish(unlimited.Publisher(t), lane+9); err == nil || errors.Is(err, envelope.ErrMessageTooLarge) {
		t.Errorf("9 bytes over, past our check: %v, want the broker to refuse it", err)
	}
}
