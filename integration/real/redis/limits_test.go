package redis

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	goredis "github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/internal/suite/redissuite"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
)

// What Redis itself takes: each name and each value may have proto-max-bulk-len, no more.
func TestRedisCountsEachBulk(t *testing.T) {
	ctx := suite.Context(t)
	client := redissuite.Client(t, server.Addr())
	for _, c := range []struct {
		rule   string
		fields []any
		ok     bool
	}{
		{"a value of the limit", []any{"payload", make([]byte, maxBulk)}, true},
		{"two values of the limit", []any{"payload", make([]byte, maxBulk), "meta:a", make([]byte, maxBulk)}, true},
		{"a name of the limit", []any{strings.Repeat("n", maxBulk), ""}, true},
		{"a value of one byte more", []any{"payload", make([]byte, maxBulk+1)}, false},
		{"a name of one byte more", []any{strings.Repeat("n", maxBulk+1), ""}, false},
	} {
		err := client.XAdd(ctx, &goredis.XAddArgs{Stream: t.Name(), Values: c.fields}).Err()
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.rule, err)
		}
	}
}

// sized returns a message that takes as much as the marshaler counts for n.
func sized(t testing.TB, m marshaler.Sealer, n int) *message.Message {
	t.Helper()
	msg := message.NewMessage("limit", []byte("body"))
	msg.Metadata.Set(envelope.MetadataReceivedAt, "1737500000000")
	msg.Metadata.Set("note", "")
	prepared, err := m.Prepare("t", msg)
	if err != nil {
		t.Fatal(err)
	}
	inline, _, _ := m.Size("t", prepared, "")
	msg.Metadata.Set("note", strings.Repeat("n", n-int(inline)))
	return msg
}

// An entry may have proto-max-bulk-len in all by our count, which is on the safe side: Redis
// would take that much for each field.
func TestStreamLimit(t *testing.T) {
	ctx := suite.Context(t)
	m := rediswire.Marshaler{Source: "suite"}
	pub := redissuite.Streams(server.Addr(), redissuite.StreamsOptions{}).Publisher(t)
	client := redissuite.Client(t, server.Addr())
	for n, ok := range map[int]bool{maxBulk - 1: true, maxBulk: true, maxBulk + 1: false} {
		err := pub.Publish(t.Name(), sized(t, m, n))
		var tooLarge *envelope.TooLargeError
		if ok && err != nil || !ok && (!errors.As(err, &tooLarge) || tooLarge.Size != int64(n) || tooLarge.Max != maxBulk) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	entries, err := client.XRange(ctx, t.Name(), "-", "+").Result()
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for _, e := range entries {
		n := 0
		for name, value := range e.Values {
			n += len(name) + len(value.(string))
		}
		if n != maxBulk && n != maxBulk-1 {
			t.Errorf("an entry has %d bytes", n)
		}
	}
}

// On a channel our count is that of Redis, to the byte: what we would send with a larger limit
// it refuses, as a permanent error, and the client can be used again.
func TestChannelLimit(t *testing.T) {
	ctx := suite.Context(t)
	topic := t.Name()
	got := (&redissuite.PubSubPeer{Addr: server.Addr()}).Watch(ctx, t, topic)
	m := rediswire.PubSubMarshaler{Source: "suite"}
	pub := redissuite.PubSub(server.Addr(), redissuite.PubSubOptions{}).Publisher(t)
	for n, ok := range map[int]bool{maxBulk - 1: true, maxBulk: true, maxBulk + 1: false} {
		err := pub.Publish(topic, sized(t, m, n))
		var tooLarge *envelope.TooLargeError
		if ok && err != nil || !ok && !errors.As(err, &tooLarge) {
			t.Errorf("%d bytes: %v", n, err)
		}
		if ok {
			if raw := got(1)[0]; len(raw.Body) != n || !bytes.HasPrefix(raw.Body, []byte(`{"v":1,`)) {
				t.Errorf("%d bytes arrived as %d", n, len(raw.Body))
			}
		}
	}
	m.MaxMessageBytes = 2 * maxBulk
	beyond := redissuite.PubSub(server.Addr(), redissuite.PubSubOptions{Marshaler: m}).Publisher(t)
	if err := beyond.Publish(topic, sized(t, m, maxBulk+1)); err == nil {
		t.Error("Redis takes a byte more")
	} else {
		t.Logf("past our check: %v (permanent: %v)", err, envelope.IsPermanent(err))
	}
	if err := beyond.Publish(topic, sized(t, m, maxBulk)); err != nil {
		t.Errorf("after that: %v", err)
	}
}
