package hexeract

import (
	"errors"
	"reflect"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// retryDelay is long enough for one side to end and the other to start.
const retryDelay = 3 * time.Second

var errHandler = errors.New("told to fail")

func fails(received) error { return errHandler }

// A message that failed in Rust waits in the retry queue that Rust declared, and we read it
// from there with the right attempt and all that was with it.
func TestOursAfterTheirRetry(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		queue := declare(t, suite.AMQPChannel(t, url))
		peer := Start(t, url)
		peer.Work(t, Work{Queue: queue, MaxAttempts: 5, RetryDelayMS: uint64(retryDelay.Milliseconds()), Fail: "fail"})
		headers := map[string]string{"tenant": "acme"}
		id, refusal := peer.Publish(t, Publish{RoutingKey: queue, Message: order("fail"), Headers: headers})
		if refusal != nil {
			t.Fatal(refusal)
		}
		handled := peer.Handled(t)
		if !handled.Failed || handled.MessageID != id {
			t.Fatalf("handled %+v", handled)
		}
		peer.Stop(t) // after its copy to the retry queue is confirmed

		got, _ := consume(t, url, queue, rabbitmq.SubscriberConfig{RetryDelay: retryDelay}, succeed)
		r := next(t, got)
		if r.attempt != 2 || r.envelope.MessageID != id || !reflect.DeepEqual(&r.order, order("fail")) {
			t.Errorf("attempt %d at %+v, want 2 at %s", r.attempt, r.envelope, id)
		}
		if r.envelope.CorrelationID != handled.CorrelationID {
			t.Errorf("chain %s, in Rust it was %s", r.envelope.CorrelationID, handled.CorrelationID)
		}
		for name, value := range headers {
			if r.envelope.Headers[name] != value {
				t.Errorf("header %s is %q, want %q", name, r.envelope.Headers[name], value)
			}
		}
	})
}

// A message that failed here waits in the retry queue that we declared, and Rust reads it
// from there. What fails there as well comes back to us with both attempts counted.
func TestTheirsAfterOurRetry(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		channel := suite.AMQPChannel(t, url)
		queue := declare(t, channel)
		e, err := bus.New(bus.NewID(), order("fail"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := typed(t, publisher(t, url)).PublishEnvelope(suite.Context(t), queue, e); err != nil {
			t.Fatal(err)
		}
		config := rabbitmq.SubscriberConfig{RetryDelay: retryDelay, DeadLetterQueue: queue + ".dead", MaxAttempts: 3}
		ours, stop := consume(t, url, queue, config, fails)
		if r := next(t, ours); r.attempt != 1 {
			t.Fatalf("attempt %d", r.attempt)
		}
		stop()

		peer := Start(t, url)
		peer.Work(t, Work{
			Queue: queue, MaxAttempts: 3, RetryDelayMS: uint64(retryDelay.Milliseconds()),
			DeadLetter: queue + ".dead", Fail: "fail",
		})
		if h := peer.Handled(t); h.MessageID != e.MessageID || h.CorrelationID != e.CorrelationID || !reflect.DeepEqual(&h.Message, order("fail")) {
			t.Errorf("handled %+v, want %s in chain %s", h, e.MessageID, e.CorrelationID)
		}
		peer.Stop(t)

		// RabbitMQ 4 forgets the deaths of a copy that a client made, so that there Rust's
		// attempt is counted by nobody; ours are, and so it ends.
		ours, stop = consume(t, url, queue, config, fails)
		last := next(t, ours)
		if last.attempt != 3 && !(url == rabbitmq4.URL() && last.attempt == 2) {
			t.Errorf("attempt %d after one here and one in Rust", last.attempt)
		}
		if last.attempt == 2 {
			if last = next(t, ours); last.attempt != 3 {
				t.Errorf("attempt %d after two here", last.attempt)
			}
		}
		dead := suite.AMQPDeliveries(suite.Context(t), t, channel, queue+".dead", 1)[0]
		stop()
		if dead.MessageId != e.MessageID.String() || dead.Type != "orders.placed" || string(dead.Body) != orderJSON("fail") {
			t.Errorf("dead letter %+v", dead)
		}
	})
}

// A handler that always fails ends after MaxAttempts on both, although RabbitMQ 4 takes no
// x-death from a client. A type that nothing handles ends at once.
func TestEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		channel := suite.AMQPChannel(t, url)
		queue := declare(t, channel)
		peer := Start(t, url)
		got, stop := consume(t, url, queue, rabbitmq.SubscriberConfig{
			RetryDelay: 100 * time.Millisecond, DeadLetterQueue: queue + ".dead", MaxAttempts: 4,
		}, fails)
		for _, p := range []Publish{
			{Message: order("always")},
			{Raw: &Raw{MessageType: "orders.unknown", Payload: "{}"}},
			{Raw: &Raw{MessageType: "orders.placed", Payload: `{"order_id":"no uuid"}`}},
		} {
			p.RoutingKey = queue
			if _, refusal := peer.Publish(t, p); refusal != nil {
				t.Fatal(refusal)
			}
		}
		attempts := []int64{}
		for range 4 {
			attempts = append(attempts, next(t, got).attempt)
		}
		if want := []int64{1, 2, 3, 4}; !reflect.DeepEqual(attempts, want) {
			t.Errorf("attempts %v, want %v", attempts, want)
		}
		dead := map[string]amqp.Delivery{}
		for _, d := range suite.AMQPDeliveries(suite.Context(t), t, channel, queue+".dead", 3) {
			dead[string(d.Body)] = d
		}
		for _, body := range []string{orderJSON("always"), "{}", `{"order_id":"no uuid"}`} {
			if d, ok := dead[body]; !ok || d.DeliveryMode != amqp.Persistent || d.MessageId == "" {
				t.Errorf("dead letter of %s: %+v", body, d)
			}
		}
		stop()
		if len(got) != 0 {
			t.Errorf("%d more attempts", len(got))
		}
	})
}
