package rabbit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// plain is a marshaler of the message's id, type and body, so that a test says on the wire
// what it means.
type plain struct{}

func (plain) Marshal(msg *message.Message) (amqp.Publishing, error) {
	p := amqp.Publishing{
		MessageId: msg.UUID, Type: msg.Metadata["type"], DeliveryMode: amqp.Persistent, Body: msg.Payload,
		Headers: amqp.Table{},
	}
	for name, value := range msg.Metadata {
		if name != "type" {
			p.Headers[name] = value
		}
	}
	return p, nil
}

func (plain) Unmarshal(d amqp.Delivery) (*message.Message, error) {
	msg := message.NewMessage(d.MessageId, d.Body)
	msg.Metadata.Set("type", d.Type)
	for name, value := range d.Headers {
		if text, ok := value.(string); ok {
			msg.Metadata.Set(name, text)
		}
	}
	return msg, nil
}

// publisher is closed with the test.
func publisher(t testing.TB, c rabbitmq.PublisherConfig) *rabbitmq.Publisher {
	t.Helper()
	if c.URI == "" {
		c.URI = rabbitmq.URI(server.URL())
	}
	if c.Marshaler == nil {
		c.Marshaler = plain{}
	}
	pub, err := rabbitmq.NewPublisher(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pub.Close() })
	return pub
}

// subscriber is closed with the test.
func subscriber(t testing.TB, c rabbitmq.SubscriberConfig) *rabbitmq.Subscriber {
	t.Helper()
	if c.URI == "" {
		c.URI = rabbitmq.URI(server.URL())
	}
	if c.Unmarshaler == nil {
		c.Unmarshaler = plain{}
	}
	if c.RetryDelay == 0 {
		c.RetryDelay = 20 * time.Millisecond
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = time.Second
	}
	sub, err := rabbitmq.NewSubscriber(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Close() })
	return sub
}

// queues declares queues of the test's name with these suffixes and returns their names.
func queues(t testing.TB, url string, suffixes ...string) []string {
	t.Helper()
	var topology rabbitmq.Topology
	names := make([]string, len(suffixes))
	for i, suffix := range suffixes {
		names[i] = strings.ReplaceAll(t.Name(), "/", ".") + suffix
		topology.Queues = append(topology.Queues, rabbitmq.Queue{Name: names[i]})
	}
	if err := rabbitmq.EnsureTopology(suite.Context(t), rabbitmq.URI(url), topology); err != nil {
		t.Fatal(err)
	}
	return names
}

func queue(t testing.TB) string {
	t.Helper()
	return queues(t, server.URL(), "")[0]
}

// ids publishes n messages and returns their ids.
func messages(n int) []*message.Message {
	all := make([]*message.Message, n)
	for i := range all {
		all[i] = message.NewMessage(watermill.NewUUID(), fmt.Appendf(nil, "body %d", i))
	}
	return all
}

// receive returns the next message.
func receive(ctx context.Context, t testing.TB, from <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, ok := <-from:
		if !ok {
			t.Fatal("the subscription has ended")
		}
		return msg
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	return nil
}

// take waits for the next message of a queue and acks it.
func take(ctx context.Context, t testing.TB, channel *amqp.Channel, queue string) amqp.Delivery {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		d, ok, err := channel.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return d
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("queue %s: %v", queue, ctx.Err())
		}
	}
}

// count returns how many messages are ready in a queue, over the given channel.
func count(t testing.TB, channel *amqp.Channel, queue string) int {
	t.Helper()
	q, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages
}

// until waits for a condition that something outside brings about.
func until(ctx context.Context, t testing.TB, what string, condition func() bool) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !condition() {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, ctx.Err())
		}
	}
}

var errHandler = errors.New("handler failed")

// text is a table in one form, whatever the order and the location of its times.
func text(t amqp.Table) string {
	utc := amqp.Table{}
	for name, value := range t {
		if at, ok := value.(time.Time); ok {
			value = at.Unix()
		}
		utc[name] = value
	}
	return fmt.Sprintf("%#v", utc)
}
