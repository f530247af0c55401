package rabbit

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus/amqpwire"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// Two retries are seen in the numbers of the attempts, and the third failure is the last, also
// on RabbitMQ 4, whose own count starts again with each copy.
func TestAttempts(t *testing.T) { countsAttempts(t, server, 2) }

func TestAttemptsOnRabbitMQ4(t *testing.T) {
	t.Parallel()
	four, err := servers.StartRabbitMQ4(suite.Context(t), servers.RabbitMQOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, four)
	countsAttempts(t, four, 1)
}

// countsAttempts is told what the broker itself counts in the end.
func countsAttempts(t *testing.T, on *servers.RabbitMQ, deaths int64) {
	ctx := suite.Context(t)
	q, dead, uri := queues(t, on.URL(), "")[0], t.Name()+".dead", rabbitmq.URI(on.URL())
	if err := publisher(t, rabbitmq.PublisherConfig{URI: uri}).Publish(q, messages(1)...); err != nil {
		t.Fatal(err)
	}
	in, err := subscriber(t, rabbitmq.SubscriberConfig{URI: uri, MaxAttempts: 3, DeadLetterQueue: dead}).Subscribe(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	for want := int64(1); want <= 3; want++ {
		msg := receive(ctx, t, in)
		if got := rabbitmq.Attempt(msg.Context()); got != want {
			t.Errorf("attempt %d, want %d", got, want)
		}
		msg.Nack()
	}
	channel := suite.AMQPChannel(t, on.URL())
	d := take(ctx, t, channel, dead)
	if d.Headers[amqpwire.HeaderAttempts] != int64(3) {
		t.Errorf("the dead letter says %v", d.Headers)
	}
	events, _ := d.Headers["x-death"].([]any)
	if len(events) == 0 || events[0].(amqp.Table)["queue"] != q+".retry" || events[0].(amqp.Table)["count"] != deaths {
		t.Errorf("x-death is %v", d.Headers["x-death"])
	}
	for _, name := range []string{q, q + ".retry"} {
		if n := count(t, channel, name); n != 0 {
			t.Errorf("%d messages are left in %s", n, name)
		}
	}
}

// Each count alone is enough, whoever kept it: ours is missing after another's retries, and
// the broker's starts again on RabbitMQ 4.
func TestAttemptsOfOthers(t *testing.T) {
	ctx := suite.Context(t)
	q := queue(t)
	deaths := func(queue, reason string, count any) []any {
		return []any{
			amqp.Table{"queue": "another.retry", "reason": "expired", "count": int64(9)},
			amqp.Table{"queue": queue, "reason": reason, "count": count},
		}
	}
	in, err := subscriber(t, rabbitmq.SubscriberConfig{}).Subscribe(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	channel := suite.AMQPChannel(t, server.URL())
	for _, tt := range []struct {
		rule    string
		headers amqp.Table
		want    int64
	}{
		{"none", nil, 1},
		{"ours", amqp.Table{amqpwire.HeaderAttempts: int64(2)}, 3},
		{"ours in another type", amqp.Table{amqpwire.HeaderAttempts: int16(2)}, 3},
		{"ours as text counts nothing", amqp.Table{amqpwire.HeaderAttempts: "2"}, 1},
		{"ours below zero", amqp.Table{amqpwire.HeaderAttempts: int64(-2)}, 1},
		{"ours out of all bounds", amqp.Table{amqpwire.HeaderAttempts: int64(1) << 62}, 1 << 32},
		{"the broker's", amqp.Table{"x-death": deaths(q+".retry", "expired", int64(3))}, 4},
		{"the larger one: the broker's", amqp.Table{amqpwire.HeaderAttempts: int64(1), "x-death": deaths(q+".retry", "expired", int64(3))}, 4},
		{"the larger one: ours", amqp.Table{amqpwire.HeaderAttempts: int64(4), "x-death": deaths(q+".retry", "expired", int64(1))}, 5},
		{"deaths of another queue", amqp.Table{"x-death": deaths(q, "expired", int64(3))}, 1},
		{"deaths of another kind", amqp.Table{"x-death": deaths(q+".retry", "rejected", int64(3))}, 1},
		{"a count of another type", amqp.Table{"x-death": deaths(q+".retry", "expired", int32(3))}, 1},
		{"a count below zero", amqp.Table{"x-death": deaths(q+".retry", "expired", int64(-3))}, 1},
		{"no list", amqp.Table{"x-death": "expired"}, 1},
		{"a list of no tables", amqp.Table{"x-death": []any{int32(1), "expired", nil}}, 1},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			suite.AMQPPublish(ctx, t, channel, "", q, amqp.Publishing{Headers: tt.headers})
			msg := receive(ctx, t, in)
			defer msg.Ack()
			if got := rabbitmq.Attempt(msg.Context()); got != tt.want {
				t.Errorf("attempt %d, want %d", got, tt.want)
			}
		})
	}
}

// A copy has everything that its message has, in the dead-letter queue and after a retry (but
// that the broker takes the expiration from what has expired in the retry queue).
func TestCopies(t *testing.T) {
	t.Run("dead letter", func(t *testing.T) { copies(t, 1, amqp.Table{rabbitmq.HeaderExpiration: "60000"}) })
	t.Run("retry", func(t *testing.T) { copies(t, 2, nil) })
}

func copies(t *testing.T, maxAttempts int, want amqp.Table) {
	ctx := suite.Context(t)
	q := queue(t)
	dead := q + ".dead"
	sent := amqp.Publishing{
		Headers: amqp.Table{
			"text": "t", "int": int32(1), "long": int64(2), "short": int16(3), "byte": byte(4), "bool": true, "float": 1.5,
			"bytes": []byte("b"), "time": time.Unix(5, 0), "nil": nil, "decimal": amqp.Decimal{Scale: 1, Value: 2},
			"table": amqp.Table{"in": int32(6)}, "list": []any{"a", int32(7)},
		},
		ContentType: "application/json", ContentEncoding: "identity", Priority: 3, CorrelationId: "c", ReplyTo: "r",
		Expiration: "60000", MessageId: "m", Timestamp: time.Unix(1_700_000_000, 0), Type: "orders.placed",
		UserId: "guest", AppId: "app", Body: []byte("{\"body\": 1}\n"), DeliveryMode: amqp.Transient,
	}
	channel := suite.AMQPChannel(t, server.URL())
	suite.AMQPPublish(ctx, t, channel, "", q, sent)
	in, err := subscriber(t, rabbitmq.SubscriberConfig{MaxAttempts: maxAttempts, DeadLetterQueue: dead}).Subscribe(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	for range maxAttempts {
		receive(ctx, t, in).Nack()
	}
	got := take(ctx, t, channel, dead)
	if string(got.Body) != string(sent.Body) || got.ContentType != sent.ContentType || got.ContentEncoding != sent.ContentEncoding ||
		got.Priority != sent.Priority || got.CorrelationId != sent.CorrelationId || got.ReplyTo != sent.ReplyTo ||
		got.MessageId != sent.MessageId || !got.Timestamp.Equal(sent.Timestamp) || got.Type != sent.Type || got.AppId != sent.AppId {
		t.Errorf("got %+v", got)
	}
	if got.DeliveryMode != amqp.Persistent || got.Expiration != "" || got.UserId != "" {
		t.Errorf("delivery mode %d, expiration %q, user id %q", got.DeliveryMode, got.Expiration, got.UserId)
	}
	all := amqp.Table{rabbitmq.HeaderUserID: "guest", amqpwire.HeaderAttempts: int64(maxAttempts)}
	maps.Copy(all, sent.Headers)
	maps.Copy(all, want)
	for name := range got.Headers {
		if strings.HasPrefix(name, "x-") {
			delete(got.Headers, name) // the broker's
		}
	}
	if a, b := text(got.Headers), text(all); a != b {
		t.Errorf("headers %s, want %s", a, b)
	}
}

// An error that is permanent needs no second attempt.
func TestPermanentFailure(t *testing.T) {
	ctx := suite.Context(t)
	q, dead := queue(t), t.Name()+".dead"
	if err := publisher(t, rabbitmq.PublisherConfig{}).Publish(q, messages(1)...); err != nil {
		t.Fatal(err)
	}
	in, err := subscriber(t, rabbitmq.SubscriberConfig{DeadLetterQueue: dead}).Subscribe(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	rabbitmq.Nack(receive(ctx, t, in), envelope.Permanent(errHandler))
	if d := take(ctx, t, suite.AMQPChannel(t, server.URL()), dead); d.Headers[amqpwire.HeaderAttempts] != int64(1) {
		t.Errorf("dead after %v", d.Headers)
	}
}

// Without a dead-letter queue what is exhausted is dropped, and the log says so.
func TestExhaustedWithoutADeadLetterQueue(t *testing.T) {
	ctx := suite.Context(t)
	q := queue(t)
	if err := publisher(t, rabbitmq.PublisherConfig{}).Publish(q, message.NewMessage("dropped", nil), message.NewMessage("next", nil)); err != nil {
		t.Fatal(err)
	}
	var log suite.LogBook
	in, err := subscriber(t, rabbitmq.SubscriberConfig{MaxAttempts: 1, Logger: log.Logger()}).Subscribe(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	receive(ctx, t, in).Nack()
	if msg := receive(ctx, t, in); msg.UUID != "next" || !msg.Ack() {
		t.Errorf("got %s", msg.UUID)
	}
	if s := log.String(); !strings.Contains(s, "level=WARN") || !strings.Contains(s, "message_id=dropped") || !strings.Contains(s, "dropped, for") {
		t.Errorf("the log says:\n%s", s)
	}
	channel := suite.AMQPChannel(t, server.URL())
	if n := count(t, channel, q+".retry"); n != 0 {
		t.Errorf("%d messages are to be retried", n)
	}
}

// A body over MaxPayloadBytes reaches no handler. One of exactly so many bytes does.
func TestPoison(t *testing.T) {
	ctx := suite.Context(t)
	channel := suite.AMQPChannel(t, server.URL())
	for _, tt := range []struct {
		name string
		dead bool // a dead-letter queue of ours, and else one of the broker's
	}{{"dead-letter queue", true}, {"rejected", false}} {
		t.Run(tt.name, func(t *testing.T) {
			q := strings.ReplaceAll(t.Name(), "/", ".")
			dead := q + ".dead"
			if _, err := channel.QueueDeclare(dead, true, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := channel.QueueDeclare(q, true, false, false, false, amqp.Table{
				"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead,
			}); err != nil {
				t.Fatal(err)
			}
			if err := publisher(t, rabbitmq.PublisherConfig{}).Publish(q,
				message.NewMessage("large", make([]byte, 101)), message.NewMessage("fits", make([]byte, 100))); err != nil {
				t.Fatal(err)
			}
			c := rabbitmq.SubscriberConfig{MaxPayloadBytes: 100}
			if tt.dead {
				c.DeadLetterQueue = dead
			}
			in, err := subscriber(t, c).Subscribe(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			if msg := receive(ctx, t, in); msg.UUID != "fits" || !msg.Ack() {
				t.Errorf("got %s", msg.UUID)
			}
			d := take(ctx, t, channel, dead)
			if _, rejected := d.Headers["x-death"]; d.MessageId != "large" || len(d.Body) != 101 || rejected == tt.dead {
				t.Errorf("dead is %s with %v", d.MessageId, d.Headers)
			}
		})
	}
}

// The queue for retries, or for dead letters, is deleted while the worker runs: the message is
// rejected, and a dead-letter exchange of its queue catches it.
func TestCopyThatCannotBeRouted(t *testing.T) {
	ctx := suite.Context(t)
	channel := suite.AMQPChannel(t, server.URL())
	for _, tt := range []struct {
		name        string
		suffix      string
		maxAttempts int
	}{{"retry", ".retry", 2}, {"dead letters", ".dead", 1}} {
		t.Run(tt.name, func(t *testing.T) {
			q := queues(t, server.URL(), ".net")[0]
			net := q
			q = strings.TrimSuffix(q, ".net")
			if _, err := channel.QueueDeclare(q, true, false, false, false, amqp.Table{
				"x-dead-letter-exchange": "", "x-dead-letter-routing-key": net,
			}); err != nil {
				t.Fatal(err)
			}
			var log suite.LogBook
			in, err := subscriber(t, rabbitmq.SubscriberConfig{
				MaxAttempts: tt.maxAttempts, DeadLetterQueue: q + ".dead", Logger: log.Logger(),
			}).Subscribe(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := channel.QueueDelete(q+tt.suffix, false, false, false); err != nil {
				t.Fatal(err)
			}
			if err := publisher(t, rabbitmq.PublisherConfig{}).Publish(q, messages(1)...); err != nil {
				t.Fatal(err)
			}
			receive(ctx, t, in).Nack()
			if d := take(ctx, t, channel, net); d.Headers["x-first-death-reason"] != "rejected" {
				t.Errorf("caught with %v", d.Headers)
			}
			if s := log.String(); !strings.Contains(s, "level=ERROR") || !strings.Contains(s, "NO_ROUTE") {
				t.Errorf("the log says:\n%s", s)
			}
		})
	}
}

// A retry queue that was declared with another delay.
func TestRetryQueueOfAnotherDelay(t *testing.T) {
	ctx := suite.Context(t)
	q := queue(t)
	other := subscriber(t, rabbitmq.SubscriberConfig{RetryDelay: 7777 * time.Millisecond})
	if _, err := other.Subscribe(ctx, q); err != nil {
		t.Fatal(err)
	}
	sub := subscriber(t, rabbitmq.SubscriberConfig{RetryDelay: 5 * time.Second})
	_, err := sub.Subscribe(ctx, q)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{q + ".retry", "RetryDelay 5s", "406", "'5000'", "'7777'", "x-message-ttl"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	// It is no harm to the subscriber.
	if _, err := sub.Subscribe(ctx, queues(t, server.URL(), ".other")[0]); err != nil {
		t.Error(err)
	}
}

func TestSubscribeToNothing(t *testing.T) {
	_, err := subscriber(t, rabbitmq.SubscriberConfig{}).Subscribe(suite.Context(t), t.Name())
	if err == nil || !strings.Contains(err.Error(), "404") || !strings.Contains(err.Error(), t.Name()) {
		t.Errorf("got %v", err)
	}
}
