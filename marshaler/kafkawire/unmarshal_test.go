package kafkawire_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

func headers(lines ...string) []*sarama.RecordHeader {
	var list []*sarama.RecordHeader
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		list = append(list, &sarama.RecordHeader{Key: []byte(name), Value: []byte(value)})
	}
	return list
}

func record(value string, headerLines ...string) *sarama.ConsumerMessage {
	return &sarama.ConsumerMessage{
		Topic: "hooks", Partition: 3, Offset: 42,
		Key: []byte("acme/stripe"), Value: []byte(value), Headers: headers(headerLines...),
	}
}

// consumed is the record as a consumer gets it.
func consumed(t testing.TB, p *sarama.ProducerMessage) *sarama.ConsumerMessage {
	t.Helper()
	r := &sarama.ConsumerMessage{Topic: p.Topic, Partition: 3, Offset: 42}
	if p.Key != nil {
		r.Key = []byte(encoded(t, p.Key))
	}
	if p.Value != nil {
		r.Value = []byte(encoded(t, p.Value))
	}
	for _, h := range p.Headers {
		r.Headers = append(r.Headers, &sarama.RecordHeader{Key: slices.Clone(h.Key), Value: slices.Clone(h.Value)})
	}
	return r
}

func unmarshal(t *testing.T, m kafkawire.Marshaler, r *sarama.ConsumerMessage) *message.Message {
	t.Helper()
	msg, err := m.Unmarshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if msg == nil || msg.Metadata == nil {
		t.Fatalf("message %v", msg)
	}
	return msg
}

func TestUnmarshalRecord(t *testing.T) {
	msg := unmarshal(t, kafkawire.Marshaler{Source: "ignored", Tenant: "ignored"}, record(hookJSON,
		"ankusa_id=another", "ankusa_source_id=another", "content_type=application/json", "correlation_id=c-1"))
	want := hook()
	want.Metadata["correlation_id"] = "c-1"
	want.Metadata["envelope_receipt"] = "hooks/3/42"
	if msg.UUID != hookID || string(msg.Payload) != "hello" || !maps.Equal(msg.Metadata, want.Metadata) {
		t.Errorf("got %s %q %v, want %v", msg.UUID, msg.Payload, msg.Metadata, want.Metadata)
	}
}

// What a foreign producer may put beside a well-formed value, and what is left of it.
func TestUnmarshalForeignHeaders(t *testing.T) {
	big := strings.Repeat("x", 140_000)
	tests := []struct {
		rule    string
		headers []*sarama.RecordHeader
		want    message.Metadata // beside those of the value
	}{
		{"no headers are needed", nil, nil},
		{"a nil header", []*sarama.RecordHeader{nil}, nil},
		{"names keep their case", headers("Mixed-Case=1", "mixed-case=2"), message.Metadata{"Mixed-Case": "1", "mixed-case": "2"}},
		{"of several the last counts", headers("a=1", "b=2", "a=3"), message.Metadata{"a": "3", "b": "2"}},
		{"empty names and values are metadata", headers("=1", "a="), message.Metadata{"": "1", "a": ""}},
		{"a nil value is empty", []*sarama.RecordHeader{{Key: []byte("a")}}, message.Metadata{"a": ""}},
		{"values that are not UTF-8 are dropped", headers("a=\xff", "b=2"), message.Metadata{"b": "2"}},
		{"names that are not UTF-8 are dropped", headers("\xc0\x80=1", "b=2"), message.Metadata{"b": "2"}},
		{"140,000 bytes", headers("a=" + big), message.Metadata{"a": big}},
		{"a name of 300 bytes", headers(big[:300] + "=1"), message.Metadata{big[:300]: "1"}},
		{
			"nothing of ours is believed, in any letter case",
			headers("envelope_redeemed=true", "Envelope_Malformed=x", "ENVELOPE_RAW=y", "envelope_fallback=true",
				"envelope_receipt=z", "ankusa_tenant_id=evil", "Ankusa_Id=evil", "ANKUSA_CLAIM=urn", "ankusa_verification=ok",
				"ankusa_message_version=9", "TRACEPARENT=00", "tracestate=evil=1"),
			nil,
		},
		{
			"framing of stock transports is dropped, other keys of Watermill are the user's",
			headers("_watermill_message_uuid=u", "_watermill_amqp_redelivered=true", "publishTime=now",
				"_watermill_message_google_message_id=g", "_watermill_requeued_from=kept"),
			message.Metadata{"_watermill_requeued_from": "kept"},
		},
		{"the content type of the record is not the user's", headers("content_type=text/plain"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			r := record(hookJSON)
			r.Headers = tt.headers
			msg := unmarshal(t, kafkawire.Marshaler{}, r)
			want := hook().Metadata
			want["envelope_receipt"] = "hooks/3/42"
			maps.Copy(want, tt.want)
			if !maps.Equal(msg.Metadata, want) {
				t.Errorf("metadata %v, want %v", msg.Metadata, want)
			}
			if _, err := (kafkawire.Marshaler{}).Marshal("next", msg); err != nil {
				t.Errorf("it cannot be passed on: %v", err)
			}
		})
	}
}

func TestUnmarshalMemberWins(t *testing.T) {
	value := strings.Replace(hookJSON, `"sha256"`, `"watermill_metadata":{"a":"member","content_type":"text/csv"},"sha256"`, 1)
	msg := unmarshal(t, kafkawire.Marshaler{}, record(value, "a=native", "b=native", "content_type=application/json"))
	for name, want := range map[string]string{"a": "member", "b": "native", "content_type": "text/csv"} {
		if got := msg.Metadata[name]; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestUnmarshalMalformed(t *testing.T) {
	tests := []struct {
		rule   string
		record *sarama.ConsumerMessage
		reason string
		id     string // "" is minted
	}{
		{"a tombstone", &sarama.ConsumerMessage{Topic: "hooks"}, "invalid_json", ""},
		{"an empty value", record(""), "invalid_json", ""},
		{"text", record("hello"), "invalid_json", ""},
		{"another format", record(`[1]`), "not_an_object", ""},
		{"a later version", record(`{"v":3}`), "unsupported_version", ""},
		{"a field of the wrong type", record(strings.Replace(hookJSON, `"acme",`, `7,`, 1)), "invalid_field:tenant_id", ""},
		{"a body that was changed", record(strings.Replace(hookJSON, "aGVsbG8", "SGVsbG8", 1)), "integrity", ""},
		{"the UUID of a stock producer", record("x", "_watermill_message_uuid=u-1"), "invalid_json", "u-1"},
		{"an attribute of ours", record("x", "ankusa_id=a-1"), "invalid_json", "a-1"},
		{"an id that is no text", record("x", "ankusa_id=\xff", "_watermill_message_uuid=\xfe"), "invalid_json", ""},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			m := kafkawire.Marshaler{}
			msg := unmarshal(t, m, tt.record)
			if len(msg.Payload) != 0 {
				t.Errorf("a handler without the gate would get %q", msg.Payload)
			}
			if got := msg.Metadata["envelope_malformed"]; got != tt.reason || !envelope.IsMalformed(msg) {
				t.Errorf("malformed %q, want %q", got, tt.reason)
			}
			if got := envelope.Raw(msg); string(got) != string(tt.record.Value) {
				t.Errorf("raw %q, want %q", got, tt.record.Value)
			}
			if tt.id != "" && msg.UUID != tt.id || msg.UUID == "" {
				t.Errorf("id %q, want %q", msg.UUID, tt.id)
			}

			// The poison queue: the same bytes, key and headers, and the reasons.
			msg.Metadata["reason_poisoned"] = "malformed"
			out := marshal(t, m, msg)
			if got := consumed(t, out); string(got.Value) != string(tt.record.Value) ||
				(got.Value == nil) != (tt.record.Value == nil) || string(got.Key) != string(tt.record.Key) {
				t.Errorf("passed on as %q %q, want %q %q", got.Key, got.Value, tt.record.Key, tt.record.Value)
			}
			if !out.Timestamp.IsZero() {
				t.Errorf("timestamp %v", out.Timestamp)
			}
			got := headerLines(out.Headers)
			for _, h := range tt.record.Headers {
				if line := string(h.Key) + "=" + string(h.Value); string(h.Key) != "ankusa_id" && !slices.Contains(got, line) {
					t.Errorf("the header %q is gone from %q", line, got)
				}
			}
			if !slices.Contains(got, "reason_poisoned=malformed") {
				t.Errorf("no reason in %q", got)
			}
			for _, line := range got {
				if strings.HasPrefix(line, "envelope_") {
					t.Errorf("%q is on the wire", line)
				}
			}
			if !slices.IsSorted(got) {
				t.Errorf("headers in no order: %q", got)
			}
		})
	}
}

func TestUnmarshalNilRecord(t *testing.T) {
	if msg, err := (kafkawire.Marshaler{}).Unmarshal(nil); err == nil || msg != nil {
		t.Errorf("got %v, %v", msg, err)
	}
}

// What was opened may be kept: it does not change with the consumer's buffers.
func TestUnmarshalDoesNotAlias(t *testing.T) {
	good, bad := record(hookJSON, "a=1"), record("broken", "a=1")
	var opened []*message.Message
	for _, r := range []*sarama.ConsumerMessage{good, bad} {
		opened = append(opened, unmarshal(t, kafkawire.Marshaler{}, r))
		for _, b := range [][]byte{r.Value, r.Key, r.Headers[0].Key, r.Headers[0].Value} {
			clear(b)
		}
	}
	if string(opened[0].Payload) != "hello" || opened[0].Metadata["a"] != "1" || opened[0].UUID != hookID {
		t.Errorf("the opened message changed: %v", opened[0])
	}
	if string(envelope.Raw(opened[1])) != "broken" || opened[1].Metadata["a"] != "1" ||
		opened[1].Metadata["envelope_key"] != "acme/stripe" {
		t.Errorf("the malformed message changed: %v", opened[1])
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
		"before 1970":     hooktest.With(hook(), "ankusa_received_at", "-1"),
		"a year ahead":    hooktest.With(hook(), "ankusa_received_at", "4102444800000"),
	}
	for name, msg := range tests {
		t.Run(name, func(t *testing.T) {
			m := kafkawire.Marshaler{}
			opened := unmarshal(t, m, consumed(t, marshal(t, m, msg)))
			again := unmarshal(t, m, consumed(t, marshal(t, m, opened)))
			for _, got := range []*message.Message{opened, again} {
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
		})
	}
}
