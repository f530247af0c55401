package suite

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

// A KafkaServer is a broker that a flow has for itself.
type KafkaServer interface {
	Outage
	Addr() string
}

// KafkaServers are what the flows of Kafka run on.
type KafkaServers struct {
	// Addr is the broker that the flows share.
	Addr string
	// Own starts a broker for one test, and closes it with the test.
	Own func(t testing.TB) KafkaServer
	// Poison starts a broker, of any kind, that a poison topic lies on.
	Poison func(t testing.TB) (Broker, Peer, Outage)
}

// KafkaFlows runs Watermill's own suite and every flow of ours on Kafka, embedded or real.
func KafkaFlows(t *testing.T, s KafkaServers) {
	peer := KafkaPeer{Addr: s.Addr}
	ours := Kafka(s.Addr, KafkaOptions{})
	parts := Kafka(s.Addr, KafkaOptions{Partitions: 4})
	for _, f := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"PubSub", func(t *testing.T) {
			PubSub(t, parts, tests.Features{
				ConsumerGroups: true,
				Persistent:     true,
				// Order is per lane, and the suite's messages go to several partitions; see
				// the next one.
				GuaranteedOrder: false,
			})
		}},
		{"PubSubOrdered", func(t *testing.T) {
			// One partition: what is one lane is one order.
			PubSub(t, ours, tests.Features{ConsumerGroups: true, Persistent: true, GuaranteedOrder: true})
		}},
		{"PubSubWithoutGroup", func(t *testing.T) { OldMessages(t, ours) }},
		{"Smoke", func(t *testing.T) { KafkaSmoke(t, s.Addr) }},
		{"Literal", func(t *testing.T) { KafkaLiteral(t, s.Addr, ours) }},
		{"Foreign", func(t *testing.T) { Foreign(t, ours, peer) }},
		{"DeadLetters", func(t *testing.T) { DeadLetters(t, ours, peer) }},
		{"PoisonOutage", func(t *testing.T) {
			poison, poisonPeer, outage := s.Poison(t)
			PoisonOutage(t, ours, peer, poison, poisonPeer, outage)
		}},
		{"Rollover", func(t *testing.T) {
			var opened Opened
			stock := Kafka(s.Addr, KafkaOptions{Marshaler: kafka.DefaultMarshaler{}, Partitions: 4})
			both := Kafka(s.Addr, KafkaOptions{Partitions: 4, Marshaler: kafkawire.Marshaler{
				Source: "suite", Fallback: kafka.DefaultMarshaler{}, Observer: &opened,
			}})
			Rollover(t, stock, both, &opened, peer)
		}},
		{"Garbage", func(t *testing.T) { Garbage(t, ours, peer, kafkaPut(t, s.Addr)) }},
		{"Ordering", func(t *testing.T) { Ordering(t, parts) }},
		{"Traces", func(t *testing.T) { Traces(t, ours, peer) }},
		{"LongDiagnostics", func(t *testing.T) { LongDiagnostics(t, ours, peer) }},
		{"ReceiverOutage", func(t *testing.T) {
			own := s.Own(t)
			ReceiverOutage(t, Kafka(own.Addr(), KafkaOptions{}), KafkaPeer{Addr: own.Addr()}, own)
		}},
	} {
		t.Run(f.name, f.run)
	}
}

// kafkaPut writes bodies to a topic.
func kafkaPut(t testing.TB, addr string) func(context.Context, string, []string) error {
	client := KafkaClient(t, addr)
	return func(ctx context.Context, topic string, bodies []string) error {
		records := make([]*kgo.Record, len(bodies))
		for i, body := range bodies {
			records[i] = &kgo.Record{Topic: topic, Value: []byte(body)}
		}
		return client.ProduceSync(ctx, records...).FirstErr()
	}
}
