package suite

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// A Restarter is a server that can be stopped and started again on its address and data.
type Restarter interface {
	Restart(ctx context.Context) error
}

// Reconnect restarts the server twice under load and checks that every message whose
// Publish returned nil is handled, with its body, by a consumer that nobody helps. It does
// what the test of that name in Watermill's suite does, without that one's limit of a minute
// for 10,000 messages and two restarts.
func Reconnect(t *testing.T, b Broker, server Restarter) {
	ctx := Context(t)
	topic := topicName(t, "load")
	l := newLedger()
	consumer(ctx, t, b, "load", topic, l.handler("consumer"))
	pub := b.Publisher(t)

	const publishers = 20
	n := Count(10000)
	var mu sync.Mutex
	sent := map[string]string{}
	publish := func(from, to int) {
		var wg sync.WaitGroup
		for p := range publishers {
			wg.Go(func() {
				retry := time.NewTicker(100 * time.Millisecond)
				defer retry.Stop()
				for i := from + p; i < to; i += publishers {
					msg := message.NewMessage(envelope.NewID(), fmt.Appendf(nil, "body %d", i))
					for pub.Publish(topic, msg) != nil {
						select {
						case <-retry.C:
						case <-ctx.Done():
							t.Errorf("message %d cannot be published: %v", i, ctx.Err())
							return
						}
					}
					mu.Lock()
					sent[msg.UUID] = string(msg.Payload)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
	}
	for third := range 3 {
		var wg sync.WaitGroup
		if third > 0 {
			wg.Go(func() {
				if err := server.Restart(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		publish(third*n/3, (third+1)*n/3)
		wg.Wait()
	}
	l.until(ctx, t, fmt.Sprintf("%d messages were published", len(sent)), func(int, map[string]int) bool {
		for id, body := range sent { // the ledger's lock is held
			if l.bodies[id] != body {
				return false
			}
		}
		return true
	})
}
