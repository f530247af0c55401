// Package nats runs the flows of NATS on a real one, started for the package's tests and stopped
// after them.
package nats

import (
	"context"
	"os"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/internal/suite/natssuite"
	"github.com/watermill-envelope/envelope/integration/servers"
)

// server is shared by the tests that leave it as it is.
var server *servers.NATS

func TestMain(m *testing.M) {
	var g servers.Group
	g.Add(func(ctx context.Context) (_ servers.Server, err error) {
		server, err = servers.StartNATS(ctx, servers.NATSOptions{})
		return server, err
	})
	os.Exit(g.Run(m))
}

// ownServer is a NATS of the test's own.
func ownServer(t testing.TB, maxPayload int) *servers.NATS {
	t.Helper()
	own, err := servers.StartNATS(suite.Context(t), servers.NATSOptions{MaxPayload: maxPayload})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, own)
	return own
}

func all() natssuite.Servers {
	return natssuite.Servers{
		Addr: server.Addr(),
		Own:  func(t testing.TB, maxPayload int) natssuite.Server { return ownServer(t, maxPayload) },
	}
}

func TestJetStream(t *testing.T) { natssuite.JetStreamFlows(t, all()) }

func TestPull(t *testing.T) { natssuite.PullFlows(t, all()) }

func TestCore(t *testing.T) { natssuite.CoreFlows(t, all()) }

// TestReconnect restarts NATS in good order.
func TestReconnect(t *testing.T) {
	own := ownServer(t, 0)
	suite.Reconnect(t, natssuite.JetStream(own.Addr(), natssuite.Options{}), own)
}

// A kill loses nothing whose Publish returned nil. Doubles are no more than what was in flight: a
// message of each publisher, whose acknowledgement was lost (its retry has the same id, but the
// server may not have it in its window any more), and what was on its way to the consumer.
func TestKilledUnderLoad(t *testing.T) {
	const publishers, pending = 20, 64 // of the flow, and of the consumer
	own := ownServer(t, 0)
	suite.KilledUnderLoad(t, natssuite.JetStream(own.Addr(), natssuite.Options{}), own, publishers+pending)
}

// TestNoGoroutineIsLeft closes a publisher and a subscriber in the middle of their work.
func TestNoGoroutineIsLeft(t *testing.T) {
	ctx := suite.Context(t)
	before := goleak.IgnoreCurrent()
	b := natssuite.JetStream(server.Addr(), natssuite.Options{})
	pub, sub := b.NewPublisher(t), b.NewSubscriber(t, "group")
	messages, err := sub.Subscribe(ctx, "leak")
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := pub.Publish("leak", message.NewMessage("", []byte("body"))); err != nil {
			t.Fatal(err)
		}
	}
	(<-messages).Ack()
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
	if err := pub.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}
