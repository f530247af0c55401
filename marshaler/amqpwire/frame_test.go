package amqpwire_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/amqptest"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
)

// The bytes of a content header with one attribute more than the list has, in the order that
// the client chose.
func TestContentHeaderBytes(t *testing.T) {
	msg := hooktest.With(message.NewMessage("m", message.Payload("x")), "ankusa_received_at", "1737500000000", "k", "v")
	p := marshal(t, amqpwire.Marshaler{Source: "s"}, msg)
	got := amqptest.NewRecorder(t).Publish(t, p)

	const before = "\x00\x3c\x00\x00" + // class basic, weight
		"%s" + // body size
		"\xb0\xc0" + // content-type, headers, delivery-mode, message-id, timestamp
		"\x10application/json" +
		"\x00\x00\x00\xa1" // table length
	const after = "\x02" + "\x01m" + "\x00\x00\x00\x00\x67\x90\x25\x60"
	fields := []string{
		"\x09ankusa_idS\x00\x00\x00\x01m",
		"\x10ankusa_source_idS\x00\x00\x00\x01s",
		"\x10ankusa_tenant_idS\x00\x00\x00\x00",
		"\x16ankusa_message_versionS\x00\x00\x00\x011",
		"\x16ankusa_idempotency_keyS\x00\x00\x00\x01m",
		"\x0ccontent_typeS\x00\x00\x00\x10application/json",
		"\x01kS\x00\x00\x00\x01v",
	}
	want := fmt.Sprintf(before, binary.BigEndian.AppendUint64(nil, uint64(len(p.Body))))
	rest, ok := strings.CutPrefix(string(got), want)
	if !ok {
		t.Fatalf("content header\n%q does not start with\n%q", got, want)
	}
	for _, field := range fields {
		if !strings.Contains(rest, field) {
			t.Errorf("no field %q in %q", field, rest)
		}
		rest = strings.Replace(rest, field, "", 1)
	}
	if rest != after {
		t.Errorf("after the table %q, want %q", rest, after)
	}
}

// refusedSize is what the marshaler takes for the size of the content header.
func refusedSize(t *testing.T, msg *message.Message) int64 {
	t.Helper()
	_, err := amqpwire.Marshaler{Source: "orders", FrameMax: 4096}.Marshal(msg)
	var tooLarge *envelope.TooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.What != "content header" || tooLarge.Max != 4088 {
		t.Fatalf("error %v", err)
	}
	if !errors.Is(err, envelope.ErrMessageTooLarge) || !envelope.IsPermanent(err) {
		t.Errorf("class of %v", err)
	}
	return tooLarge.Size
}

// What is refused, with its size, is what the client would have sent, to the byte.
func TestContentHeaderIsCountedExactly(t *testing.T) {
	big := strings.Repeat("b", 4000)
	longID := hooktest.With(hook(), "ankusa_id", big)
	longID.UUID = big
	tests := map[string]*message.Message{
		"a long source":     hooktest.With(hook(), "ankusa_source_id", big),
		"a long dedupe key": hooktest.With(hook(), "ankusa_dedupe_key", big, "ankusa_replay_id", "r"),
		"a long id":         longID,
		"no envelope":       hooktest.With(message.NewMessage("m-1", nil), "ankusa_ordering_key", big),
		"before 1970":       hooktest.With(hook(), "ankusa_tenant_id", big, "ankusa_received_at", "-5"),
	}
	r := amqptest.NewRecorder(t)
	for name, msg := range tests {
		t.Run(name, func(t *testing.T) {
			size := refusedSize(t, msg)
			sent := r.Publish(t, marshal(t, amqpwire.Marshaler{Source: "orders"}, msg))
			if int64(len(sent)) != size {
				t.Errorf("the client sends %d bytes, counted %d", len(sent), size)
			}
			// The limit is inclusive, and leaves 8 bytes of the frame.
			if _, err := (amqpwire.Marshaler{Source: "orders", FrameMax: size + 8}).Marshal(msg); err != nil {
				t.Errorf("a frame of %d bytes: %v", size+8, err)
			}
			if _, err := (amqpwire.Marshaler{Source: "orders", FrameMax: size + 7}).Marshal(msg); err == nil {
				t.Errorf("a frame of %d bytes is enough", size+7)
			}
			if _, err := (amqpwire.Marshaler{Source: "orders", FrameMax: size + 7}).Prepare("", msg); err == nil {
				t.Error("Prepare does not find it")
			}
		})
	}
}

// Metadata of the user that do not fit into the frame travel in the JSON, all of them.
func TestMetadataOverTheFrame(t *testing.T) {
	r := amqptest.NewRecorder(t)
	m := amqpwire.Marshaler{}
	fits := func(value string) (amqp.Publishing, bool) {
		p := marshal(t, m, hooktest.With(hook(), "a", value, "b", "small"))
		_, native := p.Headers["a"]
		if _, small := p.Headers["b"]; small != native || strings.Contains(string(p.Body), "watermill_metadata") == native {
			t.Errorf("%d bytes: some metadata are headers, some are not", len(value))
		}
		return p, native
	}
	p, _ := fits("")
	room := 131_064 - len(r.Publish(t, p))
	p, native := fits(strings.Repeat("x", room))
	if sent := r.Publish(t, p); !native || len(sent) != 131_064 {
		t.Errorf("a content header of %d bytes, headers %v", len(sent), native)
	}
	if p, native = fits(strings.Repeat("x", room+1)); native {
		t.Error("a content header of 131,065 bytes is sent")
	}
	if sent := r.Publish(t, p); len(sent) > 1000 {
		t.Errorf("still %d bytes", len(sent))
	}
	if got := unmarshal(t, m, delivered(p)).Metadata; len(got["a"]) != room+1 || got["b"] != "small" {
		t.Errorf("came back with %d bytes and %q", len(got["a"]), got["b"])
	}
}

// The trace state is in the JSON, so its header is the first of ours to give way.
func TestTracestateOverTheFrame(t *testing.T) {
	msg := hooktest.With(hook(), "tracestate", "k="+strings.Repeat("v", 500), "ankusa_dedupe_key", strings.Repeat("d", 3400))
	p := marshal(t, amqpwire.Marshaler{FrameMax: 4096}, msg)
	if _, native := p.Headers["tracestate"]; native || !strings.Contains(string(p.Body), `"tracestate":"k=vvv`) {
		t.Errorf("header %v, body %.600s", native, p.Body)
	}
	if sent := amqptest.NewRecorder(t).Publish(t, p); len(sent) > 4088 {
		t.Errorf("a content header of %d bytes", len(sent))
	}
}

// A malformed message keeps its headers while they fit, and goes out in an envelope, its
// headers in the JSON, when they do not.
func TestMalformedOverTheFrame(t *testing.T) {
	m := amqpwire.Marshaler{}
	open := func(size int) *message.Message {
		return unmarshal(t, m, delivery("broken", amqp.Table{"a": strings.Repeat("x", size), "b": "small", "c": "\xff"}))
	}
	r := amqptest.NewRecorder(t)
	room := 131_064 - len(r.Publish(t, marshal(t, m, open(0))))
	p := marshal(t, m, open(room))
	if sent := r.Publish(t, p); len(sent) != 131_064 || string(p.Body) != "broken" {
		t.Errorf("a content header of %d bytes, body %.20q", len(sent), p.Body)
	}
	p = marshal(t, m, open(room+1))
	msg := unmarshal(t, m, delivered(p))
	if string(msg.Payload) != "broken" || len(msg.Metadata["a"]) != room+1 || msg.Metadata["b"] != "small" {
		t.Errorf("in an envelope: %q with %d bytes and %q", msg.Payload, len(msg.Metadata["a"]), msg.Metadata["b"])
	}
	for name, want := range map[string]string{
		"malformed_code": "invalid_json", "ankusa_content_type": "application/octet-stream", "ankusa_source_id": "malformed",
	} {
		if got := msg.Metadata[name]; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

// Size counts the body only, as the broker's max_message_size does.
func TestSize(t *testing.T) {
	messages := map[string]*message.Message{
		"the hook":             hook(),
		"an empty body":        message.NewMessage("m-1", nil),
		"everything":           hooktest.With(hook(), "ankusa_replay_id", "r", "ankusa_ordering_key", "o", "CC", "\u0001", "a", "b"),
		"140,000 header bytes": hooktest.With(hook(), "a", strings.Repeat("x", 140_000)),
		"malformed":            unmarshal(t, amqpwire.Marshaler{}, delivery("broken", amqp.Table{"a": "\xff"})),
	}
	m := amqpwire.Marshaler{Source: "orders", Ordered: true}
	for name, msg := range messages {
		t.Run(name, func(t *testing.T) {
			prepared, err := m.Prepare("", msg)
			if err != nil {
				t.Fatal(err)
			}
			inline, _, limit := m.Size("", prepared, "acme")
			body := marshal(t, m, msg).Body
			if int64(len(body)) != inline || cap(body) != len(body) || limit != 1_048_576 {
				t.Errorf("a body of %d bytes in %d, Size says %d of %d", len(body), cap(body), inline, limit)
			}
			if n := testing.AllocsPerRun(100, func() { m.Size("", prepared, "acme") }); n != 0 {
				t.Errorf("%v allocations", n)
			}
			m := m
			m.MaxMessageBytes = inline
			if _, err := m.Marshal(msg); err != nil {
				t.Errorf("the limit is inclusive: %v", err)
			}
			m.MaxMessageBytes--
			var tooLarge *envelope.TooLargeError
			if _, err := m.Marshal(msg); !errors.As(err, &tooLarge) || tooLarge.Max != inline-1 || tooLarge.What != "" {
				t.Errorf("over the limit: %v", err)
			}
		})
	}
}

func TestSizeOfAClaim(t *testing.T) {
	asClaim := message.NewMessage(hookID, nil)
	maps.Copy(asClaim.Metadata, hook().Metadata)
	hooktest.With(asClaim, "ankusa_claim", claimRef)
	m := amqpwire.Marshaler{}
	_, claim, _ := m.Size("", hook(), "")
	if got := int64(len(marshal(t, m, asClaim).Body)); got != claim {
		t.Errorf("the claim takes %d bytes, Size said %d", got, claim)
	}
}
