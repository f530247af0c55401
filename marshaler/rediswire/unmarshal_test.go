package rediswire_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
)

// entry is one with this payload and these fields, given as lines name=value.
func entry(payload string, lines ...string) map[string]any {
	values := map[string]any{"payload": payload}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		values[name] = value
	}
	return values
}

func unmarshal(t testing.TB, m rediswire.Marshaler, values map[string]any) *message.Message {
	t.Helper()
	msg, err := m.Unmarshal(values)
	if err != nil {
		t.Fatal(err)
	}
	if msg == nil || msg.Metadata == nil {
		t.Fatalf("message %v", msg)
	}
	return msg
}

// What a foreign producer may put beside a well-formed payload, and what is left of it.
func TestUnmarshalForeignFields(t *testing.T) {
	big := strings.Repeat("x", 140_000)
	tests := []struct {
		rule   string
		fields map[string]any
		want   message.Metadata // beside those of the payload
	}{
		{"payload is enough", nil, nil},
		{"meta: is taken off once", map[string]any{"meta:a": "1", "meta:meta:b": "2", "meta:": "3"}, message.Metadata{"a": "1", "meta:b": "2", "": "3"}},
		{"names keep their case", map[string]any{"meta:Mixed-Case": "1", "meta:mixed-case": "2", "META:x": "3"}, message.Metadata{"Mixed-Case": "1", "mixed-case": "2", "META:x": "3"}},
		{"fields of a foreign producer are metadata too", map[string]any{"a": "1", "": "2"}, message.Metadata{"a": "1", "": "2"}},
		{"and lose to those with meta:", map[string]any{"a": "plain", "meta:a": "meta"}, message.Metadata{"a": "meta"}},
		{"the msgpack of a stock producer is not", map[string]any{"metadata": "\x81\xa1a\xa1b", "meta:metadata": "mine"}, message.Metadata{"metadata": "mine"}},
		{"nor is its empty one", map[string]any{"metadata": ""}, nil},
		{"values of other types", map[string]any{
			"meta:b": []byte("bytes"), "i": 7, "i64": int64(-7), "u": uint8(8), "t": true, "f": 1.5,
		}, message.Metadata{"b": "bytes", "i": "7", "i64": "-7", "u": "8", "t": "true", "f": "1.5"}},
		{"what is no text is dropped", map[string]any{"a": nil, "b": []string{"x"}, "c": map[string]any{}, "d": func() {}, "e": make(chan int)}, nil},
		{"values that are not UTF-8 are dropped", map[string]any{"meta:a": "\xff", "b": []byte{0xff}, "c": "kept"}, message.Metadata{"c": "kept"}},
		{"names that are not UTF-8 are dropped", map[string]any{"meta:\xff": "1", "\xc0\x80": "2"}, nil},
		{"140,000 bytes", map[string]any{"meta:a": big}, message.Metadata{"a": big}},
		{
			"nothing of ours is believed, in any letter case, with meta: or without",
			map[string]any{
				"envelope_redeemed": "true", "Envelope_Malformed": "x", "meta:envelope_raw": "y", "meta:ENVELOPE_FALLBACK": "true",
				"meta:envelope_receipt": "z", "ankusa_id": "evil", "meta:ankusa_id": "evil", "Ankusa_Tenant_Id": "evil", "meta:ANKUSA_CLAIM": claimRef,
				"ankusa_verification": "ok", "ankusa_message_version": "9", "meta:ankusa_message_version": "9", "TRACEPARENT": "00", "meta:tracestate": "a=b",
			},
			nil,
		},
		{
			"framing of stock transports is dropped, other keys of Watermill are the user's",
			map[string]any{"_watermill_message_uuid": "u", "meta:_watermill_amqp_redelivered": "true", "publishTime": "now", "meta:_watermill_requeued_from": "kept"},
			message.Metadata{"_watermill_requeued_from": "kept"},
		},
		{"the content type of the entry is not the user's", map[string]any{"content_type": "text/plain", "meta:content_type": "text/csv"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			values := entry(hookJSON)
			maps.Copy(values, tt.fields)
			msg := unmarshal(t, rediswire.Marshaler{Source: "ignored", Tenant: "ignored"}, values)
			want := hook().Metadata
			want["envelope_receipt"] = "redis"
			maps.Copy(want, tt.want)
			if msg.UUID != hookID || string(msg.Payload) != "hello" || !maps.Equal(msg.Metadata, want) {
				t.Errorf("%s %q %v, want %v", msg.UUID, msg.Payload, msg.Metadata, want)
			}
			if _, err := (rediswire.Marshaler{}).Marshal("next", msg); err != nil {
				t.Errorf("it cannot be passed on: %v", err)
			}
		})
	}
}

func TestUnmarshalMemberWins(t *testing.T) {
	payload := strings.Replace(hookJSON, `"sha256"`, `"watermill_metadata":{"a":"member","c":"member","content_type":"text/csv"},"sha256"`, 1)
	msg := unmarshal(t, rediswire.Marshaler{}, entry(payload, "meta:a=field", "meta:b=field", "c=field", "content_type=application/json"))
	for name, want := range map[string]string{"a": "member", "b": "field", "c": "member", "content_type": "text/csv"} {
		if got := msg.Metadata[name]; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestUnmarshalPayloadOfBytes(t *testing.T) {
	payload := []byte(hookJSON)
	msg := unmarshal(t, rediswire.Marshaler{}, map[string]any{"payload": payload})
	clear(payload)
	if msg.UUID != hookID || string(msg.Payload) != "hello" {
		t.Errorf("got %s %q", msg.UUID, msg.Payload)
	}
}

func TestUnmarshalMalformed(t *testing.T) {
	tests := []struct {
		rule   string
		values map[string]any
		reason string
		id     string // "" is minted
	}{
		{"a deleted entry", nil, "invalid_json", ""},
		{"no payload", map[string]any{"event": "x", "meta:a": "1"}, "invalid_json", ""},
		{"an empty payload", entry(""), "invalid_json", ""},
		{"a payload of no text", map[string]any{"payload": []int{1}, "a": "1"}, "invalid_json", ""},
		{"text with fields of many kinds", entry("hello\x00\xff", "a=1", "meta:a=2", "\xff=\xfe", "metadata=\x81\xa1a\xa1b", "content_type=x", "=y"), "invalid_json", ""},
		{"another format", entry(`[1]`), "not_an_object", ""},
		{"a later version", entry(`{"v":3}`, "ankusa_message_version=3", "traceparent="+traceparent), "unsupported_version", ""},
		{"a field of the wrong type", entry(strings.Replace(hookJSON, `"acme",`, `7,`, 1)), "invalid_field:tenant_id", ""},
		{"a body that was changed", entry(strings.Replace(hookJSON, "aGVsbG8", "SGVsbG8", 1)), "integrity", ""},
		{"the UUID of a stock producer", entry("x", "_watermill_message_uuid=u-1", "metadata="), "invalid_json", "u-1"},
		{"an attribute of ours", entry("x", "ankusa_id=a-1"), "invalid_json", "a-1"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			m := rediswire.Marshaler{}
			msg := unmarshal(t, m, tt.values)
			if len(msg.Payload) != 0 {
				t.Errorf("a handler without the gate would get %q", msg.Payload)
			}
			if got := msg.Metadata["envelope_malformed"]; got != tt.reason || !envelope.IsMalformed(msg) {
				t.Errorf("malformed %q, want %q", got, tt.reason)
			}
			if tt.id != "" && msg.UUID != tt.id || msg.UUID == "" {
				t.Errorf("id %q, want %q", msg.UUID, tt.id)
			}

			// The poison stream: the same fields, and the reason beside them.
			msg.Metadata["reason_poisoned"] = "malformed"
			got := stored(t, marshal(t, m, msg))
			want := maps.Clone(tt.values)
			if want == nil {
				want = map[string]any{}
			}
			if _, ok := want["payload"].(string); !ok {
				want["payload"] = ""
			}
			want["ankusa_id"], want["reason_poisoned"] = msg.UUID, "malformed"
			if !maps.Equal(got, want) {
				t.Errorf("passed on as\n%q, want\n%q", got, want)
			}
			if again := unmarshal(t, m, got); again.UUID != msg.UUID || !maps.Equal(again.Metadata, msg.Metadata) {
				t.Errorf("read again as %s %v, want %s %v", again.UUID, again.Metadata, msg.UUID, msg.Metadata)
			}
		})
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
		"user metadata": hooktest.With(hook(), "a", "", "é", "\u2028<&>", "content_type", "x", "\u0000", "\u0001", "", "nameless",
			"payload", "p", "metadata", "m", "meta:", "n", strings.Repeat("n", 300), "v"),
		"a claim": hooktest.With(func() *message.Message { m := hook(); m.Payload = nil; return m }(), "ankusa_claim", claimRef),
	}
	pubsub := rediswire.PubSubMarshaler{}
	for name, msg := range tests {
		t.Run(name, func(t *testing.T) {
			m := rediswire.Marshaler{}
			stream := func(msg *message.Message) *message.Message { return unmarshal(t, m, stored(t, marshal(t, m, msg))) }
			channel := func(msg *message.Message) *message.Message {
				opened, err := pubsub.Unmarshal("hooks", publish(t, pubsub, msg))
				if err != nil {
					t.Fatal(err)
				}
				return opened
			}
			for _, trip := range []func(*message.Message) *message.Message{stream, channel} {
				opened := trip(msg)
				again := trip(opened)
				for _, got := range []*message.Message{opened, again, stream(channel(msg))} {
					if string(got.Payload) != string(msg.Payload) || got.UUID != msg.UUID {
						t.Errorf("got %s %q", got.UUID, got.Payload)
					}
					for name, want := range msg.Metadata {
						if name != "ankusa_size" && name != "ankusa_sha256" && got.Metadata[name] != want {
							t.Errorf("%s = %q, want %q", name, got.Metadata[name], want)
						}
					}
				}
				if !maps.Equal(opened.Metadata, again.Metadata) {
					t.Errorf("the second trip changed %v to %v", opened.Metadata, again.Metadata)
				}
			}
		})
	}
}
