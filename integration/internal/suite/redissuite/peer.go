package redissuite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

// blockTime is how long one read of a stream waits: the client does not heed a context then.
const blockTime = 100 * time.Millisecond

// idField is the field in which a [StreamsPeer] writes the id of a message: a foreign producer
// may call it anything.
const idField = "message_id"

// StreamsPeer is a [suite.Peer] that writes and reads entries with go-redis alone. It writes
// headers as fields of their names, and reads fields with "meta:" as headers without it.
type StreamsPeer struct{ Addr string }

// Keep implements [suite.Peer]: a stream keeps everything.
func (StreamsPeer) Keep(testing.TB, string) {}

// Watch implements [suite.Peer]. It reads a stream from its start.
func (p StreamsPeer) Watch(ctx context.Context, t testing.TB, topic string) func(int) []suite.Raw {
	t.Helper()
	client, last := Client(t, p.Addr), "0"
	return func(n int) []suite.Raw {
		t.Helper()
		var raws []suite.Raw
		for len(raws) < n {
			streams, err := client.XRead(ctx, &redis.XReadArgs{
				Streams: []string{topic, last}, Count: int64(n - len(raws)), Block: blockTime,
			}).Result()
			if err != nil && !errors.Is(err, redis.Nil) || ctx.Err() != nil {
				t.Fatalf("stream %s: %d of %d entries: %v, %v", topic, len(raws), n, err, ctx.Err())
			}
			for _, s := range streams {
				for _, entry := range s.Messages {
					last = entry.ID
					raws = append(raws, raw(entry))
				}
			}
		}
		return raws
	}
}

func raw(entry redis.XMessage) suite.Raw {
	var r suite.Raw
	for name, value := range entry.Values {
		switch name {
		case "payload":
			r.Body = []byte(value.(string))
		case idField:
			r.ID = value.(string)
		default:
			r.Headers = append(r.Headers, suite.Pair{Name: strings.TrimPrefix(name, "meta:"), Value: value.(string)})
		}
	}
	return r
}

// Put implements [suite.Peer].
func (p StreamsPeer) Put(ctx context.Context, t testing.TB, topic string, m suite.Raw) {
	t.Helper()
	fields := []any{"payload", m.Body}
	if m.ID != "" {
		fields = append(fields, idField, m.ID)
	}
	for _, h := range m.Headers {
		fields = append(fields, h.Name, h.Value)
	}
	if err := Client(t, p.Addr).XAdd(ctx, &redis.XAddArgs{Stream: topic, Values: fields}).Err(); err != nil {
		t.Fatal(err)
	}
}

// Refuse implements [suite.Peer] by a key of that name that is no stream.
func (p StreamsPeer) Refuse(ctx context.Context, t testing.TB, topic string) func() {
	t.Helper()
	client := Client(t, p.Addr)
	if err := client.Set(ctx, topic, "no stream", 0).Err(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := client.Del(ctx, topic).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// PubSubPeer is a [suite.Peer] that publishes and subscribes with go-redis alone. Channels
// carry neither ids nor headers.
type PubSubPeer struct {
	Addr string

	mu   sync.Mutex
	kept map[string]<-chan *redis.Message
}

// Keep implements [suite.Peer] by subscribing.
func (p *PubSubPeer) Keep(t testing.TB, topic string) {
	t.Helper()
	ch := p.subscribe(t, topic)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == nil {
		p.kept = map[string]<-chan *redis.Message{}
	}
	p.kept[topic] = ch
}

func (p *PubSubPeer) subscribe(t testing.TB, topic string) <-chan *redis.Message {
	t.Helper()
	pubsub := Client(t, p.Addr).Subscribe(t.Context(), topic)
	t.Cleanup(func() { _ = pubsub.Close() })
	if _, err := pubsub.Receive(t.Context()); err != nil { // the confirmation
		t.Fatal(err)
	}
	const more = 100_000 // than any flow sends
	return pubsub.Channel(redis.WithChannelSize(more))
}

// Watch implements [suite.Peer].
func (p *PubSubPeer) Watch(ctx context.Context, t testing.TB, topic string) func(int) []suite.Raw {
	t.Helper()
	p.mu.Lock()
	ch, ok := p.kept[topic]
	p.mu.Unlock()
	if !ok {
		ch = p.subscribe(t, topic)
	}
	return func(n int) []suite.Raw {
		t.Helper()
		var raws []suite.Raw
		for len(raws) < n {
			select {
			case m, ok := <-ch:
				if !ok {
					t.Fatalf("channel %s: closed after %d of %d messages", topic, len(raws), n)
				}
				raws = append(raws, suite.Raw{Body: []byte(m.Payload)})
			case <-ctx.Done():
				t.Fatalf("channel %s: %d of %d messages: %v", topic, len(raws), n, ctx.Err())
			}
		}
		return raws
	}
}

// Put implements [suite.Peer]: somebody has to be subscribed.
func (p *PubSubPeer) Put(ctx context.Context, t testing.TB, topic string, m suite.Raw) {
	t.Helper()
	n, err := Client(t, p.Addr).Publish(ctx, topic, m.Body).Result()
	if err == nil && n == 0 {
		err = fmt.Errorf("nobody is subscribed to %s", topic)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Refuse implements [suite.Peer]: without a subscriber the publisher has an error.
func (p *PubSubPeer) Refuse(_ context.Context, t testing.TB, topic string) func() {
	return func() { t.Helper(); p.subscribe(t, topic) }
}
