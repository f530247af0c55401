package amqpwire_test

import (
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
)

func delivery(body string, headers amqp.Table) amqp.Delivery {
	return amqp.Delivery{
		DeliveryTag: 7, Exchange: "hooks", RoutingKey: "ankusa.stripe", Body: []byte(body), Headers: headers,
	}
}

// delivered is the publishing as a consumer gets it.
func delivered(p amqp.Publishing) amqp.Delivery {
	d := delivery(string(p.Body), p.Headers)
	d.MessageId, d.ContentType, d.Timestamp, d.DeliveryMode = p.MessageId, p.ContentType, p.Timestamp, p.DeliveryMode
	return d
}

func unmarshal(t *testing.T, m amqpwire.Marshaler, d amqp.Delivery) *message.Message {
	t.Helper()
	msg, err := m.Unmarshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if msg == nil || msg.Metadata == nil {
		t.Fatalf("message %v", msg)
	}
	return msg
}

// xDeath is what RabbitMQ 3 and 4 write.
func xDeath(count int64) []any {
	return []any{amqp.Table{
		"count": count, "exchange": "hooks", "queue": "orders", "reason": "rejected",
		"routing-keys": []any{"ankusa.stripe"}, "time": time.Unix(1737500000, 0),
	}}
}

const xDeathText = `[{"count":2,"exchange":"hooks","queue":"orders","reason":"rejected",` +
	`"routing-keys":["ankusa.stripe"],"time":"2025-01-21T22:53:20Z"}]`

func TestUnmarshalHeaders(t *testing.T) {
	deep := any("bottom")
	for range 20 {
		deep = []any{deep}
	}
	big := strings.Repeat("x", 140_000)
	tests := []struct {
		rule    string
		headers amqp.Table
		want    message.Metadata // beside those of the body
	}{
		{"no headers are needed", nil, nil},
		{"strings", amqp.Table{"a": "1", "Mixed-Case": "", "": "x"}, message.Metadata{"a": "1", "Mixed-Case": "", "": "x"}},
		{
			"integers of every kind",
			amqp.Table{
				"b": int8(-8), "B": uint8(8), "s": int16(-16), "u": uint16(16), "I": int32(-32), "i": uint32(32),
				"l": int64(math.MinInt64), "n": int(64),
			},
			message.Metadata{
				"b": "-8", "B": "8", "s": "-16", "u": "16", "I": "-32", "i": "32",
				"l": "-9223372036854775808", "n": "64",
			},
		},
		{
			"booleans, floats and times",
			amqp.Table{"t": true, "f": false, "f32": float32(0.1), "f64": 1e300, "T": time.Unix(-1, 0)},
			message.Metadata{"t": "true", "f": "false", "f32": "0.1", "f64": "1e+300", "T": "1969-12-31T23:59:59Z"},
		},
		{
			"decimals",
			amqp.Table{
				"a": amqp.Decimal{Scale: 2, Value: 12345}, "b": amqp.Decimal{Scale: 2, Value: -5},
				"c": amqp.Decimal{Value: 7}, "d": amqp.Decimal{Scale: 5, Value: math.MinInt32},
			},
			message.Metadata{"a": "123.45", "b": "-0.05", "c": "7", "d": "-21474.83648"},
		},
		{
			"what has no text form is dropped",
			amqp.Table{"nil": nil, "nan": math.NaN(), "inf": float32(math.Inf(1)), "deep": deep, "chan": make(chan int), "a": "kept"},
			message.Metadata{"a": "kept"},
		},
		{
			"text that is not UTF-8 is dropped, wherever it is",
			amqp.Table{
				"s": "\xff", "x": []byte("\xff"), "A": []any{"\xff"}, "F": amqp.Table{"\xff": "a"}, "AF": []any{amqp.Table{"a": []byte("\xff")}},
				"\xff": "name", "x-death": []any{amqp.Table{"queue": "\xff"}}, "ok": []byte("é"),
			},
			message.Metadata{"ok": "é"},
		},
		{
			"tables and arrays are JSON, names sorted",
			amqp.Table{"F": amqp.Table{"b": int32(1), "a": nil, "<": "&"}, "A": []any{true, 1.5, []byte("é"), amqp.Table{}, []any{}}},
			message.Metadata{"F": `{"<":"&","a":null,"b":1}`, "A": `[true,1.5,"é",{},[]]`},
		},
		{
			"x-death and its kin",
			amqp.Table{"x-death": xDeath(2), "x-delivery-count": int64(3), "x-first-death-queue": "orders"},
			message.Metadata{"x-death": xDeathText, "x-delivery-count": "3", "x-first-death-queue": "orders"},
		},
		{"140,000 bytes", amqp.Table{"a": big}, message.Metadata{"a": big}},
		{"a name of 300 bytes", amqp.Table{big[:300]: "1"}, message.Metadata{big[:300]: "1"}},
		{
			"nothing of ours is believed, in any letter case and of any type",
			amqp.Table{
				"envelope_redeemed": true, "Envelope_Malformed": "x", "envelope_receipt": "z", "ankusa_id": "evil",
				"Ankusa_Tenant_Id": "evil", "ANKUSA_CLAIM": claimRef, "ankusa_message_version": int32(9), "TraceParent": "00",
			},
			nil,
		},
		{
			"framing is dropped, other keys of Watermill are the user's",
			amqp.Table{"_watermill_message_uuid": "u", "content_type": "text/plain", "_watermill_requeued_from": "kept"},
			message.Metadata{"_watermill_requeued_from": "kept"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			msg := unmarshal(t, amqpwire.Marshaler{}, delivery(hookJSON, tt.headers))
			want := hook().Metadata
			want["envelope_receipt"] = "hooks/ankusa.stripe/0"
			if tt.want["x-death"] != "" {
				want["envelope_receipt"] = "hooks/ankusa.stripe/2"
			}
			maps.Copy(want, tt.want)
			if msg.UUID != hookID || string(msg.Payload) != "hello" || !maps.Equal(msg.Metadata, want) {
				t.Errorf("%s %q\n%v, want\n%v", msg.UUID, msg.Payload, msg.Metadata, want)
			}
			if _, err := (amqpwire.Marshaler{}).Marshal(msg); err != nil {
				t.Errorf("it cannot be passed on: %v", err)
			}
		})
	}
}

func TestUnmarshalMemberWins(t *testing.T) {
	body := strings.Replace(hookJSON, `"sha256"`, `"watermill_metadata":{"a":"member","x-death":"of an earlier copy","x-delivery-count":"9"},"sha256"`, 1)
	msg := unmarshal(t, amqpwire.Marshaler{}, delivery(body, amqp.Table{"a": "header", "b": "header", "x-death": xDeath(2)}))
	for name, want := range map[string]string{
		"a": "member", "b": "header",
		"x-death":          xDeathText, // a fact about this copy
		"x-delivery-count": "9",
	} {
		if got := msg.Metadata[name]; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestReceipt(t *testing.T) {
	fromQueue := delivery(hookJSON, amqp.Table{"x-death": []any{xDeath(2)[0], xDeath(3)[0], "odd", amqp.Table{"count": "odd"}}})
	fromQueue.Exchange, fromQueue.RoutingKey = "", "orders"
	redelivered := delivery(hookJSON, amqp.Table{"x-delivery-count": int64(4)})
	redelivered.Redelivered, redelivered.DeliveryTag = true, 99
	for want, d := range map[string]amqp.Delivery{
		"hooks/ankusa.stripe/0": redelivered, // the same copy as the first time
		"/orders/5":             fromQueue,
	} {
		if got := unmarshal(t, amqpwire.Marshaler{}, d).Metadata["envelope_receipt"]; got != want {
			t.Errorf("receipt %q, want %q", got, want)
		}
	}
}

func TestUnmarshalMalformed(t *testing.T) {
	odd := amqp.Table{
		"ankusa_message_version": "1", "ankusa_id": "a-1", "a": "\xff", "n": int32(5), "CC": []any{"other"}, "x-death": xDeath(2),
		strings.Repeat("n", 300): "x",
	}
	withID := delivery("broken", odd)
	withID.MessageId = "m-1"
	stock := delivery("x", amqp.Table{"_watermill_message_uuid": "u-1", "ankusa_id": "a-1"})
	stock.MessageId = "m-1"
	notText := delivery("broken", nil)
	notText.MessageId = "\xff"
	tests := []struct {
		rule     string
		delivery amqp.Delivery
		reason   string
		id       string // "" is minted
	}{
		{"an empty body", delivery("", nil), "invalid_json", ""},
		{"text", delivery("hello", nil), "invalid_json", ""},
		{"a later version", delivery(`{"v":3}`, nil), "unsupported_version", ""},
		{"a field of the wrong type", delivery(strings.Replace(hookJSON, `"acme",`, `7,`, 1), nil), "invalid_field:tenant_id", ""},
		{"a body that was changed", delivery(strings.Replace(hookJSON, "aGVsbG8", "SGVsbG8", 1), nil), "integrity", ""},
		{"the message id", withID, "invalid_json", "m-1"},
		{"the UUID of a stock producer", delivery("x", amqp.Table{"_watermill_message_uuid": "u-1"}), "invalid_json", "u-1"},
		{"the UUID of a stock producer, not the message id", stock, "invalid_json", "u-1"},
		{"a UUID that is no string", delivery("x", amqp.Table{"_watermill_message_uuid": int32(5)}), "invalid_json", "5"},
		{"an attribute of ours", delivery("x", odd), "invalid_json", "a-1"},
		{"an id that is no text", notText, "invalid_json", ""},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			m := amqpwire.Marshaler{}
			msg := unmarshal(t, m, tt.delivery)
			if len(msg.Payload) != 0 || !envelope.IsMalformed(msg) || msg.Metadata["envelope_malformed"] != tt.reason {
				t.Fatalf("payload %q, malformed %q", msg.Payload, msg.Metadata["envelope_malformed"])
			}
			if string(envelope.Raw(msg)) != string(tt.delivery.Body) || msg.UUID == "" || tt.id != "" && msg.UUID != tt.id {
				t.Errorf("id %q raw %q", msg.UUID, envelope.Raw(msg))
			}
			hooktest.With(msg, "reason_poisoned", "malformed", "_watermill_amqp_redelivered", "true")

			p := marshal(t, m, msg)
			if string(p.Body) != string(tt.delivery.Body) || p.MessageId != msg.UUID || p.DeliveryMode != 2 ||
				p.ContentType != "" || !p.Timestamp.IsZero() {
				t.Errorf("passed on as %+v", p)
			}
			want := amqp.Table{"reason_poisoned": "malformed", "ankusa_id": msg.UUID}
			for name, value := range tt.delivery.Headers {
				switch name {
				case "CC", "x-death", strings.Repeat("n", 300): // which may not be headers
				case "ankusa_id":
				case "n":
					want[name] = "5"
				case "_watermill_message_uuid":
					want[name] = tt.id
				default:
					want[name] = value
				}
			}
			if !maps.EqualFunc(p.Headers, want, func(a, b any) bool { return a == b }) {
				t.Errorf("headers %q, want %q", p.Headers, want)
			}
		})
	}
}

// The zero Delivery is what a closed channel yields: not a message, and to be told from one.
func TestUnmarshalZeroDelivery(t *testing.T) {
	if msg, err := (amqpwire.Marshaler{}).Unmarshal(amqp.Delivery{}); err == nil || msg != nil {
		t.Errorf("got %v, %v", msg, err)
	}
	if msg := unmarshal(t, amqpwire.Marshaler{}, amqp.Delivery{Acknowledger: &amqp.Channel{}}); !envelope.IsMalformed(msg) {
		t.Errorf("an empty message is one: %v", msg)
	}
}

func TestRoundTrip(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	tests := map[string]*message.Message{
		"the hook":        hook(),
		"an empty body":   func() *message.Message { m := hook(); m.Payload = message.Payload{}; return m }(),
		"every byte":      func() *message.Message { m := hook(); m.Payload = every; return m }(),
		"unknown members": hooktest.With(hook(), "ankusa_unknown", `{"later":{"a":[1,2]}}`),
		"a flag":          hooktest.With(hook(), "ankusa_verification", "failed", "ankusa_verification_flagged", "true"),
		"user metadata":   hooktest.With(hook(), "a", "", "é", "\u2028<&>", "content_type", "x", "\u0000", "\u0001", strings.Repeat("n", 300), "v"),
		"140,000 bytes":   hooktest.With(hook(), "a", strings.Repeat("x", 140_000), "b", "small"),
	}
	for name, msg := range tests {
		t.Run(name, func(t *testing.T) {
			m := amqpwire.Marshaler{}
			opened := unmarshal(t, m, delivered(marshal(t, m, msg)))
			again := unmarshal(t, m, delivered(marshal(t, m, opened)))
			want := maps.Clone(msg.Metadata)
			for _, name := range []string{"ankusa_size", "ankusa_sha256"} {
				want[name] = opened.Metadata[name]
			}
			want["envelope_receipt"] = "hooks/ankusa.stripe/0"
			for _, got := range []*message.Message{opened, again} {
				if string(got.Payload) != string(msg.Payload) || got.UUID != msg.UUID || !maps.Equal(got.Metadata, want) {
					t.Errorf("got %s %q %v, want %v", got.UUID, got.Payload, got.Metadata, want)
				}
			}
		})
	}
}
