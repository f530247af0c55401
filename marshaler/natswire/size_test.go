package natswire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/natswire"
)

func sizedMessages(t *testing.T) map[string]*message.Message {
	received := unmarshal(t, natswire.Marshaler{}, natsMsg(hookJSON, "a=1"))
	return map[string]*message.Message{
		"the hook":                 hook(),
		"without an envelope":      hooktest.With(message.NewMessage("m-1", message.Payload("body")), "ankusa_dedupe_key", "d"),
		"an empty body":            message.NewMessage("m-1", nil),
		"escapes":                  hooktest.With(hook(), "a", "\u0001\"\\\u2028", "content_type", "\n\"", "ankusa_instance", "\x7f\x1f"),
		"a long tracestate":        hooktest.With(hook(), "tracestate", strings.Repeat("k=v,", 300)),
		"everything":               hooktest.With(hook(), "ankusa_replay_id", "r", "ankusa_ordering_key", "o", "tracestate", "a=b", "", "x"),
		"received":                 received,
		"received, and a replay":   hooktest.With(received.Copy(), "ankusa_replay_id", "r "),
		"140,000 header bytes":     hooktest.With(hook(), "a", strings.Repeat("x", 140_000)),
		"a claim":                  hooktest.With(message.NewMessage(hookID, nil), claimEntries()...),
		"malformed":                unmarshal(t, natswire.Marshaler{}, natsMsg("broken", "ankusa_id=x", "a=\xff", "b b=c")),
		"malformed, no header":     unmarshal(t, natswire.Marshaler{}, natsMsg("broken")),
		"an id with a line end":    message.NewMessage("m\n1", nil),
		"an id with a blank first": message.NewMessage(" m", nil),
		"an id with a blank last":  message.NewMessage("m\t", nil),
		"a replay with line ends":  hooktest.With(hook(), "ankusa_replay_id", "a\r\nb"),
		"a replay that ends blank": hooktest.With(hook(), "ankusa_replay_id", "a "),
		"a tenant with line ends":  hooktest.With(hook(), "ankusa_tenant_id", "\n"),
		"64 KiB":                   func() *message.Message { m := hook(); m.Payload = make([]byte, 64<<10); return m }(),
	}
}

func claimEntries() []string {
	var entries []string
	for name, value := range hook().Metadata {
		entries = append(entries, name, value)
	}
	return append(entries, "ankusa_claim", claimRef)
}

// What Size says is what client and server count, to the byte, and the body has no room to
// spare.
func TestSizeIsWhatTheClientWrites(t *testing.T) {
	marshalers := map[string]natswire.Marshaler{
		"plain":   {Source: "orders"},
		"ordered": {Source: "orders", Tenant: "acme", Ordered: true},
		"own id":  {Source: "orders", DeduplicationID: func(topic string, msg *message.Message) string { return topic + msg.UUID }},
		"no id":   {Source: "orders", DeduplicationID: func(string, *message.Message) string { return "" }},
	}
	for kind, m := range marshalers {
		for name, msg := range sizedMessages(t) {
			t.Run(kind+"/"+name, func(t *testing.T) {
				prepared, err := m.Prepare("hooks", msg)
				if err != nil {
					t.Fatal(err)
				}
				inline, _, limit := m.Size("hooks", prepared, "acme")
				out := marshal(t, m, msg)
				if got := int64(len(written(t, out.Header)) + len(out.Data)); got != inline {
					t.Errorf("written are %d bytes, Size says %d", got, inline)
				}
				if limit != 1_048_576 {
					t.Errorf("limit %d", limit)
				}
				if cap(out.Data) != len(out.Data) {
					t.Errorf("%d bytes of data in an allocation of %d", len(out.Data), cap(out.Data))
				}
				if n := len(written(t, out.Header)); n > natswire.MaxHeaderBytes {
					t.Errorf("%d header bytes", n)
				}
			})
		}
	}
}

func TestSizeOfAClaim(t *testing.T) {
	m := natswire.Marshaler{Source: "orders"}
	for _, tenant := range []string{"acme", ""} {
		msg := hooktest.With(hook(), "ankusa_tenant_id", tenant, "ankusa_idempotency_key", "k")
		_, claim, _ := m.Size("hooks", msg, "acme")

		asClaim := hooktest.With(message.NewMessage(hookID, nil), claimEntries()...)
		hooktest.With(asClaim, "ankusa_tenant_id", tenant, "ankusa_idempotency_key", "k")
		out := marshal(t, m, asClaim)
		if got := int64(len(written(t, out.Header)) + len(out.Data)); got != claim {
			t.Errorf("tenant %q: the claim takes %d bytes, Size said %d", tenant, got, claim)
		}
		if inline, claim, _ := m.Size("hooks", asClaim, "acme"); inline != claim {
			t.Errorf("tenant %q: a claim has two sizes: %d and %d", tenant, inline, claim)
		}
	}
}

func TestTooLarge(t *testing.T) {
	msg := hooktest.With(hook(), "a", "b")
	inline, _, _ := natswire.Marshaler{}.Size("hooks", msg, "")
	if _, err := (natswire.Marshaler{MaxMessageBytes: inline}).Marshal("hooks", msg); err != nil {
		t.Errorf("the limit is inclusive: %v", err)
	}
	out, err := natswire.Marshaler{MaxMessageBytes: inline - 1}.Marshal("hooks", msg)
	var tooLarge *envelope.TooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Size != inline || tooLarge.Max != inline-1 || out != nil {
		t.Errorf("got %v, %v", out, err)
	}
	if !errors.Is(err, envelope.ErrMessageTooLarge) || !envelope.IsPermanent(err) {
		t.Errorf("class of %v", err)
	}
}

// Headers fill up to the last byte; then the user's go into the JSON, then tracestate does, and
// an id that is still too long is refused.
func TestHeaderLimit(t *testing.T) {
	m := natswire.Marshaler{Source: "orders"}
	size := func(msg *message.Message) int { return len(written(t, marshal(t, m, msg).Header)) }
	empty := size(hooktest.With(hook(), "a", ""))
	room := natswire.MaxHeaderBytes - empty

	full := hooktest.With(hook(), "a", strings.Repeat("v", room))
	if got := size(full); got != natswire.MaxHeaderBytes {
		t.Errorf("%d header bytes, want %d", got, natswire.MaxHeaderBytes)
	}
	over := marshal(t, m, hooktest.With(hook(), "a", strings.Repeat("v", room+1)))
	if _, ok := over.Header["a"]; ok || !strings.Contains(string(over.Data), `"watermill_metadata":{"a":"v`) {
		t.Errorf("a byte more is a header: %.99q", over.Data)
	}

	withState := func(n int) *message.Message {
		return hooktest.With(hook(), "tracestate", "a=b", "ankusa_tenant_id", strings.Repeat("t", n))
	}
	tenants := natswire.MaxHeaderBytes - size(withState(1)) + 1
	if got := marshal(t, m, withState(tenants)).Header.Get("tracestate"); got != "a=b" {
		t.Errorf("tracestate %q where there is room for it", got)
	}
	gone := marshal(t, m, withState(tenants+1))
	if _, ok := gone.Header["tracestate"]; ok || !strings.Contains(string(gone.Data), `"tracestate":"a=b"`) {
		t.Error("tracestate does not give way")
	}

	for n, ok := range map[int]bool{tenants + len("tracestate: a=b\r\n"): true, tenants + len("tracestate: a=b\r\n") + 1: false} {
		out, err := m.Marshal("hooks", withState(n))
		var tooLarge *envelope.TooLargeError
		if ok && (err != nil || len(written(t, out.Header)) != natswire.MaxHeaderBytes) {
			t.Errorf("a tenant of %d bytes: %v", n, err)
		}
		if !ok && (!errors.As(err, &tooLarge) || tooLarge.Size != natswire.MaxHeaderBytes+1 || tooLarge.Max != natswire.MaxHeaderBytes || tooLarge.What != "header") {
			t.Errorf("a tenant of %d bytes: %v", n, err)
		}
		if prepared, err := m.Prepare("hooks", withState(n)); (err == nil) != ok || (prepared == nil) == ok {
			t.Errorf("a tenant of %d bytes: Prepare says %v", n, err)
		}
	}
}

// A malformed message that does not fit as it came goes out in an envelope, which can be
// checked in.
func TestMalformedOverTheLimit(t *testing.T) {
	raw := strings.Repeat("{", 2000)
	for rule, m := range map[string]natswire.Marshaler{"data": {MaxMessageBytes: 2000}, "headers": {}} {
		msg := unmarshal(t, natswire.Marshaler{}, natsMsg(raw, "a=1", "b=\xff", "ankusa_tenant_id=evil"))
		msg.Metadata["reason_poisoned"] = "malformed"
		if rule == "headers" {
			msg.Metadata["a"] = strings.Repeat("1", natswire.MaxHeaderBytes)
		}
		prepared, err := m.Prepare("poison", msg)
		if err != nil {
			t.Fatal(err)
		}
		if envelope.IsMalformed(prepared) || string(prepared.Payload) != raw || prepared.UUID != msg.UUID {
			t.Fatalf("%s: prepared %s %q", rule, prepared.UUID, prepared.Payload)
		}
		for name, want := range map[string]string{
			"ankusa_source_id": "malformed", "ankusa_content_type": "application/octet-stream", "ankusa_tenant_id": "",
			"malformed_code": "invalid_json", "reason_poisoned": "malformed", "a": msg.Metadata["a"], "b": "", "envelope_receipt": receipt,
		} {
			if got := prepared.Metadata[name]; got != want {
				t.Errorf("%s: %s = %.99q, want %.99q", rule, name, got, want)
			}
		}
		if _, claim, limit := m.Size("poison", prepared, "acme"); rule == "data" && claim > limit {
			t.Errorf("as a claim it takes %d of %d bytes", claim, limit)
		}
		if again, err := m.Prepare("poison", prepared); again != prepared {
			t.Errorf("%s: Prepare is not idempotent: %v", rule, err)
		}
	}
}

func TestSizeDoesNotAllocate(t *testing.T) {
	m := natswire.Marshaler{Source: "orders", Ordered: true}
	for name, msg := range sizedMessages(t) {
		prepared, err := m.Prepare("hooks", msg)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() {
			m.Size("hooks", prepared, "acme")
			m.Fits("hooks", prepared)
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// What Fits says is certain.
func TestFits(t *testing.T) {
	for name, msg := range sizedMessages(t) {
		m := natswire.Marshaler{Source: "orders"}
		prepared, err := m.Prepare("hooks", msg)
		if err != nil {
			t.Fatal(err)
		}
		inline, _, _ := m.Size("hooks", prepared, "")
		if m.MaxMessageBytes = inline - 1; m.Fits("hooks", prepared) {
			t.Errorf("%s: fits into a byte less than it takes", name)
		}
		if m.MaxMessageBytes = 1 << 30; !m.Fits("hooks", prepared) {
			t.Errorf("%s: does not fit into a gibibyte", name)
		}
	}
}
