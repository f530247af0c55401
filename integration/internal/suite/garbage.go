package suite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// Garbage mixes as many messages that are random bytes (random text, for a [TextPeer]) with
// good ones of a foreign producer, and checks that each of them is delivered once (what cannot
// be read is not delivered again and again), that each good one is handled, and that the poison
// topic has all of the others, with their bytes. put writes a batch to a topic.
func Garbage(t *testing.T, b Broker, peer Peer, put func(ctx context.Context, topic string, bodies []string) error) {
	body := func(random []byte) string { return string(random) }
	if _, ok := peer.(TextPeer); ok {
		body = randomText
	}
	// A real SQS server takes two minutes for the full count.
	ctx, cancel := context.WithTimeout(t.Context(), 5*Timeout)
	t.Cleanup(cancel)
	topic, poisonTopic := topicName(t, "in"), topicName(t, "poison")
	n := Count(10000)
	poisoned := peer.Watch(ctx, t, poisonTopic)
	poison, err := wmmw.PoisonQueueWithFilter(b.Publisher(t), poisonTopic, hookmw.ShouldPoison)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	handled, delivered := map[string]int{}, 0
	news := make(chan struct{}, 1)
	consumer(ctx, t, b, "garbage", topic, func(msg *message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		handled[msg.UUID]++
		select {
		case news <- struct{}{}:
		default:
		}
		return nil
	}, func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			mu.Lock()
			delivered++
			mu.Unlock()
			return h(msg)
		}
	}, poison, hookmw.Malformed{}.Middleware)

	const seed = 7
	random := rand.NewChaCha8([32]byte{seed})
	bad := map[string]int{}
	var bodies []string
	for i := range n {
		bytes := make([]byte, 1+i%200)
		_, _ = random.Read(bytes) // never fails
		bad[body(bytes)]++
		bodies = append(bodies, body(bytes),
			fmt.Sprintf(`{"v":1,"id":"good-%d","source_id":"s","received_at":1,"size":2,"body_base64":"aGk="}`, i))
	}
	rand.Shuffle(len(bodies), func(i, j int) { bodies[i], bodies[j] = bodies[j], bodies[i] })
	var writing sync.WaitGroup
	t.Cleanup(writing.Wait)
	writing.Go(func() {
		const batch = 100
		for i := 0; i < len(bodies); i += batch {
			if err := put(ctx, topic, bodies[i:min(i+batch, len(bodies))]); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for _, raw := range poisoned(n) {
		bad[string(raw.Body)]--
	}
	for body, left := range bad {
		if left != 0 {
			t.Errorf("%q is in the poison topic %d times less than it was sent", body, left)
		}
	}
	for all := false; !all; {
		mu.Lock()
		all = len(handled) >= n
		mu.Unlock()
		if all {
			break
		}
		select {
		case <-news:
		case <-ctx.Done():
			t.Fatalf("all good messages are handled: %v", ctx.Err())
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for id, times := range handled {
		if times != 1 {
			t.Errorf("%s was handled %d times", id, times)
		}
	}
	if len(handled) != n || delivered != 2*n {
		t.Errorf("%d messages were handled in %d deliveries, want %d in %d", len(handled), delivered, n, 2*n)
	}
}

// randomText makes text of random bytes: characters of JSON, of all widths in UTF-8, and what
// of white space and line ends XML has.
func randomText(random []byte) string {
	alphabet := []rune(`{{{}}[]"":,\\/ vids0123456789.-+eEtrufalsn` + "\t\n\r\u00a0é€\u2028\ud7ff\ufffd😀\U0010fffd")
	var text strings.Builder
	for _, n := range random {
		text.WriteRune(alphabet[int(n)%len(alphabet)])
	}
	return text.String()
}
