package rediswire_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
)

const (
	hookID      = hooktest.ID
	traceparent = hooktest.Traceparent
	claimRef    = "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002"
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

func marshal(t testing.TB, m rediswire.Marshaler, msg *message.Message) map[string]any {
	t.Helper()
	fields, err := m.Marshal("hooks", msg)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// stored is the entry as a client gets it: every value is a string.
func stored(t testing.TB, fields map[string]any) map[string]any {
	t.Helper()
	values := make(map[string]any, len(fields))
	for name, value := range fields {
		switch v := value.(type) {
		case string:
			values[name] = v
		case []byte:
			values[name] = string(v)
		case nil: // of the stock marshaler
			values[name] = ""
		default:
			t.Fatalf("field %q is a %T", name, value)
		}
	}
	return values
}

// beside are the fields without the payload, as sorted lines.
func beside(t testing.TB, fields map[string]any) []string {
	t.Helper()
	var lines []string
	for name, value := range stored(t, fields) {
		if name != "payload" {
			lines = append(lines, fmt.Sprintf("%s=%s", name, value))
		}
	}
	slices.Sort(lines)
	return lines
}

func TestMarshalEntry(t *testing.T) {
	fields := marshal(t, rediswire.Marshaler{Source: "default", Tenant: "default"}, hooktest.With(hook(),
		"zebra", "last", "correlation_id", "c-1", "Mixed-Case", "", "naïve", "é\n\x00", "metadata", "of the user", "meta:a", "b",
		"ankusa_replay_id", "r-1", "ankusa_ordering_key", "lane-7", "tracestate", "a=b"))
	payload := strings.Replace(hookJSON, `"tracestate":null`, `"tracestate":"a=b"`, 1)
	payload = strings.Replace(payload, `"replay_id":null`, `"replay_id":"r-1"`, 1)
	payload = strings.Replace(payload, `"region":"eu-west-1",`, `"region":"eu-west-1","ordering_key":"lane-7",`, 1)
	want := map[string]any{
		"payload":                payload,
		"ankusa_id":              hookID,
		"ankusa_source_id":       "stripe",
		"ankusa_tenant_id":       "acme",
		"ankusa_message_version": "1",
		"ankusa_idempotency_key": "acme:stripe:evt_1",
		"content_type":           "application/json",
		"ankusa_dedupe_key":      "evt_1",
		"ankusa_replay_id":       "r-1",
		"ankusa_ordering_key":    "lane-7",
		"traceparent":            traceparent,
		"tracestate":             "a=b",
		"meta:Mixed-Case":        "",
		"meta:correlation_id":    "c-1",
		"meta:metadata":          "of the user",
		"meta:meta:a":            "b",
		"meta:naïve":             "é\n\x00",
		"meta:zebra":             "last",
	}
	if got := stored(t, fields); !maps.Equal(got, want) {
		t.Errorf("fields\n%q, want\n%q", got, want)
	}
	if _, ok := fields["payload"].([]byte); !ok {
		t.Errorf("the payload is a %T", fields["payload"])
	}
}

func TestMarshalFields(t *testing.T) {
	plain := func() *message.Message { return message.NewMessage("m-1", message.Payload("x")) }
	tests := []struct {
		rule string
		m    rediswire.Marshaler
		msg  *message.Message
		want []string
	}{
		{
			rule: "without a tenant its attribute is empty, not absent",
			m:    rediswire.Marshaler{Source: "orders"},
			msg:  plain(),
			want: []string{
				"ankusa_id=m-1", "ankusa_idempotency_key=m-1", "ankusa_message_version=1", "ankusa_source_id=orders",
				"ankusa_tenant_id=", "content_type=application/json",
			},
		},
		{
			rule: "Ordered writes the lane key as ordering key; defaults fill in",
			m:    rediswire.Marshaler{Source: "orders", Tenant: "acme", Ordered: true},
			msg:  plain(),
			want: []string{
				"ankusa_id=m-1", "ankusa_idempotency_key=m-1", "ankusa_message_version=1", "ankusa_ordering_key=acme/orders",
				"ankusa_source_id=orders", "ankusa_tenant_id=acme", "content_type=application/json",
			},
		},
		{
			rule: "reserved and framing names are never written from metadata, in any letter case; content_type, payload and no name go into the JSON",
			m:    rediswire.Marshaler{Source: "orders"},
			msg: hooktest.With(plain(), "ankusa_foo", "1", "Ankusa_Id", "2", "ENVELOPE_REDEEMED", "3", "envelope_receipt", "redis",
				"TraceParent", "4", "_watermill_message_uuid", "5", "publishTime", "7", "_watermill_requeued_from", "kept",
				"content_type", "text/plain", "payload", "mine", "", "nameless"),
			want: []string{
				"ankusa_id=m-1", "ankusa_idempotency_key=m-1", "ankusa_message_version=1", "ankusa_source_id=orders",
				"ankusa_tenant_id=", "content_type=application/json", "meta:_watermill_requeued_from=kept",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			fields := marshal(t, tt.m, tt.msg)
			if got := beside(t, fields); !slices.Equal(got, tt.want) {
				t.Errorf("fields\n%q, want\n%q", got, tt.want)
			}
			opened := unmarshal(t, rediswire.Marshaler{}, stored(t, fields))
			for _, name := range []string{"content_type", "payload", ""} {
				if got := opened.Metadata[name]; got != tt.msg.Metadata[name] {
					t.Errorf("%q comes back as %q, want %q", name, got, tt.msg.Metadata[name])
				}
			}
		})
	}
}

func TestMarshalErrors(t *testing.T) {
	tests := []struct {
		rule  string
		msg   *message.Message
		field string
	}{
		{"no source and no default", message.NewMessage("m-1", nil), "ankusa_source_id"},
		{"a received_at that is no integer", hooktest.With(hook(), "ankusa_received_at", "soon"), "ankusa_received_at"},
		{"metadata that is not UTF-8", hooktest.With(hook(), "a", "\xff"), "a"},
		{"a name that is not UTF-8", hooktest.With(hook(), "\xff", "a"), "\xff"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			fields, err := rediswire.Marshaler{}.Marshal("hooks", tt.msg)
			payload, pubsub := rediswire.PubSubMarshaler{}.Marshal("hooks", tt.msg)
			for _, err := range []error{err, pubsub} {
				var e *envelope.Error
				if !errors.As(err, &e) || e.Code != envelope.CodeInvalidField || e.Field != tt.field || !envelope.IsPermanent(err) {
					t.Fatalf("error %v, want invalid_field %q", err, tt.field)
				}
			}
			if fields != nil || payload != nil {
				t.Errorf("made %v and %q", fields, payload)
			}
			if _, err := (rediswire.Marshaler{}).Prepare("hooks", tt.msg); err == nil {
				t.Error("Prepare finds it only on sealing")
			}
			if _, err := (rediswire.PubSubMarshaler{}).Prepare("hooks", tt.msg); err == nil {
				t.Error("Prepare finds it only on sealing")
			}
		})
	}
}

func TestMarshalLeavesTheMessageAlone(t *testing.T) {
	type key struct{}
	msg := message.NewMessage("", message.Payload("body"))
	msg.Metadata = nil
	msg.SetContext(context.WithValue(context.Background(), key{}, "kept"))
	m := rediswire.Marshaler{Source: "orders", Ordered: true}
	fields := marshal(t, m, msg)
	if msg.UUID == "" || len(msg.Metadata) != 0 || msg.Metadata == nil || string(msg.Payload) != "body" {
		t.Fatalf("changed to %q %v %q", msg.UUID, msg.Metadata, msg.Payload)
	}
	if again := marshal(t, m, msg); again["ankusa_id"] != fields["ankusa_id"] {
		t.Errorf("a retry has another id: %v and %v", again["ankusa_id"], fields["ankusa_id"])
	}
	prepared, err := m.Prepare("hooks", msg)
	if err != nil || prepared.Context().Value(key{}) != "kept" {
		t.Errorf("Prepare lost the context: %v", err)
	}
	if again, err := m.Prepare("hooks", prepared); err != nil || again != prepared {
		t.Errorf("Prepare is not idempotent: %v", err)
	}
}

func TestValidate(t *testing.T) {
	if err := errors.Join(rediswire.Marshaler{}.Validate(), rediswire.PubSubMarshaler{}.Validate()); err != nil {
		t.Errorf("the zero values: %v", err)
	}
	for _, err := range []error{
		rediswire.Marshaler{Source: "\xff", Region: "\xff", MaxMessageBytes: -1}.Validate(),
		rediswire.PubSubMarshaler{Source: "\xff", Region: "\xff", MaxMessageBytes: -1}.Validate(),
	} {
		for _, what := range []string{"Source", "Region", "MaxMessageBytes -1"} {
			if !strings.Contains(fmt.Sprint(err), what) {
				t.Errorf("%v does not name %s", err, what)
			}
		}
	}
}
