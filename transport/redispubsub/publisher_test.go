package redispubsub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
	"github.com/watermill-envelope/envelope/transport/redispubsub"
)

var (
	_ message.Publisher       = (*redispubsub.Publisher)(nil)
	_ message.Subscriber      = (*redispubsub.Subscriber)(nil)
	_ redispubsub.Marshaler   = rediswire.PubSubMarshaler{}
	_ redispubsub.Unmarshaler = rediswire.PubSubMarshaler{}
)

// plain takes payloads as they are, and refuses those that a marshaler would.
type plain struct{}

var errRefused = envelope.Permanent(errors.New("refused"))

func (plain) Marshal(_ string, msg *message.Message) ([]byte, error) {
	if string(msg.Payload) == "refused" {
		return nil, errRefused
	}
	return msg.Payload, nil
}

func (plain) Unmarshal(_ string, payload []byte) (*message.Message, error) {
	switch string(payload) {
	case "unreadable":
		return nil, errRefused
	case "panics":
		panic("index out of range")
	case "none":
		return nil, nil
	}
	return message.NewMessage("id-"+string(payload), payload), nil
}

func newPublisher(t testing.TB, s *server, allow bool) *redispubsub.Publisher {
	t.Helper()
	pub, err := redispubsub.NewPublisher(redispubsub.PublisherConfig{
		Client: s.client(t), Marshaler: plain{}, AllowNoSubscribers: allow,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pub.Close() })
	return pub
}

func messages(payloads ...string) []*message.Message {
	var list []*message.Message
	for _, p := range payloads {
		list = append(list, message.NewMessage(p, []byte(p)))
	}
	return list
}

func TestPublishErrors(t *testing.T) {
	tests := []struct {
		rule      string
		answer    string
		allow     bool
		channel   string
		payloads  []string
		want      error // nil: there is no error
		transient bool
		permanent bool
		sent      []string
	}{
		{rule: "somebody got each", answer: ":1\r\n", channel: "c", payloads: []string{"a", "b"}, sent: []string{"c:a", "c:b"}},
		{rule: "nothing to publish", answer: ":0\r\n", channel: "c"},
		{
			rule: "nobody got it: the call ends there", answer: ":0\r\n", channel: "c", payloads: []string{"a", "b"},
			want: redispubsub.ErrNoSubscribers, transient: true, sent: []string{"c:a"},
		},
		{rule: "nobody needs to", answer: ":0\r\n", allow: true, channel: "c", payloads: []string{"a", "b"}, sent: []string{"c:a", "c:b"}},
		{
			rule: "one that cannot be marshaled: nothing is sent", answer: ":1\r\n", channel: "c", payloads: []string{"a", "refused"},
			want: errRefused, permanent: true,
		},
		{rule: "no channel", answer: ":1\r\n", payloads: []string{"a"}, permanent: true, want: errors.New("the name of a channel is empty")},
		{
			rule: "Redis refuses", answer: "-NOPERM no permissions\r\n", channel: "c", payloads: []string{"a"},
			transient: true, want: errors.New("NOPERM"), sent: []string{"c:a"},
		},
		{
			rule: "over proto-max-bulk-len", answer: "-ERR Protocol error: invalid bulk length\r\n", channel: "c", payloads: []string{"a"},
			permanent: true, want: envelope.ErrMessageTooLarge, sent: []string{"c:a"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			s := newServer(t)
			s.answer = tt.answer
			err := newPublisher(t, s, tt.allow).Publish(tt.channel, messages(tt.payloads...)...)
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if err != nil && !errors.Is(err, tt.want) && !strings.Contains(err.Error(), tt.want.Error()) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if envelope.IsTransient(err) != tt.transient || envelope.IsPermanent(err) != tt.permanent {
				t.Errorf("%v: transient %v, permanent %v", err, envelope.IsTransient(err), envelope.IsPermanent(err))
			}
			if got := s.published(); !slices.Equal(got, tt.sent) {
				t.Errorf("sent %q, want %q", got, tt.sent)
			}
			var e *redispubsub.Error
			if tt.transient && (!errors.As(err, &e) || e.Channel != tt.channel) {
				t.Errorf("%v does not name the channel", err)
			}
			if len(tt.payloads) > 1 && err != nil && !strings.Contains(err.Error(), "of 2") {
				t.Errorf("%v does not say which message", err)
			}
		})
	}
}

func TestPublishHonoursTheContext(t *testing.T) {
	s := newServer(t)
	s.answer = none
	pub := newPublisher(t, s, false)
	ctx, cancel := context.WithCancelCause(context.Background())
	msg := messages("a")[0]
	msg.SetContext(ctx)
	failed := make(chan error, 1)
	go func() { failed <- pub.Publish("c", msg) }()
	await(t, "it is on its way", func() bool { return len(s.published()) > 0 })
	late := errors.New("too late")
	cancel(late)
	if err := <-failed; !errors.Is(err, late) || !errors.Is(err, redispubsub.ErrUnconfirmed) || !envelope.IsTransient(err) {
		t.Errorf("error %v", err)
	}
	s.disconnect() // or Close would wait for the client to give up
	if err := pub.Close(); err != nil {
		t.Error(err)
	}

	// One that was done before the call says nothing about it.
	s.set(func(s *server) { s.answer = ":1\r\n" })
	if err := newPublisher(t, s, false).Publish("c", msg); err != nil {
		t.Errorf("a context that was done already: %v", err)
	}
}

func TestPublishAfterClose(t *testing.T) {
	s := newServer(t)
	s.answer = ":1\r\n"
	pub := newPublisher(t, s, false)
	for range 2 {
		if err := pub.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := pub.Publish("c", messages("a")...); !errors.Is(err, redispubsub.ErrClosed) {
		t.Errorf("error %v", err)
	}
	if got := s.published(); len(got) != 0 {
		t.Errorf("sent %q", got)
	}
}

func TestCloseLeavesTheClient(t *testing.T) {
	s := newServer(t)
	client := s.client(t)
	pub, err := redispubsub.NewPublisher(redispubsub.PublisherConfig{Client: client, Marshaler: plain{}})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := redispubsub.NewSubscriber(redispubsub.SubscriberConfig{Client: client, Unmarshaler: plain{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sub.Subscribe(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(pub.Close(), sub.Close()); err != nil {
		t.Fatal(err)
	}
	if err := client.Publish(t.Context(), "c", "a").Err(); err != nil {
		t.Errorf("the client was closed: %v", err)
	}
}

func TestValidate(t *testing.T) {
	_, pub := redispubsub.NewPublisher(redispubsub.PublisherConfig{})
	_, sub := redispubsub.NewSubscriber(redispubsub.SubscriberConfig{
		Buffer: -1, MaxAttempts: -1, RetryDelay: -1, PingInterval: -1, CloseTimeout: -1,
	})
	for err, names := range map[error][]string{
		pub: {"Client", "Marshaler"},
		sub: {"Client", "Unmarshaler", "Buffer", "MaxAttempts", "RetryDelay", "PingInterval", "CloseTimeout"},
	} {
		for _, name := range names {
			if !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("%v does not name %s", err, name)
			}
		}
	}
}
