package natssuite

import (
	"context"
	"testing"
	"time"

	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler/natswire"
)

// A Server is a NATS that a flow has for itself.
type Server interface {
	suite.Outage
	suite.Restarter
	Addr() string
}

// Servers are what the flows of NATS run on.
type Servers struct {
	// Addr is the NATS that the flows share.
	Addr string
	// Own starts a NATS for one test, and closes it with the test. maxPayload 0 is the default.
	Own func(t testing.TB, maxPayload int) Server
}

// ackWait is for Watermill's suite, which ends subscriptions that have messages in hand, and waits
// for 15 s until another one gets them.
const ackWait = 4 * time.Second

// JetStreamFlows runs Watermill's own suite and every flow of ours on streams.
func JetStreamFlows(t *testing.T, s Servers) {
	ours, peer := JetStream(s.Addr, Options{}), Peer{Addr: s.Addr}
	for _, f := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"PubSub", func(t *testing.T) {
			suite.PubSub(t, JetStream(s.Addr, Options{AckWait: ackWait}), tests.Features{
				ConsumerGroups: true,
				Persistent:     true,
				// What was nacked comes again behind what was on its way; see the next one.
				GuaranteedOrder: false,
				ForceShort:      true,
			})
		}},
		{"PubSubOrdered", func(t *testing.T) {
			one := JetStream(s.Addr, Options{MaxAckPending: 1, AckWait: ackWait})
			suite.PubSub(t, one, tests.Features{
				ConsumerGroups: true, Persistent: true,
				GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true,
				ForceShort: true,
			})
		}},
		{"PubSubWithoutGroup", func(t *testing.T) { suite.OldMessages(t, ours) }},
		{"Literal", func(t *testing.T) { Literal(t, s.Addr) }},
		{"Foreign", func(t *testing.T) { suite.Foreign(t, ours, peer) }},
		{"DeadLetters", func(t *testing.T) { suite.DeadLetters(t, ours, peer) }},
		{"Traces", func(t *testing.T) { suite.Traces(t, ours, peer) }},
		{"LongDiagnostics", func(t *testing.T) { suite.LongDiagnostics(t, ours, peer) }},
		{"PoisonOutage", func(t *testing.T) {
			own := s.Own(t, 0)
			suite.PoisonOutage(t, ours, peer, JetStream(own.Addr(), Options{}), Peer{Addr: own.Addr()}, own)
		}},
		{"Garbage", func(t *testing.T) { suite.Garbage(t, ours, peer, putAll(t, s.Addr)) }},
		{"Ordering", func(t *testing.T) { suite.Ordering(t, JetStream(s.Addr, Options{MaxAckPending: 1})) }},
		{"Deduplication", func(t *testing.T) { Deduplication(t, s.Addr) }},
		{"MaxPayload", func(t *testing.T) { MaxPayload(t, s.Own(t, maxPayload).Addr()) }},
		{"MaxMsgSize", func(t *testing.T) { MaxMsgSize(t, s.Addr) }},
		{"HeaderBytes", func(t *testing.T) { HeaderBytes(t, s.Addr) }},
	} {
		t.Run(f.name, f.run)
	}
	for name, stock := range map[string]wmnats.MarshalerUnmarshaler{
		"Gob": &wmnats.GobMarshaler{}, "JSON": &wmnats.JSONMarshaler{}, "Headers": &wmnats.NATSMarshaler{},
	} {
		t.Run("Rollover"+name, func(t *testing.T) {
			var opened suite.Opened
			old := JetStream(s.Addr, Options{Marshaler: stock})
			both := JetStream(s.Addr, Options{Marshaler: natswire.Marshaler{
				Source: "suite", Fallback: stock, Observer: &opened,
			}})
			suite.Rollover(t, old, both, &opened, peer)
		})
	}
}

// PullFlows runs those flows on the subscriber of pkg/jetstream that read everything before they
// close it: it panics otherwise.
func PullFlows(t *testing.T, s Servers) {
	ours, peer := Pull(s.Addr, Options{}), Peer{Addr: s.Addr}
	t.Run("Foreign", func(t *testing.T) { suite.Foreign(t, ours, peer) })
	t.Run("DeadLetters", func(t *testing.T) { suite.DeadLetters(t, ours, peer) })
}

// CoreFlows runs those flows on core NATS that need no message to be stored.
func CoreFlows(t *testing.T, s Servers) {
	// TestResendOnError wants again what was nacked, and TestNoAck that nothing comes behind what
	// was not acked, which core NATS does not know of; TestConsumerGroups gives two groups what
	// came before they were there.
	features := tests.Features{ExactlyOnceDelivery: true, RequireSingleInstance: true, GuaranteedOrder: true, ForceShort: true}
	suite.PubSubUnstored(t, Core(s.Addr, Options{}), features, map[string]suite.UnstoredTest{
		"PublishSubscribe":                  tests.TestPublishSubscribe,
		"ConcurrentSubscribe":               tests.TestConcurrentSubscribe,
		"ConcurrentSubscribeMultipleTopics": tests.TestConcurrentSubscribeMultipleTopics,
		"PublishSubscribeInOrder":           tests.TestPublishSubscribeInOrder,
		"PublisherClose":                    tests.TestPublisherClose,
		"Topic":                             tests.TestTopic,
		"MessageCtx":                        tests.TestMessageCtx,
	})
	t.Run("Foreign", func(t *testing.T) { suite.Foreign(t, Core(s.Addr, Options{}), CorePeer{Addr: s.Addr}) })
	t.Run("DeadLetters", func(t *testing.T) { suite.DeadLetters(t, Core(s.Addr, Options{}), CorePeer{Addr: s.Addr}) })
	t.Run("Garbage", func(t *testing.T) {
		suite.Garbage(t, Core(s.Addr, Options{}), CorePeer{Addr: s.Addr}, putCore(t, s.Addr))
	})
	t.Run("Restart", func(t *testing.T) { CoreRestart(t, s.Own(t, 0)) })
}

// putAll writes bodies to a stream, and waits for the server now and then.
func putAll(t testing.TB, addr string) func(context.Context, string, []string) error {
	js := Context(t, addr)
	return func(ctx context.Context, topic string, bodies []string) error {
		for _, body := range bodies {
			if _, err := js.PublishAsync(topic, []byte(body)); err != nil {
				return err
			}
		}
		select {
		case <-js.PublishAsyncComplete():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// putCore publishes bodies on core NATS.
func putCore(t testing.TB, addr string) func(context.Context, string, []string) error {
	conn := Client(t, addr)
	return func(ctx context.Context, topic string, bodies []string) error {
		for _, body := range bodies {
			if err := conn.Publish(topic, []byte(body)); err != nil {
				return err
			}
		}
		return conn.FlushWithContext(ctx)
	}
}

// stored returns how many messages of each subject a stream has.
func stored(t testing.TB, js nats.JetStreamContext, stream string) map[string]uint64 {
	t.Helper()
	info, err := js.StreamInfo(stream, &nats.StreamInfoRequest{SubjectsFilter: ">"})
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Subjects
}
