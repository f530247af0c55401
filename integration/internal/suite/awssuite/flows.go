package awssuite

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

// A Server is an SQS that a flow has for itself.
type Server interface {
	suite.Outage
	URL() string
}

// Servers are what the flows run on.
type Servers struct {
	// URL is the endpoint that the flows share.
	URL string
	// Own starts a server for one test, and closes it with the test.
	Own func(t testing.TB) Server
}

// most is how many messages a batch may have.
const most = 10

// soon is the visibility timeout of flows whose handlers fail, or whose subscriptions end with
// messages in hand: the least that a queue can have.
const soon = "1"

// QueueFlows runs Watermill's own suite and every flow of ours on standard queues.
func QueueFlows(t *testing.T, s Servers) {
	ours, impatient, peer := SQS(s.URL, Options{}), SQS(s.URL, Options{Visibility: soon}), Peer{URL: s.URL}
	for _, f := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"PubSub", func(t *testing.T) {
			suite.PubSub(t, impatient, tests.Features{
				// All subscribers of a queue share it.
				ConsumerGroups: false,
				Persistent:     true,
				// Only FIFO queues have an order.
				GuaranteedOrder: false,
				// As watermill-aws runs it: nacks and ends of subscriptions cost a second each.
				ForceShort: true,
			})
		}},
		{"Literal", func(t *testing.T) { Literal(t, s.URL) }},
		{"Foreign", func(t *testing.T) { suite.Foreign(t, ours, peer) }},
		{"ForeignAttributes", func(t *testing.T) { ForeignAttributes(t, s.URL) }},
		{"DeadLetters", func(t *testing.T) { suite.DeadLetters(t, ours, peer) }},
		{"Traces", func(t *testing.T) { suite.Traces(t, ours, peer) }},
		{"LongDiagnostics", func(t *testing.T) { suite.LongDiagnostics(t, ours, peer) }},
		{"PoisonOutage", func(t *testing.T) {
			own := s.Own(t)
			suite.PoisonOutage(t, impatient, peer, SQS(own.URL(), Options{}), Peer{URL: own.URL()}, own)
		}},
		{"Rollover", func(t *testing.T) { Rollover(t, s.URL) }},
		{"Garbage", func(t *testing.T) { suite.Garbage(t, SQS(s.URL, Options{Batch: most}), peer, putAll(t, s.URL)) }},
		{"Unenforced", func(t *testing.T) { Unenforced(t, s.URL) }},
	} {
		t.Run(f.name, f.run)
	}
}

// putAll writes bodies to a queue, ten at a time.
func putAll(t testing.TB, url string) func(context.Context, string, []string) error {
	return func(ctx context.Context, topic string, bodies []string) error {
		q := ensure(ctx, t, url, topic, false)
		for bodies := range slices.Chunk(bodies, most) {
			in := &sqs.SendMessageBatchInput{QueueUrl: q.url}
			for i := range bodies {
				id := fmt.Sprint(i)
				in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: &id, MessageBody: &bodies[i]})
			}
			out, err := q.client.SendMessageBatch(ctx, in)
			if err != nil {
				return err
			}
			if len(out.Successful) != len(bodies) {
				return fmt.Errorf("%d of %d messages were sent: %+v", len(out.Successful), len(bodies), out.Failed)
			}
		}
		return nil
	}
}

// FIFOFlows runs what is special about FIFO queues, on a server that has them in earnest.
func FIFOFlows(t *testing.T, s Servers) {
	ordered := SQS(s.URL, Options{FIFO: true, Visibility: soon})
	t.Run("PubSub", func(t *testing.T) {
		suite.PubSub(t, ordered, tests.Features{
			ConsumerGroups: false, Persistent: true, ForceShort: true,
			// The suite's messages are of one source, and so of one group.
			GuaranteedOrder: true,
		})
	})
	t.Run("Literal", func(t *testing.T) { LiteralFIFO(t, s.URL) })
	t.Run("Ordering", func(t *testing.T) { suite.Ordering(t, ordered) })
	t.Run("Deduplication", func(t *testing.T) { Deduplication(t, s.URL) })
}
