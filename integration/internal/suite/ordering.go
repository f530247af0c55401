package suite

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// Ordering checks that eight lanes stay in order for one consumer whose handler fails now and
// then, on a broker that has the settings that its documentation names for it.
func Ordering(t *testing.T, b Broker) {
	const lanes = 8
	ctx := Context(t)
	each := Count(500)
	topic := topicName(t, "lanes")
	var mu sync.Mutex
	seen, failed := map[string][]string{}, map[string]bool{}
	total, done := 0, make(chan struct{})
	consumer(ctx, t, b, "one", topic, func(msg *message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if total%17 == 3 && !failed[msg.UUID] {
			failed[msg.UUID] = true
			return errors.New("now and then")
		}
		lane := msg.Metadata[envelope.MetadataOrderingKey]
		seen[lane] = append(seen[lane], string(msg.Payload))
		if total++; total == lanes*each {
			close(done)
		}
		return nil
	})
	pub := b.Publisher(t)
	for i := range each {
		for lane := range lanes {
			msg := message.NewMessage(envelope.NewID(), fmt.Append(nil, i))
			msg.Metadata.Set(envelope.MetadataOrderingKey, fmt.Sprint(lane))
			if err := pub.Publish(topic, msg); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	mu.Lock()
	defer mu.Unlock()
	if len(failed) == 0 {
		t.Error("no handler failed")
	}
	for lane := range lanes {
		got := seen[fmt.Sprint(lane)]
		for i := range each {
			if i >= len(got) || got[i] != fmt.Sprint(i) {
				t.Fatalf("lane %d is in the order %v", lane, got)
			}
		}
	}
}
