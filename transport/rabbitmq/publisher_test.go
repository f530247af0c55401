package rabbitmq_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// published publishes messages with these bodies in one call, on one channel.
func published(t *testing.T, s *script, timeout time.Duration, bodies ...string) error {
	t.Helper()
	pub, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{
		URI: s.uri, Marshaler: plain{}, MaxChannels: 1, PublishTimeout: timeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	msgs := make([]*message.Message, len(bodies))
	for i, body := range bodies {
		msgs[i] = message.NewMessage("id", []byte(body))
	}
	return pub.Publish("key", msgs...)
}

// always is a script that does the same with every message.
func always(actions ...string) func(int, int) []string {
	return func(int, int) []string { return actions }
}

// The connection is lost when some messages of a call are confirmed: those that are not are
// sent again, in their order, and no other.
func TestOnlyUnconfirmedMessagesAreSentAgain(t *testing.T) {
	s := newScript(t, 131_072, func(c, n int) []string {
		switch {
		case c > 0:
			return []string{"ack"}
		case n == 1:
			return []string{"multiple"}
		case n == 4:
			return []string{"drop"}
		}
		return nil
	})
	if err := published(t, s, time.Minute, "a", "b", "c", "d", "e"); err != nil {
		t.Fatal(err)
	}
	want := []string{"a", "b", "c", "d", "e", "c", "d", "e"}
	if got := s.bodies(); !slices.Equal(got, want) {
		t.Errorf("the broker got %q, want %q", got, want)
	}
}

// A nack and a return are the broker's last word: they are not sent again.
func TestNacksAndReturnsAreFinal(t *testing.T) {
	s := newScript(t, 131_072, func(_, n int) []string {
		return [][]string{{"ack"}, {"nack"}, {"return", "ack"}, {"return", "nack"}, {"ack"}}[n]
	})
	err := published(t, s, time.Minute, "a", "b", "c", "d", "e")
	var batch *rabbitmq.BatchError
	if !errors.As(err, &batch) || len(batch.Failed) != 3 {
		t.Fatalf("got %v", err)
	}
	for i, want := range []error{bus.ErrTransport, bus.ErrUnroutable, bus.ErrUnroutable} {
		if f := batch.Failed[i]; f.Index != i+1 || !errors.Is(f.Err, want) {
			t.Errorf("failure %d is about message %d: %v", i, f.Index, f.Err)
		}
		if got := batch.MessageError(i + 1); got != batch.Failed[i].Err {
			t.Errorf("message %d failed with %v", i+1, got)
		}
	}
	if batch.MessageError(0) != nil || batch.MessageError(4) != nil {
		t.Errorf("failures of messages that were published: %v, %v", batch.MessageError(0), batch.MessageError(4))
	}
	if got := s.bodies(); len(got) != 5 {
		t.Errorf("the broker got %q", got)
	}
}

// A message that the broker closes the channel over fails when it was alone on it, one that it
// closes the connection over after three connections.
func TestRefusedMessagesEnd(t *testing.T) {
	for _, tt := range []struct {
		action string
		want   []string
	}{
		{"refuse", []string{"a", "a"}},
		{"break", []string{"a", "a", "a"}},
	} {
		t.Run(tt.action, func(t *testing.T) {
			s := newScript(t, 131_072, always(tt.action))
			err := published(t, s, time.Minute, "a")
			if !errors.Is(err, bus.ErrTransport) || !envelope.IsPermanent(err) {
				t.Errorf("got %v", err)
			}
			if got := s.bodies(); !slices.Equal(got, tt.want) {
				t.Errorf("the broker got %q, want %q", got, tt.want)
			}
		})
	}
}

// A broker that never confirms, and one that is not there.
func TestPublishTimeout(t *testing.T) {
	silent := newScript(t, 131_072, always())
	err := published(t, silent, 50*time.Millisecond, "a")
	if !errors.Is(err, rabbitmq.ErrUnconfirmed) || !envelope.IsTransient(err) {
		t.Errorf("no confirm: %v", err)
	}
	err = published(t, &script{uri: "amqp://user:secret@127.0.0.1:1"}, 50*time.Millisecond, "a")
	if !errors.Is(err, bus.ErrConnection) || errors.Is(err, rabbitmq.ErrUnconfirmed) || !envelope.IsTransient(err) {
		t.Errorf("no broker: %v", err)
	}
	if s := err.Error(); strings.Contains(s, "secret") || !strings.Contains(s, "amqp://***@127.0.0.1:1") || !strings.Contains(s, "refused") {
		t.Errorf("no broker: %v", err)
	}
}

// The limit is what the broker negotiates, from the first message on.
func TestNegotiatedFrameSize(t *testing.T) {
	s := newScript(t, 4096, always("ack"))
	pub, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{URI: s.uri, Marshaler: typed{}})
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	small, large := message.NewMessage("id", []byte("small")), message.NewMessage("id", []byte("large"))
	large.Metadata.Set("name", strings.Repeat("a", 4088))
	for range 2 { // before the frame size is known and after
		var e *envelope.TooLargeError
		if err := pub.Publish("key", small, large); !errors.As(err, &e) || e.Max != 4088 || !envelope.IsPermanent(err) {
			t.Errorf("got %v", err)
		}
	}
	large.Metadata.Set("name", strings.Repeat("a", 4000))
	if err := pub.Publish("key", large); err != nil {
		t.Error(err)
	}
	if got := s.bodies(); !slices.Equal(got, []string{"large"}) {
		t.Errorf("the broker got %q", got)
	}
}

// Returns and confirms come from the client by two ways: however many there are, each return
// is found before its confirm, and for its own message where nothing tells two apart.
func TestReturnsBeforeConfirms(t *testing.T) {
	s := newScript(t, 131_072, always("return", "ack"))
	bodies := slices.Repeat([]string{"same"}, 1000)
	err := published(t, s, time.Minute, bodies...)
	var batch *rabbitmq.BatchError
	if !errors.As(err, &batch) || len(batch.Failed) != len(bodies) {
		t.Errorf("got %v", err)
	}
}
