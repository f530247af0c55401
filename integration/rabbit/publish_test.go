package rabbit

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

func TestBatchIsInOrder(t *testing.T) {
	q := queue(t)
	all := messages(500)
	// Less room than messages: the batch waits for its own confirms.
	if err := publisher(t, rabbitmq.PublisherConfig{MaxInFlight: 7}).Publish(q, all...); err != nil {
		t.Fatal(err)
	}
	got := suite.AMQPDeliveries(suite.Context(t), t, suite.AMQPChannel(t, server.URL()), q, len(all))
	for i, d := range got {
		if d.MessageId != all[i].UUID || string(d.Body) != string(all[i].Payload) {
			t.Fatalf("message %d is %s %q, want %s %q", i, d.MessageId, d.Body, all[i].UUID, all[i].Payload)
		}
	}
}

func TestUnroutable(t *testing.T) {
	err := publisher(t, rabbitmq.PublisherConfig{}).Publish("nowhere", messages(1)...)
	var e *bus.Error
	if !errors.As(err, &e) || e.Code != bus.CodeUnroutable || e.RoutingKey != "nowhere" || e.ReplyCode != 312 || e.ReplyText != "NO_ROUTE" {
		t.Errorf("got %v", err)
	}
	if err := publisher(t, rabbitmq.PublisherConfig{AllowUnroutable: true}).Publish("nowhere", messages(1)...); err != nil {
		t.Errorf("allowed: %v", err)
	}
}

// Returns and confirms reach a publisher by two ways. Under load, and for messages that nothing
// tells apart, each return is found before its confirm.
func TestUnroutableUnderLoad(t *testing.T) {
	pub := publisher(t, rabbitmq.PublisherConfig{})
	same := messages(1)[0]
	const n = 500
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			batch := make([]*message.Message, n)
			for i := range batch {
				batch[i] = same
			}
			err := pub.Publish("nowhere", batch...)
			var failed *rabbitmq.BatchError
			if !errors.As(err, &failed) || len(failed.Failed) != n {
				t.Errorf("not all of %d: %v", n, err)
			}
		})
	}
	all.Wait()
}

// A headers exchange routes every second message. The broker does not number what it returns.
func TestUnroutableInABatch(t *testing.T) {
	ctx := suite.Context(t)
	q, exchange := queue(t), t.Name()
	channel := suite.AMQPChannel(t, server.URL())
	if err := channel.ExchangeDeclare(exchange, "headers", false, true, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := channel.QueueBind(q, "", exchange, false, amqp.Table{"x-match": "all", "to": q}); err != nil {
		t.Fatal(err)
	}
	const n = 100
	all := messages(n)
	for i, msg := range all {
		if i%2 == 0 {
			msg.Metadata.Set("to", q)
		}
	}
	err := publisher(t, rabbitmq.PublisherConfig{Exchange: exchange}).Publish("key", all...)
	var batch *rabbitmq.BatchError
	if !errors.As(err, &batch) || batch.Messages != n || len(batch.Failed) != n/2 {
		t.Fatalf("got %v", err)
	}
	for i, f := range batch.Failed {
		if f.Index != 2*i+1 || !errors.Is(f.Err, bus.ErrUnroutable) {
			t.Errorf("failure %d is about message %d: %v", i, f.Index, f.Err)
		}
	}
	for i, d := range suite.AMQPDeliveries(ctx, t, channel, q, n/2) {
		if d.MessageId != all[2*i].UUID {
			t.Errorf("message %d is not the one that was sent", i)
		}
	}
}

// No publish that begins after the queue is gone returns nil.
func TestQueueDeletedWhilePublishing(t *testing.T) {
	q := queue(t)
	channel := suite.AMQPChannel(t, server.URL())
	pub := publisher(t, rabbitmq.PublisherConfig{})
	deleted := make(chan struct{})
	started := make(chan struct{}, 1)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for {
				gone := false
				select {
				case <-deleted:
					gone = true
				default:
				}
				err := pub.Publish(q, messages(1)...)
				switch {
				case err == nil && gone:
					t.Error("published to a queue that was deleted before")
					return
				case errors.Is(err, bus.ErrUnroutable):
					return
				case err != nil:
					t.Errorf("not the error of an unroutable message: %v", err)
					return
				}
				select {
				case started <- struct{}{}:
				default:
				}
			}
		})
	}
	<-started
	if _, err := channel.QueueDelete(q, false, false, false); err != nil {
		t.Fatal(err)
	}
	close(deleted)
	all.Wait()
}

// A queue at its limit refuses messages by a nack.
func TestNackedByTheBroker(t *testing.T) {
	channel := suite.AMQPChannel(t, server.URL())
	q, err := channel.QueueDeclare(t.Name(), true, false, false, false, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	if err != nil {
		t.Fatal(err)
	}
	err = publisher(t, rabbitmq.PublisherConfig{}).Publish(q.Name, messages(3)...)
	var batch *rabbitmq.BatchError
	if !errors.As(err, &batch) || len(batch.Failed) == 0 || batch.Failed[0].Index == 0 {
		t.Fatalf("got %v", err)
	}
	if !errors.Is(err, bus.ErrTransport) || !envelope.IsTransient(err) || !strings.Contains(err.Error(), "nacked") {
		t.Errorf("got %v", err)
	}
	if stored := count(t, channel, q.Name); stored != 3-len(batch.Failed) {
		t.Errorf("%d stored, %d said to have failed", stored, len(batch.Failed))
	}
}

// What is refused before it is sent harms nothing else.
func TestRefusedBeforeSending(t *testing.T) {
	q := queue(t)
	pub := publisher(t, rabbitmq.PublisherConfig{})
	long := strings.Repeat("a", 256)
	with := func(name, value string) *message.Message {
		msg := messages(1)[0]
		msg.Metadata.Set(name, value)
		return msg
	}
	for _, tt := range []struct {
		rule  string
		topic string
		msg   *message.Message
		want  error
	}{
		{"a routing key over 255 bytes", long, messages(1)[0], bus.ErrInvalidTopology},
		{"a routing key that is not UTF-8", "\xff", messages(1)[0], bus.ErrInvalidTopology},
		{"a message id over 255 bytes", q, message.NewMessage(long, nil), bus.ErrInvalidTopology},
		{"a type over 255 bytes", q, with("type", long), bus.ErrInvalidTopology},
		{"a type that is not UTF-8", q, with("type", "\xff"), bus.ErrInvalidTopology},
		{"a header's name over 255 bytes", q, with(long, ""), bus.ErrInvalidTopology},
		{"a header's name that is not UTF-8", q, with("\xff", ""), bus.ErrInvalidTopology},
		{"a content header over the frame size", q, with("big", strings.Repeat("a", 131_072)), envelope.ErrMessageTooLarge},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			good := messages(1)[0]
			err := pub.Publish(tt.topic, good, tt.msg)
			if !errors.Is(err, tt.want) || !envelope.IsPermanent(err) {
				t.Errorf("got %v", err)
			}
		})
	}
	channel := suite.AMQPChannel(t, server.URL())
	if n := count(t, channel, q); n != 0 {
		t.Errorf("%d messages were stored of calls that were refused", n)
	}
	// The largest content header that the broker takes, found by asking for one over it.
	msg := with("big", strings.Repeat("a", 131_064))
	var large *envelope.TooLargeError
	if err := pub.Publish(q, msg); !errors.As(err, &large) {
		t.Fatal(err)
	}
	msg.Metadata.Set("big", strings.Repeat("a", 131_064-int(large.Size-large.Max)))
	if err := pub.Publish(q, msg); err != nil {
		t.Errorf("a content header of %d bytes: %v", large.Max, err)
	}
}

// The broker closes the channel over one message. Those beside it on the channel get through.
func TestRefusedByTheBroker(t *testing.T) {
	q := queue(t)
	pub := publisher(t, rabbitmq.PublisherConfig{MaxChannels: 1})
	const n = 40
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			msg := message.NewMessage(fmt.Sprint(i), []byte("good"))
			if i%20 == 10 {
				msg.Payload = make([]byte, 1<<20+1)
			}
			err := pub.Publish(q, msg)
			if i%20 != 10 {
				if err != nil {
					t.Errorf("message %d: %v", i, err)
				}
				return
			}
			var refusal *amqp.Error
			if !errors.As(err, &refusal) || refusal.Code != amqp.PreconditionFailed || !envelope.IsPermanent(err) {
				t.Errorf("the body over max_message_size: %v", err)
			}
		})
	}
	all.Wait()
	got := map[string]bool{}
	channel := suite.AMQPChannel(t, server.URL())
	for _, d := range suite.AMQPDeliveries(suite.Context(t), t, channel, q, count(t, channel, q)) {
		got[d.MessageId] = true
	}
	if len(got) != n-2 {
		t.Errorf("%d messages are there, want %d", len(got), n-2)
	}
}

func TestMissingExchange(t *testing.T) {
	pub := publisher(t, rabbitmq.PublisherConfig{Exchange: "nowhere"})
	err := pub.Publish("key", messages(1)...)
	var refusal *amqp.Error
	if !errors.As(err, &refusal) || refusal.Code != amqp.NotFound || !envelope.IsTransient(err) {
		t.Fatalf("got %v", err)
	}
	// Once it is there the same publisher works.
	channel := suite.AMQPChannel(t, server.URL())
	if err := channel.ExchangeDeclare("nowhere", "fanout", false, true, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := channel.QueueBind(queue(t), "", "nowhere", false, nil); err != nil {
		t.Fatal(err)
	}
	if err := pub.Publish("key", messages(1)...); err != nil {
		t.Error(err)
	}
}

// Close waits for what was sent: what was said to be published is there, and only that.
func TestPublisherCloseWaits(t *testing.T) {
	q := queue(t)
	pub := publisher(t, rabbitmq.PublisherConfig{})
	if err := pub.Connect(suite.Context(t)); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	published := 0
	under := make(chan struct{}, 1)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for {
				err := pub.Publish(q, messages(1)...)
				if err != nil {
					if !errors.Is(err, rabbitmq.ErrClosed) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				published++
				mu.Unlock()
				select {
				case under <- struct{}{}:
				default:
				}
			}
		})
	}
	<-under
	var closing sync.WaitGroup
	for range 2 { // twice is as good as once
		closing.Go(func() {
			if err := pub.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	closing.Wait()
	all.Wait()
	if stored := count(t, suite.AMQPChannel(t, server.URL()), q); stored != published {
		t.Errorf("%d stored, %d published", stored, published)
	}
}

// However many publish at once, there are no more channels than MaxChannels, and one for who
// publishes alone.
func TestChannelsAreBounded(t *testing.T) {
	ctx := suite.Context(t)
	q := queue(t)
	before, err := server.Ctl(ctx, "list_channels", "pid")
	if err != nil {
		t.Fatal(err)
	}
	pub := publisher(t, rabbitmq.PublisherConfig{MaxChannels: 3})
	for range 10 {
		if err := pub.Publish(q, messages(10)...); err != nil {
			t.Fatal(err)
		}
	}
	alone, err := server.Ctl(ctx, "list_channels", "pid")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(alone, "<") - strings.Count(before, "<"); n != 1 {
		t.Errorf("%d channels for one after the other", n)
	}
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if err := pub.Publish(q, messages(10)...); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	after, err := server.Ctl(ctx, "list_channels", "pid")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(after, "<") - strings.Count(before, "<"); n < 1 || n > 3 {
		t.Errorf("%d channels were opened:\n%s", n, after)
	}
}
