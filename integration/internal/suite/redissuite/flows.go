package redissuite

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
)

// A Server is a Redis that a flow has for itself.
type Server interface {
	suite.Outage
	suite.Restarter
	Addr() string
}

// Servers are what the flows of Redis run on.
type Servers struct {
	// Addr is the Redis that the flows share.
	Addr string
	// Own starts a Redis for one test, and closes it with the test.
	Own func(t testing.TB) Server
	// Embedded runs Watermill's suite with fewer messages, and no outage of streams: miniredis
	// does not answer reads that block any more once it was started again.
	Embedded bool
}

// StreamsFlows runs Watermill's own suite and every flow of ours on streams.
func StreamsFlows(t *testing.T, s Servers) {
	ours, peer := Streams(s.Addr, StreamsOptions{}), StreamsPeer{Addr: s.Addr}
	stock := redisstream.DefaultMarshallerUnmarshaller{}
	for _, f := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"PubSub", func(t *testing.T) {
			suite.PubSub(t, ours, tests.Features{
				ConsumerGroups: true,
				Persistent:     true,
				// A group hands entries to its consumers in turn: order is for one consumer.
				GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true,
				ForceShort: s.Embedded,
			})
		}},
		{"PubSubWithoutGroup", func(t *testing.T) { suite.OldMessages(t, ours) }},
		{"Literal", func(t *testing.T) { StreamsLiteral(t, s.Addr) }},
		{"Foreign", func(t *testing.T) { suite.Foreign(t, ours, peer) }},
		{"ForeignEntries", func(t *testing.T) { ForeignEntries(t, s.Addr) }},
		{"DeadLetters", func(t *testing.T) { suite.DeadLetters(t, ours, peer) }},
		{"Rollover", func(t *testing.T) {
			var opened suite.Opened
			old := Streams(s.Addr, StreamsOptions{Marshaler: stock})
			both := Streams(s.Addr, StreamsOptions{Marshaler: rediswire.Marshaler{
				Source: "suite", Fallback: stock, Observer: &opened,
			}})
			suite.Rollover(t, old, both, &opened, peer)
		}},
		{"Garbage", func(t *testing.T) { suite.Garbage(t, ours, peer, putEntries(t, s.Addr)) }},
		{"Ordering", func(t *testing.T) { suite.Ordering(t, ours) }},
		{"Traces", func(t *testing.T) { suite.Traces(t, ours, peer) }},
		{"LongDiagnostics", func(t *testing.T) { suite.LongDiagnostics(t, ours, peer) }},
	} {
		t.Run(f.name, f.run)
	}
	if !s.Embedded {
		t.Run("PoisonOutage", func(t *testing.T) {
			own := s.Own(t)
			suite.PoisonOutage(t, ours, peer, Streams(own.Addr(), StreamsOptions{}), StreamsPeer{Addr: own.Addr()}, own)
		})
	}
}
