package awssuite

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

// TopicFlows runs Watermill's own suite and the flows of ours on SNS topics, to which queues
// are subscribed with raw delivery and without.
func TopicFlows(t *testing.T, s Servers) {
	for name, enveloped := range map[string]bool{"Raw": false, "Enveloped": true} {
		t.Run(name, func(t *testing.T) {
			ours, peer := SNS(s.URL, SNSOptions{Enveloped: enveloped}), SNSPeer{Peer: Peer{URL: s.URL}}
			t.Run("Foreign", func(t *testing.T) { suite.Foreign(t, ours, peer) })
			t.Run("DeadLetters", func(t *testing.T) { suite.DeadLetters(t, ours, peer) })
		})
	}
	t.Run("PubSub", func(t *testing.T) {
		suite.PubSub(t, SNS(s.URL, SNSOptions{Visibility: soon}), tests.Features{
			ConsumerGroups: true, // each has a queue
			Persistent:     true,
			// Only FIFO topics have an order.
			GuaranteedOrder: false,
			// As watermill-aws runs it: nacks and ends of subscriptions cost a second each.
			ForceShort: true,
		})
	})
	ours, peer := SNS(s.URL, SNSOptions{}), SNSPeer{Peer: Peer{URL: s.URL}}
	t.Run("PoisonOutage", func(t *testing.T) {
		own := s.Own(t)
		suite.PoisonOutage(t, SNS(s.URL, SNSOptions{Visibility: soon}), peer, SNS(own.URL(), SNSOptions{}), SNSPeer{Peer: Peer{URL: own.URL()}}, own)
	})
	t.Run("Garbage", func(t *testing.T) { suite.Garbage(t, ours, peer, publishAll(t, peer)) })
	t.Run("Literal", func(t *testing.T) { TopicLiteral(t, s.URL) })
	t.Run("BothDeliveries", func(t *testing.T) { BothDeliveries(t, s.URL) })
}

// TopicLiteral checks message by message what a client that is not Watermill receives from a
// queue with raw delivery.
func TopicLiteral(t *testing.T, url string) {
	ctx, topic := suite.Context(t), topicName(t, "literal")
	q := SNSPeer{Peer: Peer{URL: url}}.queue(ctx, t, topic)
	pub := SNS(url, SNSOptions{}).Publisher(t)
	suite.EachLiteral(func(name string, msg *message.Message, json string, headers []suite.Pair) {
		if err := pub.Publish(topic, msg); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := q.next(ctx, t, 1)[0]
		json, attributes := expected(json, headers)
		if *got.Body != json {
			t.Errorf("%s: the body is\n%s\nwant\n%s", name, *got.Body, json)
		}
		if have := values(t, name, got.MessageAttributes); !maps.Equal(have, attributes) {
			t.Errorf("%s: the attributes are\n%q\nwant\n%q", name, have, attributes)
		}
	})
}

// BothDeliveries checks that a topic's message is the same for a group with raw delivery and for
// one without.
func BothDeliveries(t *testing.T, url string) {
	ctx, topic := suite.Context(t), topicName(t, "both")
	var received []<-chan *message.Message
	for group, enveloped := range map[string]bool{"raw": false, "enveloped": true} {
		ch, err := SNS(url, SNSOptions{Enveloped: enveloped}).Subscriber(t, group).Subscribe(ctx, topic)
		if err != nil {
			t.Fatal(err)
		}
		received = append(received, ch)
	}
	pub := SNS(url, SNSOptions{}).Publisher(t)
	suite.EachLiteral(func(name string, msg *message.Message, _ string, _ []suite.Pair) {
		if err := pub.Publish(topic, msg); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []*message.Message
		for _, ch := range received {
			select {
			case msg := <-ch:
				msg.Ack()
				got = append(got, msg)
			case <-ctx.Done():
				t.Fatalf("%s: %v", name, ctx.Err())
			}
			// Each queue has a copy of its own.
			delete(got[len(got)-1].Metadata, "envelope_receipt")
		}
		if !got[0].Equals(got[1]) || got[0].UUID != msg.UUID {
			t.Errorf("%s: got\n%+v and\n%+v", name, got[0], got[1])
		}
	})
}

// publishAll publishes bodies to a topic, nine at a time: goaws takes ten for eleven.
func publishAll(t testing.TB, p SNSPeer) func(context.Context, string, []string) error {
	client := sns.NewFromConfig(Config(p.URL))
	return func(ctx context.Context, topic string, bodies []string) error {
		const most = 9
		for bodies := range slices.Chunk(bodies, most) {
			in := &sns.PublishBatchInput{TopicArn: aws.String(p.arn(ctx, t, topic))}
			for i := range bodies {
				id := fmt.Sprint(i)
				in.PublishBatchRequestEntries = append(in.PublishBatchRequestEntries, snstypes.PublishBatchRequestEntry{Id: &id, Message: &bodies[i]})
			}
			out, err := client.PublishBatch(ctx, in)
			if err != nil {
				return err
			}
			if len(out.Successful) != len(bodies) {
				return fmt.Errorf("%d of %d messages were published: %+v", len(out.Successful), len(bodies), out.Failed)
			}
		}
		return nil
	}
}
