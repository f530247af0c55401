package redissuite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// Garbage mixes as many messages that are random bytes with good ones of a foreign producer,
// and checks that each good one is handled once and that the poison topic has all of the others,
// with their bytes. put writes a batch to a topic.
func Garbage(t *testing.T, b suite.Broker, peer suite.Peer, put func(ctx context.Context, topic string, bodies []string) error) {
	ctx := suite.Context(t)
	topic, poisonTopic := topicName(t, "in"), topicName(t, "poison")
	n := suite.Count(10000)
	poisoned := peer.Watch(ctx, t, poisonTopic)
	poison, err := wmmw.PoisonQueueWithFilter(b.Publisher(t), poisonTopic, hookmw.ShouldPoison)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	handled := map[string]int{}
	run(ctx, t, b.NewSubscriber(t, "garbage"), topic, func(msg *message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		handled[msg.UUID]++
		return nil
	}, poison, hookmw.Malformed{}.Middleware)

	const seed = 7
	random := rand.NewChaCha8([32]byte{seed})
	bad := map[string]int{}
	var bodies []string
	for i := range n {
		bytes := make([]byte, 1+i%200)
		_, _ = random.Read(bytes) // never fails
		bad[string(bytes)]++
		bodies = append(bodies, string(bytes),
			fmt.Sprintf(`{"v":1,"id":"good-%d","source_id":"s","received_at":1,"size":2,"body_base64":"aGk="}`, i))
	}
	rand.Shuffle(len(bodies), func(i, j int) { bodies[i], bodies[j] = bodies[j], bodies[i] })
	go func() {
		const batch = 100
		for i := 0; i < len(bodies); i += batch {
			if err := put(ctx, topic, bodies[i:min(i+batch, len(bodies))]); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for _, raw := range poisoned(n) {
		bad[string(raw.Body)]--
	}
	for body, left := range bad {
		if left != 0 {
			t.Errorf("%q is in the poison topic %d times less than it was sent", body, left)
		}
	}
	until(ctx, t, "all good messages are handled", func() bool { mu.Lock(); defer mu.Unlock(); return len(handled) >= n })
	mu.Lock()
	defer mu.Unlock()
	for id, times := range handled {
		if times != 1 {
			t.Errorf("%s was handled %d times", id, times)
		}
	}
	if len(handled) != n {
		t.Errorf("%d messages were handled, want %d", len(handled), n)
	}
}

// putEntries writes bodies to a stream.
func putEntries(t testing.TB, addr string) func(context.Context, string, []string) error {
	client := Client(t, addr)
	return func(ctx context.Context, topic string, bodies []string) error {
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, body := range bodies {
				p.XAdd(ctx, &redis.XAddArgs{Stream: topic, Values: []any{"payload", body, "n", i}})
			}
			return nil
		})
		return err
	}
}

// putMessages writes bodies to a channel.
func putMessages(t testing.TB, addr string) func(context.Context, string, []string) error {
	client := Client(t, addr)
	return func(ctx context.Context, topic string, bodies []string) error {
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, body := range bodies {
				p.Publish(ctx, topic, body)
			}
			return nil
		})
		return err
	}
}
