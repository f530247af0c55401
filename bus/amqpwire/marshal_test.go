package amqpwire_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	amqp2 "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp3 "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/bus/amqpwire"
	"github.com/watermill-envelope/envelope/internal/amqptest"
)

// The marshaler fits where watermill-amqp takes one.
var (
	_ amqp2.Marshaler = amqpwire.Marshaler{}
	_ amqp3.Marshaler = amqpwire.Marshaler{}
)

const (
	messageID     = "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10"
	correlationID = "0199a1c2-0000-7000-8000-00000000002a"
	payload       = `{"order_id":"o-1"}`
)

// open is an open message with these metadata beside those of a typed message.
func open(keysAndValues ...string) *message.Message {
	msg := message.NewMessage(messageID, []byte(payload))
	msg.Metadata = message.Metadata{
		"hexeract_type": "orders.placed", "correlation_id": correlationID, "hexeract_published_at": "1737500000123",
	}
	for i := 0; i < len(keysAndValues); i += 2 {
		msg.Metadata[keysAndValues[i]] = keysAndValues[i+1]
	}
	return msg
}

func marshal(t testing.TB, msg *message.Message) amqp.Publishing {
	t.Helper()
	p, err := amqpwire.Marshaler{}.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The content header as Rust writes and reads it. The client leaves an empty table out, which
// Rust reads alike.
func TestContentHeaderBytes(t *testing.T) {
	const (
		class    = "\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x12" // basic, weight, body size
		json     = "\x10application/json"
		mode     = "\x02"
		chain    = "\x24" + correlationID
		id       = "\x24" + messageID
		at       = "\x00\x00\x00\x00\x67\x90\x25\x60"
		typeName = "\x0dorders.placed"
	)
	tests := map[string]struct {
		msg  *message.Message
		want string
	}{
		"no headers": {open(), class + "\x94\xe0" + json + mode + chain + id + at + typeName},
		"a header": {
			open("tenant", "acme"),
			class + "\xb4\xe0" + json + "\x00\x00\x00\x10\x06tenantS\x00\x00\x00\x04acme" + mode + chain + id + at + typeName,
		},
		"a header and a reply": {
			open("tenant", "acme", "hexeract_reply_to", "amq.gen-x"),
			class + "\xb6\xe0" + json + "\x00\x00\x00\x10\x06tenantS\x00\x00\x00\x04acme" + mode + chain + "\x09amq.gen-x" + id + at + typeName,
		},
		"a reply": {
			open("hexeract_reply_to", "amq.gen-x"),
			class + "\x96\xe0" + json + mode + chain + "\x09amq.gen-x" + id + at + typeName,
		},
		"a UTF-8 type": {
			open("hexeract_type", "größe"),
			class + "\x94\xe0" + json + mode + chain + id + at + "\x07gr\xc3\xb6\xc3\x9fe",
		},
		"an empty header": {
			open("", ""),
			class + "\xb4\xe0" + json + "\x00\x00\x00\x06\x00S\x00\x00\x00\x00" + mode + chain + id + at + typeName,
		},
		"1970": {
			open("hexeract_published_at", "999"),
			class + "\x94\xe0" + json + mode + chain + id + "\x00\x00\x00\x00\x00\x00\x00\x00" + typeName,
		},
		"before 1970, on which a Rust worker ends": {
			open("hexeract_published_at", "-5000"),
			class + "\x94\xe0" + json + mode + chain + id + "\x00\x00\x00\x00\x00\x00\x00\x00" + typeName,
		},
		"the zero time of Go": {
			open("hexeract_published_at", "-62135596800000"),
			class + "\x94\xe0" + json + mode + chain + id + "\x00\x00\x00\x00\x00\x00\x00\x00" + typeName,
		},
		"the latest time": {
			open("hexeract_published_at", "9223372036854775807"),
			class + "\x94\xe0" + json + mode + chain + id + "\x00\x20\xc4\x9b\xa5\xe3\x53\xf7" + typeName,
		},
	}
	r := amqptest.NewRecorder(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := string(r.Publish(t, marshal(t, tt.msg))); got != tt.want {
				t.Errorf("content header\n%q, want\n%q", got, tt.want)
			}
		})
	}
}

func TestMarshal(t *testing.T) {
	p := marshal(t, open("tenant", "acme", "hexeract_header_correlation_id", "of a header", "x-death", "of an earlier copy",
		"x-first-death-queue", "orders.retry", "x-last-death-reason", "expired", "envelope_raw", "of this process", "Ankusa_Headers", "of a hook", "ankusa", "kept"))
	if string(p.Body) != payload || p.Priority != 0 || p.Expiration != "" || p.UserId != "" || p.AppId != "" || p.ContentEncoding != "" {
		t.Errorf("publishing %+v", p)
	}
	want := amqp.Table{"tenant": "acme", "correlation_id": "of a header", "ankusa": "kept"}
	if !maps.EqualFunc(p.Headers, want, func(a, b any) bool { return a == b }) {
		t.Errorf("headers %v, want %v", p.Headers, want)
	}
	if p := marshal(t, open()); p.Headers == nil {
		t.Error("no table of headers")
	}
}

// A message that was made elsewhere gets ids that every consumer reads, and the same ones each
// time.
func TestMarshalIDs(t *testing.T) {
	inChain := bus.WithCorrelationID(context.Background(), uuid.MustParse(correlationID))
	v5 := uuid.NewSHA1(uuid.NameSpaceOID, []byte("order 1")).String()
	tests := map[string]struct {
		uuid, chain string
		ctx         context.Context
		wantID      string
		wantChain   string
	}{
		"both":                         {messageID, correlationID, context.Background(), messageID, correlationID},
		"another form":                 {"urn:uuid:" + strings.ToUpper(messageID), "{" + correlationID + "}", context.Background(), messageID, correlationID},
		"free text":                    {"order 1", "order 1", context.Background(), v5, v5},
		"36 bytes that are no UUID":    {"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f1g", correlationID, context.Background(), "683266ce-e2c3-5e16-8e32-551f8f207e6c", correlationID},
		"a chain of the context":       {messageID, "", inChain, messageID, correlationID},
		"its own before the context's": {messageID, messageID, inChain, messageID, messageID},
		"no chain":                     {messageID, "", context.Background(), messageID, messageID},
		"no chain, free text":          {"order 1", "", context.Background(), v5, v5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			msg := open("correlation_id", tt.chain)
			msg.UUID = tt.uuid
			msg.SetContext(tt.ctx)
			for range 2 {
				if p := marshal(t, msg); p.MessageId != tt.wantID || p.CorrelationId != tt.wantChain {
					t.Errorf("message id %s, correlation id %s, want %s and %s", p.MessageId, p.CorrelationId, tt.wantID, tt.wantChain)
				}
			}
		})
	}
	msg := open("correlation_id", "")
	msg.UUID = ""
	first := marshal(t, msg)
	if again := marshal(t, msg); first.MessageId != msg.UUID || again.MessageId != first.MessageId || again.CorrelationId != first.MessageId {
		t.Errorf("minted %s, then %s, chain %s", first.MessageId, again.MessageId, again.CorrelationId)
	}
	if id, ok := bus.ParseID(first.MessageId); !ok || id.Version() != 7 {
		t.Errorf("minted %s", first.MessageId)
	}
}

func TestMarshalRefuses(t *testing.T) {
	long := strings.Repeat("n", 256)
	tests := map[string]struct {
		msg  *message.Message
		want string
	}{
		"no type":             {open("hexeract_type", ""), "message type: is missing"},
		"a type of 256 bytes": {open("hexeract_type", long), "message type: exceeds the AMQP short-string limit: 256 bytes, at most 255"},
		"a type that breaks Rust's connection": {
			open("hexeract_type", "a\xff"), "message type: is not UTF-8",
		},
		"a name that breaks Rust's connection": {open("a\xff", "x"), "header key: is not UTF-8"},
		"a name of 256 bytes":                  {open(long, "x"), "header key: exceeds the AMQP short-string limit: 256 bytes, at most 255"},
		"a value that Rust drops":              {open("a", "\xff"), "header value: is not UTF-8"},
		"a reply to 256 bytes":                 {open("hexeract_reply_to", long), "reply_to: exceeds the AMQP short-string limit: 256 bytes, at most 255"},
		"a reply that is no text":              {open("hexeract_reply_to", "\xff"), "reply_to: is not UTF-8"},
		"a header that routes":                 {open("CC", "other"), "header key: CC is what RabbitMQ routes by"},
		"another that routes":                  {open("BCC", "other"), "header key: BCC is what RabbitMQ routes by"},
		"the content header": {
			open("a", strings.Repeat("x", 140_000)), "content header: exceeds the frame size: 140139 bytes, at most 131064",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := amqpwire.Marshaler{}.Marshal(tt.msg)
			if !errors.Is(err, bus.ErrInvalidTopology) || !envelope.IsPermanent(err) || err.Error() != "bus: invalid_topology: "+tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

// Names and types may be as long as AMQP has room for.
func TestShortStringsAtTheirLimit(t *testing.T) {
	long := strings.Repeat("n", 255)
	p := marshal(t, open("hexeract_type", long, "hexeract_reply_to", long, long, "x"))
	if p.Type != long || p.ReplyTo != long || p.Headers[long] != "x" {
		t.Errorf("publishing %+v", p)
	}
}

// What is refused, with its size, is what the client would have sent, to the byte.
func TestContentHeaderIsCountedExactly(t *testing.T) {
	big := strings.Repeat("x", 5000)
	malformed := open("a", big, "hexeract_type", "", "hexeract_malformed", "missing_type")
	r := amqptest.NewRecorder(t)
	for name, msg := range map[string]*message.Message{
		"a header": open("a", big), "a reply and headers": open("a", big, "b", "", "hexeract_reply_to", "q"), "no type": malformed,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := amqpwire.Marshaler{FrameMax: 4096}.Marshal(msg)
			var tooLarge *bus.Error
			if !errors.As(err, &tooLarge) || tooLarge.Field != "content header" || tooLarge.Max != 4088 {
				t.Fatalf("error %v", err)
			}
			if sent := r.Publish(t, marshal(t, msg)); int64(len(sent)) != tooLarge.Size {
				t.Errorf("the client sends %d bytes, counted %d", len(sent), tooLarge.Size)
			}
			// The limit is inclusive, and leaves 8 bytes of the frame.
			if _, err := (amqpwire.Marshaler{FrameMax: tooLarge.Size + 8}).Marshal(msg); err != nil {
				t.Errorf("a frame of %d bytes: %v", tooLarge.Size+8, err)
			}
			if _, err := (amqpwire.Marshaler{FrameMax: tooLarge.Size + 7}).Marshal(msg); err == nil {
				t.Errorf("a frame of %d bytes is enough", tooLarge.Size+7)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for frameMax, valid := range map[int64]bool{0: true, 4096: true, 1 << 20: true, 4095: false, -1: false} {
		if err := (amqpwire.Marshaler{FrameMax: frameMax}).Validate(); (err == nil) != valid {
			t.Errorf("%d: error %v", frameMax, err)
		}
	}
}

// A message that fails reaches the poison queue, whatever bytes the error quotes.
func TestMarshalRepairsTheReasonOfThePoisonQueue(t *testing.T) {
	if p := marshal(t, open("reason_poisoned", "no such \xff")); p.Headers["reason_poisoned"] != "no such \uFFFD" {
		t.Errorf("headers %v", p.Headers)
	}
}

func TestMarshalWithoutTime(t *testing.T) {
	for _, text := range []string{"", "yesterday", "9223372036854775808", "1.5"} {
		before := time.Now().Unix()
		p := marshal(t, open("hexeract_published_at", text))
		if at := p.Timestamp.Unix(); at < before || at > time.Now().Unix() {
			t.Errorf("%q: published at %d", text, at)
		}
	}
}

func ExampleMarshaler() {
	e := bus.Restore(uuid.MustParse(messageID), "orders.placed", []byte(payload), uuid.MustParse(correlationID), "", nil, time.Unix(1737500000, 0))
	p, err := amqpwire.Marshaler{}.Marshal(e.Message())
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Type, p.MessageId, p.CorrelationId)
	fmt.Println(p.ContentType, p.DeliveryMode, p.Timestamp.Unix())
	fmt.Println(string(p.Body))
	// Output:
	// orders.placed 0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 0199a1c2-0000-7000-8000-00000000002a
	// application/json 2 1737500000
	// {"order_id":"o-1"}
}
