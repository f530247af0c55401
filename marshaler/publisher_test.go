package marshaler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler"
)

// A sink is a publisher that keeps what it is given.
type sink struct {
	topic    string
	messages []*message.Message
	calls    int
	err      error
	closed   int
}

func (s *sink) Publish(topic string, messages ...*message.Message) error {
	s.topic, s.messages, s.calls = topic, append(s.messages, messages...), s.calls+1
	return s.err
}

func (s *sink) Close() error {
	s.closed++
	return s.err
}

type namedSink struct{ sink }

func (*namedSink) String() string { return "the sink" }

func wrap(t *testing.T, inner message.Publisher, o marshaler.Options) *marshaler.Publisher {
	t.Helper()
	p, err := marshaler.WrapPublisher(inner, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWrapPublisher(t *testing.T) {
	type key struct{}
	inner := &sink{}
	pub := wrap(t, inner, marshaler.Options{Source: "default"})
	msg := hooktest.With(hook(), "user", "u", "control", "\x00", "content_type", "text/plain", "_watermill_message_uuid", "x")
	msg.SetContext(context.WithValue(context.Background(), key{}, "kept"))
	before := maps.Clone(msg.Metadata)
	if err := pub.Publish("hooks", msg); err != nil {
		t.Fatal(err)
	}
	if inner.topic != "hooks" || len(inner.messages) != 1 {
		t.Fatalf("%d messages to %q", len(inner.messages), inner.topic)
	}
	got := inner.messages[0]
	want := message.Metadata{
		"ankusa_id": hookID, "ankusa_source_id": "stripe", "ankusa_tenant_id": "acme", "ankusa_message_version": "1",
		"ankusa_idempotency_key": "acme:stripe:evt_1", "content_type": "application/json", "ankusa_dedupe_key": "evt_1",
		"traceparent": traceparent, "user": "u",
	}
	body := strings.Replace(hookJSON, `"sha256"`, `"watermill_metadata":{"content_type":"text/plain","control":"\u0000"},"sha256"`, 1)
	if got.UUID != hookID || string(got.Payload) != body || !maps.Equal(got.Metadata, want) {
		t.Errorf("sent %s\n%s\n%v, want\n%s\n%v", got.UUID, got.Payload, got.Metadata, body, want)
	}
	if got == msg || got.Context().Value(key{}) != "kept" {
		t.Error("not a new message with the same context")
	}
	if !maps.Equal(msg.Metadata, before) || string(msg.Payload) != "hello" {
		t.Errorf("the caller's message became %v", msg)
	}

	inline, _, limit := pub.Size("hooks", hook(), "")
	size := len(hookJSON)
	delete(want, "user")
	for name, value := range want {
		size += len(name) + len(value)
	}
	if inline != int64(size) || limit != 1<<20 {
		t.Errorf("Size %d of %d, want %d", inline, limit, size)
	}
	if n := testing.AllocsPerRun(100, func() { pub.Size("hooks", msg, "acme") }); n != 0 {
		t.Errorf("Size: %v allocations", n)
	}
}

// An attribute with control characters, which net/http for one refuses in a header, is in the
// JSON alone.
func TestAttributesAreText(t *testing.T) {
	inner := &sink{}
	msg := hooktest.With(hook(), envelope.MetadataReplayID, "\x7f", envelope.MetadataOrderingKey, "lane")
	if err := wrap(t, inner, marshaler.Options{}).Publish("hooks", msg); err != nil {
		t.Fatal(err)
	}
	md := inner.messages[0].Metadata
	if _, ok := md[envelope.MetadataReplayID]; ok || md[envelope.MetadataOrderingKey] != "lane" {
		t.Errorf("the attributes are %q", md)
	}
	opened, err := envelope.Open(inner.messages[0].Payload)
	if err != nil || opened.Metadata[envelope.MetadataReplayID] != "\x7f" {
		t.Errorf("opened %v, %v", opened, err)
	}
}

func TestOuterUUID(t *testing.T) {
	inner := &sink{}
	pub := wrap(t, inner, marshaler.Options{})
	for id, want := range map[string]string{
		"short":                 "short",
		strings.Repeat("i", 36): strings.Repeat("i", 36),
		strings.Repeat("i", 37): "7d5b5a02-ad5c-542d-a8a6-6412d6b5f8bc",
	} {
		msg := hooktest.With(hook(), "ankusa_id", id)
		msg.UUID = id
		if err := pub.Publish("hooks", msg); err != nil {
			t.Fatal(err)
		}
		got := inner.messages[len(inner.messages)-1]
		if got.UUID != want {
			t.Errorf("%s: outer UUID %s, want %s", id, got.UUID, want)
		}
		if e, err := envelope.ParseWire(got.Payload); err != nil || e.ID != id {
			t.Errorf("%s: the JSON has another id: %v", id, err)
		}
	}
}

func TestPublishMalformed(t *testing.T) {
	inner := &sink{}
	pub := wrap(t, inner, marshaler.Options{})
	w := marshaler.Wire{}
	msg := w.Open(marshaler.Received{Body: []byte("broken"), ID: strings.Repeat("i", 37), Key: "k"})
	hooktest.With(msg, "reason_poisoned", "malformed", "ankusa_message_version", "1", "_watermill_message_uuid", "u", "bytes", "\xff")
	if err := pub.Publish("poison", msg); err != nil {
		t.Fatal(err)
	}
	got := inner.messages[0]
	want := message.Metadata{"reason_poisoned": "malformed", "ankusa_id": msg.UUID, "ankusa_message_version": "1"}
	if string(got.Payload) != "broken" || len(got.UUID) != 36 || !maps.Equal(got.Metadata, want) {
		t.Errorf("sent %s %q %v, want %v", got.UUID, got.Payload, got.Metadata, want)
	}
}

// One message that is refused, wherever it is, and none is sent.
func TestPublishAllOrNothing(t *testing.T) {
	tests := map[string]*message.Message{
		"no source": message.NewMessage("m-1", nil),
		"not UTF-8": hooktest.With(hook(), "a", "\xff"),
		"too large": func() *message.Message { m := hook(); m.Payload = make([]byte, 2000); return m }(),
	}
	for name, bad := range tests {
		t.Run(name, func(t *testing.T) {
			inner := &sink{}
			pub := wrap(t, inner, marshaler.Options{MaxMessageBytes: 2000})
			err := pub.Publish("hooks", hook(), hook(), bad)
			if err == nil || !envelope.IsPermanent(err) {
				t.Errorf("error %v", err)
			}
			if inner.calls != 0 {
				t.Errorf("%d messages were sent", len(inner.messages))
			}
			if errors.Is(err, envelope.ErrMessageTooLarge) != (name == "too large") {
				t.Errorf("error %v", err)
			}
			if err := pub.Publish("hooks", hook(), hook()); err != nil || inner.calls != 1 || len(inner.messages) != 2 {
				t.Errorf("%d calls with %d messages: %v", inner.calls, len(inner.messages), err)
			}
		})
	}
}

func TestPublisherErrorAndClose(t *testing.T) {
	outage := envelope.Transient(errors.New("no broker"))
	inner := &sink{err: outage}
	pub := wrap(t, inner, marshaler.Options{})
	if err := pub.Publish("hooks", hook()); !errors.Is(err, outage) || !envelope.IsTransient(err) {
		t.Errorf("error %v", err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := pub.Close(); !errors.Is(err, outage) {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	if inner.closed != 1 {
		t.Errorf("inner closed %d times", inner.closed)
	}
	inner.err = nil
	if err := pub.Publish("hooks", hook()); !errors.Is(err, marshaler.ErrClosed) || inner.calls != 1 {
		t.Errorf("after Close: %v, %d calls", err, inner.calls)
	}
}

func TestNames(t *testing.T) {
	channel := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	defer func() { _ = channel.Close() }()
	sub, err := marshaler.WrapSubscriber(channel, marshaler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Watermill names a publisher in metrics and logs by its String, or else its type.
	for want, got := range map[string]any{
		"gochannel.GoChannel": wrap(t, channel, marshaler.Options{}),
		"the sink":            wrap(t, &namedSink{}, marshaler.Options{}),
		"marshaler_test.sink": wrap(t, &sink{}, marshaler.Options{}),
	} {
		if got := fmt.Sprint(got); got != want {
			t.Errorf("publisher %q, want %q", got, want)
		}
	}
	if got := fmt.Sprint(sub); got != "gochannel.GoChannel" {
		t.Errorf("subscriber %q", got)
	}
}

func TestWrapErrors(t *testing.T) {
	bad := marshaler.Options{Source: "\xff", ContentType: "\xff", MaxMessageBytes: -1}
	if err := (marshaler.Options{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	pub, err := marshaler.WrapPublisher(nil, bad)
	if pub != nil {
		t.Error("a publisher")
	}
	checkNamed(t, err, "nil publisher", "Source", "ContentType", "MaxMessageBytes -1")
	sub, err := marshaler.WrapSubscriber(nil, bad)
	if sub != nil {
		t.Error("a subscriber")
	}
	checkNamed(t, err, "nil subscriber", "Source", "ContentType", "MaxMessageBytes -1")
}

func checkNamed(t *testing.T, err error, all ...string) {
	t.Helper()
	for _, what := range all {
		if !strings.Contains(fmt.Sprint(err), what) {
			t.Errorf("%v does not name %s", err, what)
		}
	}
}
