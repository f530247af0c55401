package natssuite

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope"
)

// topicName is a topic of the test's own, and of this run of it.
func topicName(t testing.TB, suffix string) string {
	return strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()) + "." + envelope.NewID() + "." + suffix
}

// named is a topic as the name of a stream or a consumer, which have no dots.
func named(topic string) string {
	return strings.NewReplacer(".", "_", ">", "all", "*", "any").Replace(topic)
}

// durable is the name of a group's consumer of a topic.
func durable(group, topic string) string { return group + "_" + named(topic) }

// streams make streams and consumers where they are missing.
type streams struct {
	js nats.JetStreamContext
}

func newStreams(t testing.TB, conn *nats.Conn) *streams {
	t.Helper()
	js, err := conn.JetStream(publishWait)
	if err != nil {
		t.Fatal(err)
	}
	return &streams{js}
}

// ensure returns the name of the stream that stores a topic.
func (s *streams) ensure(topic string) (string, error) {
	name, err := s.js.StreamNameBySubject(topic)
	if errors.Is(err, nats.ErrNoMatchingStream) {
		name = named(topic)
		_, err = s.js.AddStream(&nats.StreamConfig{Name: name, Subjects: []string{topic}, Storage: nats.FileStorage})
	}
	return name, err
}

// consumer makes the durable consumer of a group, all of whose members push to one subject.
func (s *streams) consumer(stream, group, topic string, o Options) error {
	name := durable(group, topic)
	_, err := s.js.ConsumerInfo(stream, name)
	if errors.Is(err, nats.ErrConsumerNotFound) {
		_, err = s.js.AddConsumer(stream, &nats.ConsumerConfig{
			Durable: name, FilterSubject: topic,
			DeliverSubject: "deliver." + stream + "." + name, DeliverGroup: group,
			AckPolicy: nats.AckExplicitPolicy, AckWait: o.AckWait, MaxAckPending: o.MaxAckPending,
		})
	}
	return err
}
