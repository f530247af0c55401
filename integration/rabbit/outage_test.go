package rabbit

import (
	"fmt"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// outageServer is one that a test may stop.
func outageServer(t *testing.T) *servers.RabbitMQ {
	t.Helper()
	s, err := servers.StartRabbitMQ(suite.Context(t), servers.RabbitMQOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, s)
	return s
}

// Publisher and worker under load while the broker is restarted twice: every message whose
// Publish returned nil is handled.
func TestReconnect(t *testing.T) {
	t.Parallel()
	s := outageServer(t)
	suite.Reconnect(t, broker(s.URL()), s)
}

// The broker is stopped, and later killed, and started again under load. No Publish fails,
// nothing is lost, and what is there twice was on its way when the broker went away.
func TestOutage(t *testing.T) {
	t.Parallel()
	ctx := suite.Context(t)
	s := outageServer(t)
	q := queues(t, s.URL(), "")[0]
	pub := publisher(t, rabbitmq.PublisherConfig{URI: rabbitmq.URI(s.URL()), PublishTimeout: suite.Timeout})

	// In each part every message is on its way at once, or waits for room.
	const publishers = 50
	batch := suite.Count(10_000 / publishers)
	n := batch * publishers
	var mu sync.Mutex
	waiting := map[string]bool{}   // their Publish has not returned
	uncertain := map[string]bool{} // they were waiting during an outage
	down := false
	begin := func(all []*message.Message) {
		mu.Lock()
		defer mu.Unlock()
		for _, msg := range all {
			waiting[msg.UUID] = true
			if down {
				uncertain[msg.UUID] = true
			}
		}
	}
	end := func(all []*message.Message) {
		mu.Lock()
		defer mu.Unlock()
		for _, msg := range all {
			delete(waiting, msg.UUID)
		}
	}
	outage := func(stop func() error) {
		mu.Lock()
		down = true
		for id := range waiting {
			uncertain[id] = true
		}
		mu.Unlock()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := s.Start(ctx); err != nil {
			t.Error(err)
		}
		mu.Lock()
		down = false
		mu.Unlock()
	}
	publish := func(from int) {
		work := make(chan []*message.Message)
		var all sync.WaitGroup
		for range publishers {
			all.Go(func() {
				for some := range work {
					begin(some)
					if err := pub.Publish(q, some...); err != nil {
						t.Error(err)
					}
					end(some)
				}
			})
		}
		for to := from + n; from < to; from += batch {
			some := make([]*message.Message, batch)
			for i := range some {
				some[i] = message.NewMessage(fmt.Sprint(from+i), []byte("body"))
			}
			work <- some
		}
		close(work)
		all.Wait()
	}
	publish(0) // and confirmed
	for part, stop := range []func() error{s.Stop, s.Kill} {
		var outages sync.WaitGroup
		outages.Go(func() { outage(stop) })
		publish((part + 1) * n)
		outages.Wait()
	}

	channel := suite.AMQPChannel(t, s.URL())
	got := map[string]int{}
	for _, d := range suite.AMQPDeliveries(ctx, t, channel, q, count(t, channel, q)) {
		got[d.MessageId]++
	}
	twice := 0
	for i := range 3 * n {
		switch id := fmt.Sprint(i); {
		case got[id] == 0:
			t.Errorf("message %s is lost", id)
		case got[id] > 1:
			twice++
			if !uncertain[id] {
				t.Errorf("message %s is there %d times, and was confirmed before", id, got[id])
			}
		}
	}
	t.Logf("%d messages, %d of them uncertain, %d there more than once", 3*n, len(uncertain), twice)
	if len(uncertain) == 0 || len(uncertain) > 2*n {
		t.Error("the outages met none of the messages, or all")
	}
}
