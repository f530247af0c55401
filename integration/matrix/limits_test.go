package matrix

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler"
)

// Without a claim check, each transport carries a message of exactly its limit, and its publisher
// refuses one that is larger, of which nothing is sent.
func TestLimits(t *testing.T) {
	for _, e := range ends(t) {
		t.Run(e.name, func(t *testing.T) {
			pub, sub := e.publisher(t), e.subscriber(t)
			sealer := e.sealer
			if sealer == nil {
				sealer = pub.(marshaler.Sealer)
			}
			exact := full(t, sealer, e.address("limit"))
			larger := exact.Copy()
			larger.Metadata[envelope.MetadataContentType] += "t"

			arrived, err := sub.Subscribe(suite.Context(t), e.topic(t, sub, "limit"))
			if err != nil {
				t.Fatal(err)
			}
			var tooLarge *envelope.TooLargeError
			if err := publishNow(t, pub, e.address("limit"), larger); !errors.Is(err, envelope.ErrMessageTooLarge) || !errors.As(err, &tooLarge) {
				t.Errorf("over the limit: %v", err)
			}
			published := make(chan error, 1)
			go func() { published <- pub.Publish(e.address("limit"), exact) }() // HTTP waits for the answer
			var got *message.Message
			select {
			case got = <-arrived:
			case <-time.After(quiet):
			}
			if got == nil {
				t.Fatal("nothing arrived")
			}
			got.Ack()
			if err := <-published; err != nil || got.UUID != exact.UUID || got.Metadata[envelope.MetadataContentType] != exact.Metadata[envelope.MetadataContentType] || string(got.Payload) != string(exact.Payload) {
				t.Errorf("at the limit: got %s with %d bytes, want %s with %d, %v", got.UUID, len(got.Payload), exact.UUID, len(exact.Payload), err)
			}
		})
	}
}

// publishNow publishes what is refused. HTTP would wait for the answer to what is not.
func publishNow(t testing.TB, pub message.Publisher, topic string, msg *message.Message) error {
	t.Helper()
	published := make(chan error, 1)
	go func() { published <- pub.Publish(topic, msg) }()
	select {
	case err := <-published:
		return err
	case <-time.After(quiet):
		return errors.New("it waits for an answer")
	}
}

// full returns a message that takes as much as the sealer's limit.
func full(t testing.TB, s marshaler.Sealer, topic string) *message.Message {
	t.Helper()
	e := envelope.Envelope{SourceID: source, ReceivedAt: at, ContentType: "t"}
	size := func() (inline, limit int64) {
		prepared, err := s.Prepare(topic, e.Message())
		if err != nil {
			t.Fatal(err)
		}
		inline, _, limit = s.Size(topic, prepared, "")
		return inline, limit
	}
	inline, limit := size()
	e.Body = make([]byte, (limit-inline-16)/4*3) // and a few digits of its size
	inline, limit = size()
	e.ContentType += strings.Repeat("t", int(limit-inline)) // in the JSON alone
	inline, limit = size()
	if inline != limit {
		t.Fatalf("the message takes %d bytes, want %d", inline, limit)
	}
	return e.Message()
}
