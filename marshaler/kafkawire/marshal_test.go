package kafkawire_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

const (
	hookID      = hooktest.ID
	traceparent = hooktest.Traceparent
)

// The hook of the wire format's documentation, and its two forms.
const hookJSON = `{"v":1,"id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","source_id":"stripe","tenant_id":"acme",` +
	`"received_at":1737500000000,"content_type":"application/json","size":5,"dedupe_key":"evt_1","replay_id":null,` +
	`"idempotency_key":"acme:stripe:evt_1","verification":{"status":"ok","flagged":false},` +
	`"headers":{"x-github-event":"push"},` +
	`"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":null,` +
	`"instance":"default","region":"eu-west-1",` +
	`"sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","body_base64":"aGVsbG8="}`

func hook() *message.Message { return hooktest.Message() }

func headerLines(headers []sarama.RecordHeader) []string {
	var lines []string
	for _, h := range headers {
		lines = append(lines, string(h.Key)+"="+string(h.Value))
	}
	return lines
}

func encoded(t testing.TB, e sarama.Encoder) string {
	t.Helper()
	if e == nil {
		return "<none>"
	}
	b, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func marshal(t *testing.T, m kafkawire.Marshaler, msg *message.Message) *sarama.ProducerMessage {
	t.Helper()
	record, err := m.Marshal("hooks", msg)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func TestMarshalRecord(t *testing.T) {
	record := marshal(t, kafkawire.Marshaler{Source: "default", Tenant: "default"}, hooktest.With(hook(),
		"zebra", "last", "correlation_id", "c-1", "Mixed-Case", "", "naïve", "é\n\x00",
		"ankusa_replay_id", "", "ankusa_ordering_key", "lane-7", "tracestate", "a=b"))
	if record.Topic != "hooks" {
		t.Errorf("topic %q", record.Topic)
	}
	if got := encoded(t, record.Key); got != "lane-7" {
		t.Errorf("key %q", got)
	}
	if want := time.UnixMilli(1737500000000); !record.Timestamp.Equal(want) {
		t.Errorf("timestamp %v, want %v", record.Timestamp, want)
	}
	want := []string{
		"ankusa_id=" + hookID,
		"ankusa_source_id=stripe",
		"ankusa_tenant_id=acme",
		"ankusa_message_version=1",
		"ankusa_idempotency_key=acme:stripe:evt_1",
		"content_type=application/json",
		"ankusa_dedupe_key=evt_1",
		"ankusa_ordering_key=lane-7",
		"traceparent=" + traceparent,
		"tracestate=a=b",
		"Mixed-Case=",
		"correlation_id=c-1",
		"naïve=é\n\x00",
		"zebra=last",
	}
	if got := headerLines(record.Headers); !slices.Equal(got, want) {
		t.Errorf("headers\n%q, want\n%q", got, want)
	}
	value := strings.Replace(hookJSON, `"tracestate":null`, `"tracestate":"a=b"`, 1)
	value = strings.Replace(value, `"region":"eu-west-1",`, `"region":"eu-west-1","ordering_key":"lane-7",`, 1)
	if got := encoded(t, record.Value); got != value {
		t.Errorf("value\n%s, want\n%s", got, value)
	}
}

func TestMarshalHeaders(t *testing.T) {
	plain := func() *message.Message {
		return message.NewMessage("m-1", message.Payload("x"))
	}
	tests := []struct {
		rule string
		m    kafkawire.Marshaler
		msg  *message.Message
		key  string
		want []string
	}{
		{
			rule: "without a tenant its attribute is empty, not absent; the lane has an empty tenant",
			m:    kafkawire.Marshaler{Source: "orders"},
			msg:  plain(),
			key:  "/orders",
			want: []string{
				"ankusa_id=m-1", "ankusa_source_id=orders", "ankusa_tenant_id=", "ankusa_message_version=1",
				"ankusa_idempotency_key=m-1", "content_type=application/json",
			},
		},
		{
			rule: "defaults fill in what the message lacks",
			m:    kafkawire.Marshaler{Source: "orders", Tenant: "acme", ContentType: "text/plain"},
			msg:  hooktest.With(plain(), "ankusa_tenant_id", "own", "ankusa_dedupe_key", "d"),
			key:  "own/orders",
			want: []string{
				"ankusa_id=m-1", "ankusa_source_id=orders", "ankusa_tenant_id=own", "ankusa_message_version=1",
				"ankusa_idempotency_key=own:orders:d", "content_type=application/json", "ankusa_dedupe_key=d",
			},
		},
		{
			rule: "Ordered writes the lane key as ordering key",
			m:    kafkawire.Marshaler{Source: "orders", Tenant: "acme", Ordered: true},
			msg:  plain(),
			key:  "acme/orders",
			want: []string{
				"ankusa_id=m-1", "ankusa_source_id=orders", "ankusa_tenant_id=acme", "ankusa_message_version=1",
				"ankusa_idempotency_key=m-1", "content_type=application/json", "ankusa_ordering_key=acme/orders",
			},
		},
		{
			rule: "Ordered keeps an ordering key that is there",
			m:    kafkawire.Marshaler{Source: "orders", Ordered: true},
			msg:  hooktest.With(plain(), "ankusa_ordering_key", "lane"),
			key:  "lane",
			want: []string{
				"ankusa_id=m-1", "ankusa_source_id=orders", "ankusa_tenant_id=", "ankusa_message_version=1",
				"ankusa_idempotency_key=m-1", "content_type=application/json", "ankusa_ordering_key=lane",
			},
		},
		{
			rule: "a replay has its id, and the idempotency key does not",
			m:    kafkawire.Marshaler{},
			msg:  hooktest.With(hook(), "ankusa_replay_id", "r-1"),
			key:  "acme/stripe",
			want: []string{
				"ankusa_id=" + hookID, "ankusa_source_id=stripe", "ankusa_tenant_id=acme", "ankusa_message_version=1",
				"ankusa_idempotency_key=acme:stripe:evt_1", "content_type=application/json",
				"ankusa_dedupe_key=evt_1", "ankusa_replay_id=r-1", "traceparent=" + traceparent,
			},
		},
		{
			rule: "a traceparent that is none is not written, nor is a tracestate without one",
			m:    kafkawire.Marshaler{Source: "orders"},
			msg:  hooktest.With(plain(), "traceparent", "00-0-0-0", "tracestate", "a=b"),
			key:  "/orders",
			want: []string{
				"ankusa_id=m-1", "ankusa_source_id=orders", "ankusa_tenant_id=", "ankusa_message_version=1",
				"ankusa_idempotency_key=m-1", "content_type=application/json",
			},
		},
		{
			rule: "reserved and framing names are never written from metadata, in any letter case",
			m:    kafkawire.Marshaler{Source: "orders"},
			msg: hooktest.With(plain(), "ankusa_foo", "1", "Ankusa_Id", "2", "ENVELOPE_REDEEMED", "3", "envelope_receipt", "t/0/1",
				"TraceParent", "4", "_watermill_message_uuid", "5", "_watermill_amqp_redelivered", "true",
				"_watermill_message_google_message_id", "6", "publishTime", "7", "_watermill_requeued_from", "kept"),
			key: "/orders",
			want: []string{
				"ankusa_id=m-1", "ankusa_source_id=orders", "ankusa_tenant_id=", "ankusa_message_version=1",
				"ankusa_idempotency_key=m-1", "content_type=application/json", "_watermill_requeued_from=kept",
			},
		},
		{
			rule: "a key of one's own; an empty name travels in the JSON",
			m: kafkawire.Marshaler{Source: "orders", Key: func(topic string, msg *message.Message) string {
				return topic + ":" + msg.Metadata["ankusa_source_id"]
			}},
			msg: hooktest.With(plain(), "", "nameless"),
			key: "hooks:orders",
			want: []string{
				"ankusa_id=m-1", "ankusa_source_id=orders", "ankusa_tenant_id=", "ankusa_message_version=1",
				"ankusa_idempotency_key=m-1", "content_type=application/json",
			},
		},
		{
			rule: "an empty key is no key",
			m:    kafkawire.Marshaler{Source: "orders", Key: func(string, *message.Message) string { return "" }},
			msg:  plain(),
			key:  "<none>",
			want: []string{
				"ankusa_id=m-1", "ankusa_source_id=orders", "ankusa_tenant_id=", "ankusa_message_version=1",
				"ankusa_idempotency_key=m-1", "content_type=application/json",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			record := marshal(t, tt.m, tt.msg)
			if got := headerLines(record.Headers); !slices.Equal(got, tt.want) {
				t.Errorf("headers\n%q, want\n%q", got, tt.want)
			}
			if got := encoded(t, record.Key); got != tt.key {
				t.Errorf("key %q, want %q", got, tt.key)
			}
		})
	}
}

func TestMarshalMember(t *testing.T) {
	// content_type names the type of the record, so the user's own travels in the JSON.
	msg := hooktest.With(message.NewMessage("m-1", nil), "content_type", "text/plain", "traceparent", "none", "a", "native")
	record := marshal(t, kafkawire.Marshaler{Source: "orders"}, msg)
	const want = `"watermill_metadata":{"content_type":"text/plain","traceparent":"none"}`
	if got := encoded(t, record.Value); !strings.Contains(got, want) {
		t.Errorf("value %s\nhas no %s", got, want)
	}
	opened := unmarshal(t, kafkawire.Marshaler{}, consumed(t, record))
	for name, value := range map[string]string{
		"content_type": "text/plain", "ankusa_content_type": "text/plain", "traceparent": "none", "a": "native",
	} {
		if got := opened.Metadata[name]; got != value {
			t.Errorf("%s = %q, want %q", name, got, value)
		}
	}
}

func TestTimestamp(t *testing.T) {
	now := time.Now()
	tests := []struct {
		rule     string
		received time.Time
		replay   string
		want     time.Time // zero: that of publishing
	}{
		{"a past hook keeps its time", time.UnixMilli(1737500000123), "", time.UnixMilli(1737500000123)},
		{"1970 itself is kept", time.UnixMilli(0), "", time.UnixMilli(0)},
		{"sarama refuses a time before 1970", time.UnixMilli(-1), "", time.Time{}},
		{"a clock that is a little ahead is believed", now.Add(4 * time.Minute), "", now.Add(4 * time.Minute)},
		{"brokers refuse records from the future", now.Add(6 * time.Minute), "", time.Time{}},
		{"a year ahead", now.AddDate(1, 0, 0), "", time.Time{}},
		{"retention would delete a replay at once", time.UnixMilli(1737500000123), "r-1", time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			ms := strconv.FormatInt(tt.received.UnixMilli(), 10)
			msg := hooktest.With(hook(), "ankusa_received_at", ms, "ankusa_replay_id", tt.replay)
			record := marshal(t, kafkawire.Marshaler{}, msg)
			if want := tt.want.Truncate(time.Millisecond); !record.Timestamp.Equal(want) {
				t.Errorf("timestamp %v, want %v", record.Timestamp, want)
			}
			if got := encoded(t, record.Value); !strings.Contains(got, `"received_at":`+ms+`,`) {
				t.Errorf("the JSON has another received_at than %s: %s", ms, got)
			}
		})
	}
}

func TestMarshalErrors(t *testing.T) {
	tests := []struct {
		rule  string
		m     kafkawire.Marshaler
		msg   *message.Message
		field string
	}{
		{"no source and no default", kafkawire.Marshaler{}, message.NewMessage("m-1", nil), "ankusa_source_id"},
		{"a received_at that is no integer", kafkawire.Marshaler{}, hooktest.With(hook(), "ankusa_received_at", "soon"), "ankusa_received_at"},
		{"headers that would inject a member", kafkawire.Marshaler{}, hooktest.With(hook(), "ankusa_headers", `{},"v":2`), "ankusa_headers"},
		{"metadata that is not UTF-8", kafkawire.Marshaler{}, hooktest.With(hook(), "a", "\xff"), "a"},
		{"a name that is not UTF-8", kafkawire.Marshaler{}, hooktest.With(hook(), "\xff", "a"), "\xff"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			record, err := tt.m.Marshal("hooks", tt.msg)
			var e *envelope.Error
			if !errors.As(err, &e) || e.Code != envelope.CodeInvalidField || e.Field != tt.field {
				t.Fatalf("error %v, want invalid_field %q", err, tt.field)
			}
			if !envelope.IsPermanent(err) || record != nil {
				t.Errorf("record %v, permanent %v", record, envelope.IsPermanent(err))
			}
			if _, err := tt.m.Prepare("hooks", tt.msg); !errors.As(err, &e) || e.Field != tt.field {
				t.Errorf("Prepare finds it only on sealing: %v", err)
			}
		})
	}
}

func TestMarshalLeavesTheMessageAlone(t *testing.T) {
	type key struct{}
	msg := message.NewMessage("", message.Payload("body"))
	msg.Metadata = nil
	msg.SetContext(context.WithValue(context.Background(), key{}, "kept"))
	m := kafkawire.Marshaler{Source: "orders", Ordered: true}
	record := marshal(t, m, msg)
	if msg.UUID == "" || msg.Metadata == nil {
		t.Fatalf("a retry would not have the same id: UUID %q, Metadata %v", msg.UUID, msg.Metadata)
	}
	if len(msg.Metadata) != 0 || string(msg.Payload) != "body" {
		t.Errorf("changed to %v %q", msg.Metadata, msg.Payload)
	}
	if again := marshal(t, m, msg); headerLines(again.Headers)[0] != headerLines(record.Headers)[0] {
		t.Errorf("a retry has another id: %v and %v", again.Headers[0], record.Headers[0])
	}
	prepared, err := m.Prepare("hooks", msg)
	if err != nil || prepared.Context().Value(key{}) != "kept" {
		t.Errorf("Prepare lost the context: %v", err)
	}
	if again, err := m.Prepare("hooks", prepared); err != nil || again != prepared {
		t.Errorf("Prepare is not idempotent: %v", err)
	}
}

// Two records never share bytes that one of them could change, and nothing can grow into
// what lies behind it.
func TestHeadersDoNotOverlap(t *testing.T) {
	record := marshal(t, kafkawire.Marshaler{}, hook())
	want := headerLines(record.Headers)
	for _, h := range record.Headers {
		_ = append(h.Key, "overwritten"...)
		_ = append(h.Value, "overwritten"...)
	}
	if got := headerLines(record.Headers); !slices.Equal(got, want) {
		t.Errorf("appending to a header changed another: %q", got)
	}
}

func TestValidate(t *testing.T) {
	if err := (kafkawire.Marshaler{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	err := kafkawire.Marshaler{Source: "\xff", Region: "\xff", MaxMessageBytes: -1}.Validate()
	for _, what := range []string{"Source", "Region", "MaxMessageBytes -1"} {
		if !strings.Contains(fmt.Sprint(err), what) {
			t.Errorf("%v does not name %s", err, what)
		}
	}
}
