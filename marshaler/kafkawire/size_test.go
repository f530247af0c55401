package kafkawire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

const claimRef = "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002"

func malformed(t *testing.T, r *sarama.ConsumerMessage) *message.Message {
	t.Helper()
	return unmarshal(t, kafkawire.Marshaler{}, r)
}

func sizedMessages(t *testing.T) map[string]*message.Message {
	return map[string]*message.Message{
		"the hook":              hook(),
		"without an envelope":   hooktest.With(message.NewMessage("m-1", message.Payload("body")), "ankusa_dedupe_key", "d"),
		"an empty body":         message.NewMessage("m-1", nil),
		"escapes":               hooktest.With(hook(), "a", "\u0001\"\\\u2028", "content_type", "\n\"", "ankusa_instance", "\x7f\x1f"),
		"a long tracestate":     hooktest.With(hook(), "tracestate", strings.Repeat("k=v,", 300)),
		"no trace context":      hooktest.With(hook(), "traceparent", "x", "tracestate", "a=b"),
		"everything":            hooktest.With(hook(), "ankusa_replay_id", "r", "ankusa_ordering_key", "o", "tracestate", "a=b", "", "x"),
		"140,000 header bytes":  hooktest.With(hook(), "a", strings.Repeat("x", 140_000)),
		"a claim":               hooktest.With(message.NewMessage(hookID, nil), claimEntries()...),
		"malformed":             malformed(t, record("broken", "ankusa_id=x", "a=\xff", "\xff=b")),
		"a tombstone":           malformed(t, &sarama.ConsumerMessage{Key: []byte("k")}),
		"64 KiB":                func() *message.Message { m := hook(); m.Payload = make([]byte, 64<<10); return m }(),
		"a body of three bytes": func() *message.Message { m := hook(); m.Payload = []byte("abc"); return m }(),
	}
}

func claimEntries() []string {
	var entries []string
	for name, value := range hook().Metadata {
		entries = append(entries, name, value)
	}
	return append(entries, "ankusa_claim", claimRef)
}

// What Size says is what sarama counts, to the byte, and the body has no room to spare.
func TestSizeIsWhatSaramaCounts(t *testing.T) {
	marshalers := map[string]kafkawire.Marshaler{
		"plain":   {Source: "orders"},
		"ordered": {Source: "orders", Tenant: "acme", Ordered: true},
		"own key": {Source: "orders", Key: func(_ string, msg *message.Message) string { return msg.UUID }},
		"no key":  {Source: "orders", Key: func(string, *message.Message) string { return "" }},
	}
	for kind, m := range marshalers {
		for name, msg := range sizedMessages(t) {
			t.Run(kind+"/"+name, func(t *testing.T) {
				prepared, err := m.Prepare("hooks", msg)
				if err != nil {
					t.Fatal(err)
				}
				inline, _, limit := m.Size("hooks", prepared, "acme")
				r := marshal(t, m, msg)
				if got := int64(r.ByteSize(2)); got != inline {
					t.Errorf("sarama counts %d, Size says %d", got, inline)
				}
				if limit != 1_000_000 {
					t.Errorf("limit %d", limit)
				}
				if body, ok := r.Value.(sarama.ByteEncoder); ok && cap(body) != len(body) {
					t.Errorf("%d bytes of body in an allocation of %d", len(body), cap(body))
				}
			})
		}
	}
}

func TestSizeOfAClaim(t *testing.T) {
	m := kafkawire.Marshaler{Source: "orders"}
	for _, tenant := range []string{"acme", ""} {
		msg := hooktest.With(hook(), "ankusa_tenant_id", tenant, "ankusa_idempotency_key", "k")
		_, claim, _ := m.Size("hooks", msg, "acme")

		asClaim := hooktest.With(message.NewMessage(hookID, nil), claimEntries()...)
		hooktest.With(asClaim, "ankusa_tenant_id", tenant, "ankusa_idempotency_key", "k")
		if got := int64(marshal(t, m, asClaim).ByteSize(2)); got != claim {
			t.Errorf("tenant %q: the claim takes %d bytes, Size said %d", tenant, got, claim)
		}
		inline, claim, _ := m.Size("hooks", asClaim, "acme")
		if inline != claim {
			t.Errorf("tenant %q: a claim has two sizes: %d and %d", tenant, inline, claim)
		}
	}
}

func TestTooLarge(t *testing.T) {
	msg := hooktest.With(hook(), "a", "b")
	inline, _, _ := kafkawire.Marshaler{}.Size("hooks", msg, "")
	if _, err := (kafkawire.Marshaler{MaxMessageBytes: inline}).Marshal("hooks", msg); err != nil {
		t.Errorf("the limit is inclusive: %v", err)
	}
	record, err := kafkawire.Marshaler{MaxMessageBytes: inline - 1}.Marshal("hooks", msg)
	var tooLarge *envelope.TooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Size != inline || tooLarge.Max != inline-1 || record != nil {
		t.Errorf("got %v, %v", record, err)
	}
	if !errors.Is(err, envelope.ErrMessageTooLarge) || !envelope.IsPermanent(err) {
		t.Errorf("class of %v", err)
	}
}

// A malformed message that does not fit as it came goes out in an envelope, which can be
// checked in.
func TestMalformedOverTheLimit(t *testing.T) {
	raw := strings.Repeat("{", 2000)
	msg := malformed(t, record(raw, "a=1", "b=\xff", "ankusa_tenant_id=evil"))
	msg.Metadata["reason_poisoned"] = "malformed"
	m := kafkawire.Marshaler{MaxMessageBytes: 2000}

	prepared, err := m.Prepare("poison", msg)
	if err != nil {
		t.Fatal(err)
	}
	if envelope.IsMalformed(prepared) || string(prepared.Payload) != raw || prepared.UUID != msg.UUID {
		t.Fatalf("prepared %s %q", prepared.UUID, prepared.Payload)
	}
	for name, want := range map[string]string{
		"ankusa_source_id": "malformed", "ankusa_content_type": "application/octet-stream", "ankusa_tenant_id": "",
		"malformed_code": "invalid_json", "reason_poisoned": "malformed", "a": "1", "b": "", "envelope_receipt": "hooks/3/42",
	} {
		if got := prepared.Metadata[name]; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	var tooLarge *envelope.TooLargeError
	if _, err := m.Marshal("poison", msg); !errors.As(err, &tooLarge) {
		t.Errorf("without a claim check: %v", err)
	}
	if _, claim, limit := m.Size("poison", prepared, "acme"); claim > limit {
		t.Errorf("as a claim it takes %d of %d bytes", claim, limit)
	}
	if again, err := m.Prepare("poison", prepared); again != prepared {
		t.Errorf("Prepare is not idempotent: %v", err)
	}
}

func TestSizeDoesNotAllocate(t *testing.T) {
	m := kafkawire.Marshaler{Source: "orders", Ordered: true}
	for name, msg := range sizedMessages(t) {
		prepared, err := m.Prepare("hooks", msg)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { m.Size("hooks", prepared, "acme") }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
