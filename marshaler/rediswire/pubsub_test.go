package rediswire_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
)

func publish(t testing.TB, m rediswire.PubSubMarshaler, msg *message.Message) []byte {
	t.Helper()
	payload, err := m.Marshal("hooks", msg)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// All that a channel carries is the JSON, with the lane key and the user's metadata in it.
func TestPubSubMarshal(t *testing.T) {
	tests := []struct {
		rule string
		m    rediswire.PubSubMarshaler
		msg  *message.Message
		want string
	}{
		{"the hook", rediswire.PubSubMarshaler{}, hook(), hookJSON},
		{
			"the lane key",
			rediswire.PubSubMarshaler{Ordered: true},
			hook(),
			strings.Replace(hookJSON, `"sha256"`, `"ordering_key":"acme/stripe","sha256"`, 1),
		},
		{
			"metadata",
			rediswire.PubSubMarshaler{},
			hooktest.With(hook(), "b", "é", "a", "", "content_type", "text/plain"),
			strings.Replace(hookJSON, `"sha256"`, `"watermill_metadata":{"a":"","b":"é","content_type":"text/plain"},"sha256"`, 1),
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			if got := string(publish(t, tt.m, tt.msg)); got != tt.want {
				t.Errorf("got\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

func TestPubSubUnmarshal(t *testing.T) {
	count := newCounter()
	m := rediswire.PubSubMarshaler{Observer: count}
	msg, err := m.Unmarshal("hooks", []byte(hookJSON))
	want := hook()
	want.Metadata["envelope_receipt"] = "redis/hooks"
	if err != nil || msg.UUID != hookID || string(msg.Payload) != "hello" || !maps.Equal(msg.Metadata, want.Metadata) {
		t.Errorf("got %v %v, want %v", msg, err, want)
	}

	raw := []byte("broken\xff")
	msg, err = m.Unmarshal("hooks", raw)
	if err != nil || !envelope.IsMalformed(msg) || len(msg.Payload) != 0 || msg.Metadata["envelope_malformed"] != "invalid_json" {
		t.Fatalf("got %v, %v", msg, err)
	}
	clear(raw)
	msg.Metadata["reason_poisoned"] = "malformed"
	if got := string(publish(t, m, msg)); got != "broken\xff" {
		t.Errorf("passed on as %q", got)
	}
	if count.malformed["hooks invalid_json"] != 1 || len(count.malformed) != 1 {
		t.Errorf("counted %v", count)
	}
}

// text is a Fallback for channels.
type text struct{ err error }

func (f text) Unmarshal(channel string, payload []byte) (*message.Message, error) {
	return hooktest.With(message.NewMessage("t-1", payload), "channel", channel, "ankusa_id", "evil"), f.err
}

func TestPubSubFallback(t *testing.T) {
	count := newCounter()
	m := rediswire.PubSubMarshaler{Fallback: text{}, Observer: count}
	msg, err := m.Unmarshal("hooks", []byte("hello"))
	want := message.Metadata{"channel": "hooks", "envelope_fallback": "true", "envelope_receipt": "redis/hooks"}
	if err != nil || string(msg.Payload) != "hello" || !maps.Equal(msg.Metadata, want) {
		t.Errorf("got %q %v %v", msg.Payload, msg.Metadata, err)
	}
	if msg, _ := m.Unmarshal("hooks", []byte(hookJSON)); msg.UUID != hookID {
		t.Errorf("the fallback was asked about the hook: %v", msg)
	}
	m.Fallback = text{errors.New("unreadable")}
	if msg, err := m.Unmarshal("hooks", []byte("hello")); err != nil || !envelope.IsMalformed(msg) {
		t.Errorf("got %v, %v", msg, err)
	}
	if count.fallback["hooks"] != 1 || count.malformed["hooks invalid_json"] != 1 {
		t.Errorf("counted %v", count)
	}
}
