package redissuite

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

const (
	fullJSON    = `{"v":1,"id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","source_id":"stripe","tenant_id":"acme","received_at":1737500000123,"content_type":"application/json","size":5,"dedupe_key":"evt_1","replay_id":"again","idempotency_key":"acme:stripe:evt_1","verification":{"status":"ok","flagged":false},"headers":{"x-github-event":"push"},"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"a=1","instance":"default","region":"eu-west-1","ordering_key":"lane",%s"sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","body_base64":"aGVsbG8="}`
	minimalJSON = `{"v":1,"id":"hook-1","source_id":"s","tenant_id":null,"received_at":1737500000000,"content_type":null,"size":0,"dedupe_key":null,"replay_id":null,"idempotency_key":"hook-1","verification":{"status":"skipped","flagged":false},"headers":{},"traceparent":null,"tracestate":null,"instance":null,"region":null,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","body_base64":""}`
)

func full() *message.Message {
	e := envelope.Envelope{
		ID: "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10", SourceID: "stripe", TenantID: "acme", ReceivedAt: time.UnixMilli(1737500000123),
		ContentType: "application/json", Headers: []envelope.Header{{Name: "x-github-event", Value: "push"}},
		Body: []byte("hello"), DedupeKey: "evt_1", ReplayID: "again", Verification: envelope.Verification{Status: envelope.VerificationOK},
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Tracestate: "a=1", Instance: "default", Region: "eu-west-1",
		OrderingKey: "lane", Metadata: map[string]string{"correlation_id": "c-1", "b-name": "grüße\x00", "content_type": "text/plain"},
	}
	return e.Message()
}

func minimal() *message.Message {
	e := envelope.Envelope{ID: "hook-1", SourceID: "s", ReceivedAt: time.UnixMilli(1737500000000)}
	return e.Message()
}

// StreamsLiteral checks entry by entry what a client that is not Watermill sees.
func StreamsLiteral(t *testing.T, addr string) {
	ctx := suite.Context(t)
	topic := topicName(t, "literal")
	if err := Streams(addr, StreamsOptions{}).Publisher(t).Publish(topic, full(), minimal()); err != nil {
		t.Fatal(err)
	}
	entries, err := Client(t, addr).XRange(ctx, topic, "-", "+").Result()
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for i, want := range []map[string]any{
		{
			"payload":                fmt.Sprintf(fullJSON, `"watermill_metadata":{"content_type":"text/plain"},`),
			"ankusa_id":              "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10",
			"ankusa_source_id":       "stripe",
			"ankusa_tenant_id":       "acme",
			"ankusa_message_version": "1",
			"ankusa_idempotency_key": "acme:stripe:evt_1",
			"content_type":           "application/json",
			"ankusa_dedupe_key":      "evt_1",
			"ankusa_replay_id":       "again",
			"ankusa_ordering_key":    "lane",
			"traceparent":            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			"tracestate":             "a=1",
			"meta:b-name":            "grüße\x00",
			"meta:correlation_id":    "c-1",
		},
		{
			"payload":                minimalJSON,
			"ankusa_id":              "hook-1",
			"ankusa_source_id":       "s",
			"ankusa_tenant_id":       "",
			"ankusa_message_version": "1",
			"ankusa_idempotency_key": "hook-1",
			"content_type":           "application/json",
		},
	} {
		if got := entries[i].Values; !maps.Equal(got, want) {
			t.Errorf("entry %d is\n%q\nwant\n%q", i, got, want)
		}
	}
}

// ForeignEntries checks entries of a producer that is neither Watermill nor ours.
func ForeignEntries(t *testing.T, addr string) {
	ctx := suite.Context(t)
	topic := topicName(t, "foreign")
	client := Client(t, addr)
	messages, err := Streams(addr, StreamsOptions{}).Subscriber(t, "foreign").Subscribe(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"v":2,"id":"f","source_id":"s","received_at":1,"size":2,"body_base64":"aGk="}`
	for _, c := range []struct {
		rule   string
		fields []any
		want   map[string]string // "" is absent
		bad    bool
	}{
		{"only payload", []any{"payload", body}, nil, false},
		{"a field twice: the last counts", []any{"payload", "x", "meta:a", "1", "payload", body, "meta:a", "2"}, map[string]string{"a": "2"}, false},
		{
			"odd fields",
			[]any{"payload", body, "", "nameless", "\xff", "x", "n", 7, "metadata", "\x81\xa1a\xa1b", "meta:metadata", "own"},
			map[string]string{"": "nameless", "n": "7", "metadata": "own", "\xff": ""},
			false,
		},
		{
			"names that are ours, with meta: and without",
			[]any{
				"payload", body, "envelope_redeemed", "true", "meta:envelope_malformed", "x", "ankusa_tenant_id", "evil",
				"meta:ankusa_verification", "ok", "meta:Traceparent", "00",
			},
			map[string]string{"envelope_redeemed": "", "envelope_malformed": "", "ankusa_tenant_id": "", "ankusa_verification": "", "Traceparent": ""},
			false,
		},
		{"no payload", []any{"event", "x", "meta:a", "1"}, map[string]string{"envelope_malformed": "invalid_json", "event": "x", "meta:a": "1"}, true},
	} {
		if err := client.XAdd(ctx, &redis.XAddArgs{Stream: topic, Values: c.fields}).Err(); err != nil {
			t.Fatal(err)
		}
		var msg *message.Message
		select {
		case msg = <-messages:
		case <-ctx.Done():
			t.Fatalf("%s: %v", c.rule, ctx.Err())
		}
		if msg == nil {
			t.Fatalf("%s: the subscription ended", c.rule)
		}
		msg.Ack()
		if c.bad != envelope.IsMalformed(msg) || !c.bad && (string(msg.Payload) != "hi" || msg.UUID != "f") {
			t.Errorf("%s: got %q with body %q", c.rule, msg.UUID, msg.Payload)
		}
		for name, value := range c.want {
			if got := msg.Metadata[name]; got != value {
				t.Errorf("%s: metadata %q is %q, want %q", c.rule, name, got, value)
			}
		}
	}
}
