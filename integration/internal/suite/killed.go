package suite

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// A Killable is a server that can be ended as a crash would, and started again on its data.
type Killable interface {
	Kill() error
	Start(ctx context.Context) error
}

// KilledUnderLoad kills the server twice in the middle of the load of twenty publishers and a
// consumer, and checks that every message whose Publish returned nil is handled, and no more
// than most of them twice for each kill. It logs how many were.
func KilledUnderLoad(t *testing.T, b Broker, server Killable, most int) {
	const publishers, kills = 20, 2
	ctx := Context(t)
	topic := topicName(t, "load")
	var mu sync.Mutex
	handled, total, sent, failures := map[string]int{}, 0, 0, 0
	news := make(chan struct{}, 1)
	consumer(ctx, t, b, "load", topic, func(msg *message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		handled[msg.UUID]++
		total++
		select {
		case news <- struct{}{}:
		default:
		}
		return nil
	})

	pub := b.Publisher(t)
	n := Count(10000)
	var ids []string
	for third := range kills + 1 {
		var all sync.WaitGroup
		middle, once := make(chan struct{}), sync.Once{}
		mu.Lock()
		half := sent + n/(kills+1)/2
		mu.Unlock()
		if third > 0 {
			all.Go(func() {
				<-middle
				if err := errors.Join(server.Kill(), server.Start(ctx)); err != nil {
					t.Error(err)
				}
			})
		}
		for range publishers {
			all.Go(func() {
				retry := time.NewTicker(50 * time.Millisecond)
				defer retry.Stop()
				for range max(2, n/publishers/(kills+1)) {
					msg := message.NewMessage(envelope.NewID(), []byte("body"))
					for pub.Publish(topic, msg) != nil {
						mu.Lock()
						failures++
						mu.Unlock()
						select {
						case <-retry.C:
						case <-ctx.Done():
							t.Error(ctx.Err())
							once.Do(func() { close(middle) })
							return
						}
					}
					mu.Lock()
					ids = append(ids, msg.UUID)
					if sent++; sent >= half {
						once.Do(func() { close(middle) })
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
	}
	for done := false; !done; {
		mu.Lock()
		done = true
		missing := 0
		for _, id := range ids {
			if handled[id] == 0 {
				done = false
				missing++
			}
		}
		mu.Unlock()
		if done {
			break
		}
		select {
		case <-news:
		case <-ctx.Done():
			t.Fatalf("%d of %d messages were not handled: %v", missing, len(ids), ctx.Err())
		}
	}
	mu.Lock()
	defer mu.Unlock()
	duplicates := total - len(handled)
	t.Logf("%d messages, %d failed attempts to publish, %d duplicates", sent, failures, duplicates)
	if duplicates > kills*most {
		t.Errorf("%d duplicates, at most %d were in flight", duplicates, kills*most)
	}
}
