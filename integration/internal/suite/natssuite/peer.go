package natssuite

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

// idHeader is the header in which a peer writes the id of a message: a foreign producer may
// call it anything.
const idHeader = "message_id"

// Client returns a connection that knows nothing of Watermill, closed with the test.
func Client(t testing.TB, addr string) *nats.Conn {
	t.Helper()
	conn := connect(t, addr)
	t.Cleanup(conn.Close)
	return conn
}

// Context returns JetStream on a connection that is closed with the test.
func Context(t testing.TB, addr string) nats.JetStreamContext {
	t.Helper()
	return newStreams(t, Client(t, addr)).js
}

func raw(msg *nats.Msg) suite.Raw {
	r := suite.Raw{Body: msg.Data, ID: msg.Header.Get(idHeader)}
	for name, values := range msg.Header {
		for _, value := range values {
			if name != idHeader {
				r.Headers = append(r.Headers, suite.Pair{Name: name, Value: value})
			}
		}
	}
	return r
}

func natsMsg(topic string, m suite.Raw) *nats.Msg {
	msg := &nats.Msg{Subject: topic, Data: m.Body, Header: nats.Header{}}
	if m.ID != "" {
		msg.Header[idHeader] = []string{m.ID}
	}
	for _, h := range m.Headers {
		msg.Header[h.Name] = append(msg.Header[h.Name], h.Value)
	}
	return msg
}

// next returns what waits for the next n messages of sub.
func next(ctx context.Context, t testing.TB, sub *nats.Subscription) func(int) []suite.Raw {
	return func(n int) []suite.Raw {
		t.Helper()
		var raws []suite.Raw
		for len(raws) < n {
			msg, err := sub.NextMsgWithContext(ctx)
			if err != nil {
				t.Fatalf("%s: %d of %d messages: %v", sub.Subject, len(raws), n, err)
			}
			raws = append(raws, raw(msg))
		}
		return raws
	}
}

// A Peer is a [suite.Peer] that writes and reads streams with nats.go alone.
type Peer struct{ Addr string }

// ensure makes the stream of a topic.
func (p Peer) ensure(t testing.TB, topic string) nats.JetStreamContext {
	t.Helper()
	s := newStreams(t, Client(t, p.Addr))
	if _, err := s.ensure(topic); err != nil {
		t.Fatal(err)
	}
	return s.js
}

// Keep implements [suite.Peer]: a stream keeps everything.
func (p Peer) Keep(t testing.TB, topic string) { t.Helper(); p.ensure(t, topic) }

// Watch implements [suite.Peer]. It reads a topic from its start.
func (p Peer) Watch(ctx context.Context, t testing.TB, topic string) func(int) []suite.Raw {
	t.Helper()
	js := p.ensure(t, topic)
	sub, err := js.SubscribeSync(topic, nats.OrderedConsumer())
	if err != nil {
		t.Fatal(err)
	}
	return next(ctx, t, sub)
}

// Put implements [suite.Peer].
func (p Peer) Put(ctx context.Context, t testing.TB, topic string, m suite.Raw) {
	t.Helper()
	js := p.ensure(t, topic)
	if _, err := js.PublishMsg(natsMsg(topic, m), nats.Context(ctx)); err != nil {
		t.Fatal(err)
	}
}

// Refuse implements [suite.Peer] by a stream whose messages may have one byte.
func (p Peer) Refuse(_ context.Context, t testing.TB, topic string) func() {
	t.Helper()
	js := Context(t, p.Addr)
	config := &nats.StreamConfig{Name: named(topic), Subjects: []string{topic}, Storage: nats.FileStorage, MaxMsgSize: 1}
	if _, err := js.AddStream(config); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		config.MaxMsgSize = -1
		if _, err := js.UpdateStream(config); err != nil {
			t.Fatal(err)
		}
	}
}

// A CorePeer publishes and subscribes on core NATS with nats.go alone.
type CorePeer struct{ Addr string }

// Keep implements [suite.Peer]. It cannot: watch first.
func (CorePeer) Keep(testing.TB, string) {}

// Watch implements [suite.Peer].
func (p CorePeer) Watch(ctx context.Context, t testing.TB, topic string) func(int) []suite.Raw {
	t.Helper()
	conn := Client(t, p.Addr)
	sub, err := conn.SubscribeSync(topic)
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	if err := conn.FlushTimeout(suite.Timeout); err != nil {
		t.Fatal(err)
	}
	return next(ctx, t, sub)
}

// Put implements [suite.Peer].
func (p CorePeer) Put(_ context.Context, t testing.TB, topic string, m suite.Raw) {
	t.Helper()
	conn := Client(t, p.Addr)
	if err := conn.PublishMsg(natsMsg(topic, m)); err != nil {
		t.Fatal(err)
	}
	if err := conn.FlushTimeout(suite.Timeout); err != nil {
		t.Fatal(err)
	}
}

// Refuse implements [suite.Peer]. A server of core NATS takes whatever its limits allow.
func (CorePeer) Refuse(_ context.Context, t testing.TB, _ string) func() {
	t.Helper()
	t.Fatal("core NATS refuses nothing")
	return nil
}
