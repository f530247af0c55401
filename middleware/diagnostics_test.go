package middleware_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/amqptest"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func diagnostics(t testing.TB, d hookmw.Diagnostics, pub message.Publisher, sealer marshaler.Sealer) message.Publisher {
	t.Helper()
	wrapped, err := d.WrapPublisher(pub, sealer)
	if err != nil {
		t.Fatal(err)
	}
	return wrapped
}

const mark = "...[truncated]"

func TestDiagnosticsCut(t *testing.T) {
	e := func(n int) string { return strings.Repeat("e", n) }
	tests := []struct {
		rule       string
		d          hookmw.Diagnostics
		name, text string
		want       string
	}{
		{rule: "short", name: "reason_poisoned", text: "out of stock", want: "out of stock"},
		{rule: "empty is no less than empty", name: "handler_poisoned"},
		{rule: "8 KiB", name: "reason_poisoned", text: e(8192), want: e(8192)},
		{rule: "over 8 KiB", name: "reason_poisoned", text: e(8193), want: e(8192-len(mark)) + mark},
		{rule: "1 MiB", name: "topic_poisoned", text: e(1 << 20), want: e(8192-len(mark)) + mark},
		{rule: "Max", d: hookmw.Diagnostics{Max: 40}, name: "subscriber_poisoned", text: e(41), want: e(26) + mark},
		{rule: "what was cut before", d: hookmw.Diagnostics{Max: 40}, name: "reason_poisoned", text: e(26) + mark, want: e(26) + mark},
		{rule: "what was cut before, and is now again", d: hookmw.Diagnostics{Max: 30}, name: "reason_poisoned", text: e(26) + mark, want: e(16) + mark},
		{rule: "between two characters", d: hookmw.Diagnostics{Max: 40}, name: "reason_poisoned", text: e(24) + "\u20ac" + e(20), want: e(24) + mark},
		{rule: "behind one", d: hookmw.Diagnostics{Max: 41}, name: "reason_poisoned", text: e(24) + "\u20ac" + e(20), want: e(24) + "\u20ac" + mark},
		{rule: "four bytes", d: hookmw.Diagnostics{Max: 40}, name: "reason_poisoned", text: e(23) + "\U0001f4a5" + e(20), want: e(23) + mark},
		{rule: "not UTF-8", name: "handler_poisoned", text: "a\xffb", want: "a\ufffdb"},
		{rule: "not UTF-8 and over", d: hookmw.Diagnostics{Max: 40}, name: "handler_poisoned", text: strings.Repeat("\xbf.", 30), want: strings.Repeat("\ufffd.", 6) + mark},
		{rule: "only bytes that start no character", d: hookmw.Diagnostics{Max: 40}, name: "handler_poisoned", text: strings.Repeat("\xbf", 3000), want: "\ufffd" + mark},
		{rule: "a name of the user", d: hookmw.Diagnostics{Max: 40, Names: []string{"stack"}}, name: "stack", text: e(100), want: e(26) + mark},
		{rule: "another name", d: hookmw.Diagnostics{Max: 40}, name: "stack", text: e(10_000), want: e(10_000)},
		{rule: "names are compared exactly", d: hookmw.Diagnostics{Max: 40}, name: "Reason_Poisoned", text: e(10_000), want: e(10_000)},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			b := new(broker)
			pub := diagnostics(t, tt.d, b, nil)
			msg := hook([]byte("body"), tt.name, "x")
			msg.Metadata[tt.name] = tt.text
			before := maps.Clone(msg.Metadata)
			if err := pub.Publish("poison", msg); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(msg.Metadata, before) {
				t.Error("the message of the caller was changed")
			}
			got := b.receive(t, 0)
			if value, has := got.Metadata[tt.name]; value != tt.want || !has {
				t.Errorf("got %d bytes %.60q, want %d bytes %.60q", len(value), value, len(tt.want), tt.want)
			}
			if string(got.Payload) != "body" {
				t.Errorf("body %q", got.Payload)
			}
			// A message that fails again is no larger.
			if err := pub.Publish("poison", b.given[0]); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(b.given[1].Metadata, b.given[0].Metadata) {
				t.Errorf("cut again: %v", b.given[1].Metadata)
			}
		})
	}
}

func TestDiagnosticsLeaveOthersAlone(t *testing.T) {
	s := new(sink)
	msg := hook([]byte("body"), "stack", strings.Repeat("s", 10_000))
	if err := diagnostics(t, hookmw.Diagnostics{}, s, kafkawire.Marshaler{}).Publish("hooks", msg); err != nil || s.given[0] != msg {
		t.Errorf("published %v, %v", s.given, err)
	}
}

// poisoned is msg as Watermill's PoisonQueue publishes it, through pub.
func poison(t *testing.T, pub message.Publisher, msg *message.Message, cause error) error {
	t.Helper()
	queue, err := wmmw.PoisonQueue(pub, "poison")
	if err != nil {
		t.Fatal(err)
	}
	_, err = queue(func(*message.Message) ([]*message.Message, error) { return nil, cause })(msg)
	return err
}

var errLong = errors.New(strings.Repeat("reason\x01\"", 1000))

// A message that is as large as Kafka takes can be dead-lettered, and keeps as much of the reason
// as there is room for.
func TestDiagnosticsAtKafkasLimit(t *testing.T) {
	body := func(size int) *message.Message { return hook(make([]byte, size)) }
	messages := map[string]func(t *testing.T) *message.Message{
		"a hook":        func(*testing.T) *message.Message { return body(2000) },
		"with metadata": func(*testing.T) *message.Message { m := body(2000); m.Metadata["k"] = "v"; return m },
		"malformed":     func(t *testing.T) *message.Message { return received(t, strings.Repeat("{", 2000)) },
	}
	for name, made := range messages {
		t.Run(name, func(t *testing.T) {
			var m kafkawire.Marshaler
			full, _, _ := m.Size("poison", made(t), "")
			if err := poison(t, &broker{Marshaler: kafkawire.Marshaler{MaxMessageBytes: full}}, made(t), errLong); err == nil {
				t.Fatal("without a cap the message has room for its diagnostics")
			}
			kept := 0
			for room := int64(0); room < 12_000; room += 1 + room/7 {
				b := &broker{Marshaler: kafkawire.Marshaler{MaxMessageBytes: full + room}}
				if err := poison(t, diagnostics(t, hookmw.Diagnostics{}, b, nil), made(t), errLong); err != nil {
					t.Fatalf("room for %d bytes: %v", room, err)
				}
				got := b.receive(t, 0)
				if string(got.Payload) != string(made(t).Payload) || string(envelope.Raw(got)) != string(envelope.Raw(made(t))) {
					t.Errorf("room for %d bytes: another body", room)
				}
				if got.Metadata["k"] != made(t).Metadata["k"] || got.Metadata["x-provider"] != made(t).Metadata["x-provider"] {
					t.Errorf("room for %d bytes: other metadata", room)
				}
				reason := got.Metadata["reason_poisoned"]
				if len(reason) < kept || reason != errLong.Error() && reason != "" && !strings.HasPrefix(errLong.Error(), strings.TrimSuffix(reason, mark)) {
					t.Errorf("room for %d bytes: reason %q after one of %d", room, reason, kept)
				}
				if kept = len(reason); room == 0 && kept != 0 || room > 200 && room < 8000 && int64(kept) < room-140 {
					t.Errorf("room for %d bytes: %d of the reason", room, kept)
				}
				if b.size(0) > full+room {
					t.Errorf("room for %d bytes: %d too many", room, b.size(0)-full-room)
				}
			}
			if kept != len(errLong.Error()) {
				t.Errorf("with room for all of it %d bytes of the reason are kept", kept)
			}
		})
	}
}

// A rabbit is a publisher of RabbitMQ.
type rabbit struct {
	amqpwire.Marshaler
	sent []amqp.Publishing
}

func (r *rabbit) Publish(_ string, messages ...*message.Message) error {
	for _, msg := range messages {
		p, err := r.Marshal(msg)
		if err != nil {
			return err
		}
		r.sent = append(r.sent, p)
	}
	return nil
}

func (r *rabbit) Close() error { return nil }

func (r *rabbit) receive(t *testing.T) *message.Message {
	t.Helper()
	p := r.sent[len(r.sent)-1]
	msg, err := r.Unmarshal(amqp.Delivery{DeliveryTag: 1, Headers: p.Headers, MessageId: p.MessageId, ContentType: p.ContentType, Body: p.Body})
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// A malformed message whose headers fill RabbitMQ's frame goes out with its own bytes, not in an
// envelope, and the frame is filled with what there is room for of the reason.
func TestDiagnosticsAtRabbitsFrame(t *testing.T) {
	recorder := amqptest.NewRecorder(t)
	open := func(size int) *message.Message {
		msg, err := amqpwire.Marshaler{}.Unmarshal(amqp.Delivery{
			DeliveryTag: 1, MessageId: "m-1", Body: []byte("broken"), Headers: amqp.Table{"a": strings.Repeat("x", size)},
		})
		if err != nil {
			t.Fatal(err)
		}
		return msg
	}
	r := &rabbit{Marshaler: amqpwire.Marshaler{Source: "orders"}}
	if err := r.Publish("", open(0)); err != nil {
		t.Fatal(err)
	}
	room := 131_064 - len(recorder.Publish(t, r.sent[0]))
	for _, left := range []int{0, 10, 100, 1000, 5000, 20_000} {
		if err := poison(t, r, open(room-left), errLong); err != nil {
			t.Fatal(err)
		}
		if enclosed := string(r.sent[len(r.sent)-1].Body) != "broken"; enclosed != (left < 20_000) {
			t.Errorf("without a cap, %d bytes left: in an envelope %v", left, enclosed)
		}
		if err := poison(t, diagnostics(t, hookmw.Diagnostics{}, r, nil), open(room-left), errLong); err != nil {
			t.Fatalf("%d bytes left: %v", left, err)
		}
		got := r.receive(t)
		if string(envelope.Raw(got)) != "broken" || len(got.Metadata["a"]) != room-left {
			t.Errorf("%d bytes left: in an envelope: %q", left, got.Payload)
		}
		reason := len(got.Metadata["reason_poisoned"])
		if left == 0 && reason != 0 || left >= 1000 && reason < min(left/3, 8000) {
			t.Errorf("%d bytes left: %d of the reason", left, reason)
		}
		if sent := recorder.Publish(t, r.sent[len(r.sent)-1]); len(sent) > 131_064 {
			t.Errorf("%d bytes left: a content header of %d bytes", left, len(sent))
		}
	}
}

// A body as large as RabbitMQ takes, beside headers that leave no room: a long reason would go
// into the JSON, which has none either.
func TestDiagnosticsAtRabbitsBody(t *testing.T) {
	msg := func() *message.Message { return hook(make([]byte, 2000)) }
	m := amqpwire.Marshaler{FrameMax: 4096}
	m.MaxMessageBytes, _, _ = m.Size("", msg(), "")
	r := &rabbit{Marshaler: m}
	if err := poison(t, r, msg(), errLong); !errors.Is(err, envelope.ErrMessageTooLarge) {
		t.Fatalf("without a cap: %v", err)
	}
	if err := poison(t, diagnostics(t, hookmw.Diagnostics{}, r, nil), msg(), errLong); err != nil {
		t.Fatal(err)
	}
	got := r.receive(t)
	if reason := got.Metadata["reason_poisoned"]; len(reason) < 100 || !strings.HasSuffix(reason, mark) || len(got.Payload) != 2000 {
		t.Errorf("%d bytes of body, %d of the reason", len(got.Payload), len(reason))
	}
	if sent := amqptest.NewRecorder(t).Publish(t, r.sent[0]); len(sent) > 4088 {
		t.Errorf("a content header of %d bytes", len(sent))
	}
}

// Where a claim check follows, a body that does not fit in any case is stored, and the diagnostics
// need only leave room for its claim.
func TestDiagnosticsBesideAClaim(t *testing.T) {
	b := &broker{Marshaler: kafkawire.Marshaler{MaxMessageBytes: 4000}}
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: &store{}, InlineMaxBytes: 4000})
	pub := diagnostics(t, hookmw.Diagnostics{}, wrap(t, cc, b, nil), b)
	if err := poison(t, pub, hook(make([]byte, 3900)), errLong); err != nil {
		t.Fatal(err)
	}
	got := b.receive(t, 0)
	if got.Metadata["ankusa_claim"] == "" || len(got.Metadata["reason_poisoned"]) < 1000 {
		t.Errorf("got %v", got.Metadata)
	}
}

// What is too large without diagnostics too is refused as it would be without a cap.
func TestDiagnosticsAreNotAtFault(t *testing.T) {
	for name, msg := range map[string]*message.Message{
		"a body":    hook(make([]byte, 4000)),
		"metadata":  hook(nil, "k", strings.Repeat("v", 4000)),
		"no source": open("{}"),
	} {
		b := &broker{Marshaler: kafkawire.Marshaler{MaxMessageBytes: 3000}}
		msg.Metadata["reason_poisoned"] = "why"
		err := diagnostics(t, hookmw.Diagnostics{}, b, nil).Publish("poison", msg)
		bare := b.Publish("poison", msg)
		if err == nil || bare == nil || err.Error() != bare.Error() || !envelope.IsPermanent(err) {
			t.Errorf("%s: %v, want %v", name, err, bare)
		}
	}
}

// Of several long entries none loses more than it must.
func TestDiagnosticsShareTheRoom(t *testing.T) {
	b := &broker{}
	msg := hook([]byte("body"))
	full, _, _ := b.Size("poison", msg, "")
	b.MaxMessageBytes = full + 2000
	msg.Metadata["reason_poisoned"] = strings.Repeat("r", 6000)
	msg.Metadata["stack"] = strings.Repeat("\u20ac", 2000)
	msg.Metadata["topic_poisoned"] = "hooks"
	if err := diagnostics(t, hookmw.Diagnostics{Names: []string{"stack"}}, b, nil).Publish("poison", msg); err != nil {
		t.Fatal(err)
	}
	got := b.receive(t, 0).Metadata
	reason, stack := got["reason_poisoned"], got["stack"]
	if len(reason) < 900 || len(stack) < 900 || !utf8.ValidString(stack) || got["topic_poisoned"] != "hooks" {
		t.Errorf("%d bytes of the reason, %d of the stack, topic %q", len(reason), len(stack), got["topic_poisoned"])
	}
}

// An odd is a sealer that refuses long reasons for a reason of its own.
type odd struct{ kafkawire.Marshaler }

func (o odd) Prepare(topic string, msg *message.Message) (*message.Message, error) {
	if n := len(msg.Metadata["reason_poisoned"]); n > 100 {
		return nil, envelope.Permanent(fmt.Errorf("a reason of %d bytes", n))
	}
	return o.Marshaler.Prepare(topic, msg)
}

func TestDiagnosticsOfAnotherSealer(t *testing.T) {
	b := new(broker)
	if err := poison(t, diagnostics(t, hookmw.Diagnostics{}, b, odd{}), hook(nil), errLong); err != nil {
		t.Fatal(err)
	}
	if n := len(b.receive(t, 0).Metadata["reason_poisoned"]); n > 100 {
		t.Errorf("%d bytes of the reason", n)
	}
}

func TestDiagnosticsErrors(t *testing.T) {
	_, err := hookmw.Diagnostics{Max: 10, Names: []string{"ankusa_id", "", "fine"}}.WrapPublisher(new(sink), nil)
	for _, want := range []string{"Max 10", `"ankusa_id"`, `""`, "*middleware_test.sink"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %s", err, want)
		}
	}
	if _, err := (hookmw.Diagnostics{}).WrapPublisher(nil, nil); err == nil {
		t.Error("a nil publisher is wrapped")
	}
	if _, err := (hookmw.Diagnostics{}).WrapPublisher(new(sink), kafkawire.Marshaler{MaxMessageBytes: -1}); err == nil {
		t.Error("a sealer that is not valid is taken")
	}
	if err := (hookmw.Diagnostics{Max: -1}).Validate(); err == nil {
		t.Error("a negative Max is valid")
	}
}

func TestDiagnosticsPublisher(t *testing.T) {
	named := new(namedBroker)
	pub := diagnostics(t, hookmw.Diagnostics{}, named, nil)
	if got := pub.(interface{ String() string }).String(); got != "the broker" {
		t.Errorf("name %q", got)
	}
	if err := errors.Join(pub.Close(), pub.Close()); err != nil || named.closed != 1 {
		t.Errorf("closed %d times, %v", named.closed, err)
	}
	if err := pub.Publish("hooks", hook(nil)); !errors.Is(err, marshaler.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
