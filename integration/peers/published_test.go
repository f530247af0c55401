package peers_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/peers"
)

// A published message is one that we write.
type published struct {
	name string
	e    envelope.Envelope
	// reads has what an SDK reads that is not the field of e as it is: defaults, computed
	// fields, and what the rules of writing change.
	reads peers.Decoded
}

const (
	hookID      = "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10"
	claimRef    = "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002"
	signedRef   = "urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:1790345000:MAmydaNzNwA3sV38ggZG15ElUTajA8QtBkKevsaq1Ac"
	traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

var received = time.UnixMilli(1737500000123)

func allBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// headers returns n headers.
func headers(n int) []envelope.Header {
	h := make([]envelope.Header, n)
	for i := range h {
		h[i] = envelope.Header{Name: fmt.Sprintf("x-header-%02d", i), Value: fmt.Sprintf("value %d", i)}
	}
	return h
}

// minimal is an envelope with only what is required, changed.
func minimal(change func(*envelope.Envelope)) envelope.Envelope {
	e := envelope.Envelope{ID: hookID, SourceID: "stripe", ReceivedAt: received, Body: []byte("hello")}
	if change != nil {
		change(&e)
	}
	return e
}

// full is an envelope with every field, changed.
func full(change func(*envelope.Envelope)) envelope.Envelope {
	e := envelope.Envelope{
		ID: hookID, SourceID: "stripe", TenantID: "acme", ReceivedAt: received, ContentType: "application/json",
		Headers:   []envelope.Header{{Name: "x-github-event", Value: "push"}, {Name: "user-agent", Value: "GitHub-Hookshot/1"}},
		Body:      []byte(`{"amount":"10 €"}`),
		DedupeKey: "evt_1", ReplayID: "r-1", IdempotencyKey: "acme:stripe:evt_1",
		Verification: envelope.Verification{Status: envelope.VerificationOK},
		Traceparent:  traceparent, Tracestate: "vendor=a:b,other=1", Instance: "default", Region: "eu-west-1",
		OrderingKey: "order/7", Metadata: map[string]string{"correlation_id": "c-1", "": "empty", "ключ": "значение"},
		Unknown: []byte(`{"priority":"high","nested":{"v":3,"list":[1,2.50,null]}}`),
	}
	if change != nil {
		change(&e)
	}
	return e
}

func publishedMessages() []published {
	skipped := map[string]any{"status": "skipped", "flagged": false}
	plain := peers.Decoded{"idempotency_key": hookID, "verification": skipped}
	with := func(more peers.Decoded) peers.Decoded {
		d := maps.Clone(plain)
		maps.Copy(d, more)
		return d
	}
	return []published{
		{"every field", full(nil), nil},
		{"only what is required", minimal(nil), plain},
		{"no source", minimal(func(e *envelope.Envelope) { e.SourceID = "" }), plain},
		{
			"opaque id", minimal(func(e *envelope.Envelope) { e.ID = "ü \" \\ \x00 \u2028 </script>" }),
			with(peers.Decoded{"idempotency_key": "ü \" \\ \x00 \u2028 </script>"}),
		},

		// Bodies.
		{"all 256 bytes", full(func(e *envelope.Envelope) { e.Body = allBytes() }), nil},
		{"empty body", full(func(e *envelope.Envelope) { e.Body = []byte{} }), nil},
		{"nil body", minimal(func(e *envelope.Envelope) { e.Body = nil }), plain},
		{"body of one byte", minimal(func(e *envelope.Envelope) { e.Body = []byte{0xff} }), plain},
		{"body of two bytes", minimal(func(e *envelope.Envelope) { e.Body = []byte{0, 0} }), plain},
		{"body of 1 MiB", minimal(func(e *envelope.Envelope) { e.Body = bytes.Repeat(allBytes(), 4096) }), plain},
		{"body that looks like base64", minimal(func(e *envelope.Envelope) { e.Body = []byte("aGVsbG8=") }), plain},
		{"size and digest that are not the body's", full(func(e *envelope.Envelope) { e.Size, e.SHA256 = 1, otherSHA256 }), nil},

		// Claims.
		{"claim", full(func(e *envelope.Envelope) { e.Body, e.Claim, e.SHA256, e.Size = nil, claimRef, helloSHA256, 3145728 }), nil},
		{"claim and its body", full(func(e *envelope.Envelope) {
			e.Body, e.Claim, e.SHA256, e.Size = []byte("hello"), claimRef, helloSHA256, 5
		}), nil},
		{"claim without a tenant", minimal(func(e *envelope.Envelope) { e.Body, e.Claim, e.SHA256, e.Size = nil, claimRef, helloSHA256, 9 }), plain},
		{"claim of nothing", full(func(e *envelope.Envelope) { e.Body, e.Claim, e.SHA256 = nil, claimRef, emptySHA256 }), nil},

		// Keys.
		{
			"dedupe key and no tenant", minimal(func(e *envelope.Envelope) { e.DedupeKey = "evt_1" }),
			with(peers.Decoded{"idempotency_key": "default:stripe:evt_1"}),
		},
		{
			"dedupe key and tenant", minimal(func(e *envelope.Envelope) { e.DedupeKey, e.TenantID = "evt_1", "acme" }),
			with(peers.Decoded{"idempotency_key": "acme:stripe:evt_1"}),
		},
		{
			"shipped key", minimal(func(e *envelope.Envelope) { e.DedupeKey, e.IdempotencyKey = "evt_1", "other" }),
			with(peers.Decoded{"idempotency_key": "other"}),
		},
		{"replay", minimal(func(e *envelope.Envelope) { e.ReplayID = "r-1" }), plain},
		{
			"replay of a dedupe key", minimal(func(e *envelope.Envelope) { e.DedupeKey, e.ReplayID = "evt_1", "r-1" }),
			with(peers.Decoded{"idempotency_key": "default:stripe:evt_1"}),
		},
		{"tenant that no claim can have", minimal(func(e *envelope.Envelope) { e.TenantID = "a.b/c d" }), plain},

		// Times.
		{"received in 1969", minimal(func(e *envelope.Envelope) { e.ReceivedAt = time.UnixMilli(-1) }), plain},
		{"received at 0", minimal(func(e *envelope.Envelope) { e.ReceivedAt = time.UnixMilli(0) }), plain},
		{"received with nanoseconds", minimal(func(e *envelope.Envelope) { e.ReceivedAt = received.Add(999_999) }), plain},
		{"received in another zone", minimal(func(e *envelope.Envelope) { e.ReceivedAt = received.In(time.FixedZone("", 3600)) }), plain},

		// Verification.
		{"verification failed", full(func(e *envelope.Envelope) { e.Verification.Status = envelope.VerificationFailed }), nil},
		{"verification skipped", full(func(e *envelope.Envelope) { e.Verification.Status = envelope.VerificationSkipped }), nil},
		{"verification flagged", full(func(e *envelope.Envelope) { e.Verification.Flagged = true }), nil},
		{"verification of another status", full(func(e *envelope.Envelope) { e.Verification.Status = "OK" }), nil},
		{
			"flagged without a status", full(func(e *envelope.Envelope) { e.Verification = envelope.Verification{Flagged: true} }),
			peers.Decoded{"verification": map[string]any{"status": "skipped", "flagged": true}},
		},

		// Headers.
		{"64 headers", full(func(e *envelope.Envelope) { e.Headers = headers(64) }), nil},
		{"300 headers", full(func(e *envelope.Envelope) { e.Headers = headers(300) }), nil},
		{"header values", full(func(e *envelope.Envelope) {
			e.Headers = []envelope.Header{{Name: "a", Value: ""}, {Name: "b", Value: "\t\"\\"}, {Name: "c", Value: "é"}, {Name: "", Value: "x"}}
		}), nil},
		{"repeated headers", full(func(e *envelope.Envelope) {
			e.Headers = []envelope.Header{{Name: "X-A", Value: "1"}, {Name: "b", Value: "2"}, {Name: "x-a", Value: "3"}}
		}), peers.Decoded{"headers": map[string]any{"x-a": "1, 3", "b": "2"}}},
		{"headers that are never forwarded", full(func(e *envelope.Envelope) {
			e.Headers = []envelope.Header{{Name: "Authorization", Value: "1"}, {Name: "x-ankusa-id", Value: "2"}, {Name: "b", Value: "3"}}
		}), peers.Decoded{"headers": map[string]any{"b": "3"}}},

		// Trace context.
		{"no tracestate", full(func(e *envelope.Envelope) { e.Tracestate = "" }), nil},
		{"traceparent of a later version", full(func(e *envelope.Envelope) { e.Traceparent = "01" + traceparent[2:] + "-more" }), nil},
		{
			"traceparent that is none", full(func(e *envelope.Envelope) { e.Traceparent = "00-0-0-0" }),
			peers.Decoded{"traceparent": nil, "tracestate": nil},
		},
		{"tracestate alone", full(func(e *envelope.Envelope) { e.Traceparent = "" }), peers.Decoded{"tracestate": nil}},

		// What no SDK knows must not be in its way.
		{"unknown members of every type", full(func(e *envelope.Envelope) {
			e.Unknown = []byte(`{"V":3,"ID":1,"Body_Base64":2,"a":null,"b":[true,-0,1e5],"":{"":""},"ü":"\ud83d\ude00"}`)
		}), nil},
		{"a member of 64 KiB", full(func(e *envelope.Envelope) {
			e.Unknown = []byte(`{"x":"` + strings.Repeat("x", 65536) + `"}`)
		}), nil},
		{"metadata of every kind", full(func(e *envelope.Envelope) {
			e.Metadata = map[string]string{"id": "x", "body_base64": "x", "a\"b": "\x00", "long": strings.Repeat("x", 10_000)}
		}), nil},
		{"letters of every width", full(func(e *envelope.Envelope) {
			const text = "a\u007f\u0080ß\u07ff€\ufeff\ufffd\ufffe\uffff😀\U0010ffff\x00\x1f"
			e.SourceID, e.TenantID, e.ContentType, e.DedupeKey, e.ReplayID = text, text, text, text, text
			e.IdempotencyKey, e.Instance, e.Region, e.OrderingKey = text, text, text, text
			e.Headers = []envelope.Header{{Name: "x", Value: text}}
		}), nil},
	}
}

func TestPublished(t *testing.T) {
	sdks := []*peers.Peer{peers.Python(t), peers.Rust(t)}
	for _, m := range publishedMessages() {
		t.Run(m.name, func(t *testing.T) {
			wire, err := m.e.AppendWire(nil)
			if err != nil {
				t.Fatal(err)
			}
			want := wantPublished(m)
			for _, p := range sdks {
				got, refusal := p.Decode(t, wire)
				if refusal != nil {
					t.Errorf("%s refuses: %s", p.SDK, refusal)
					continue
				}
				for _, line := range p.Diff(got, want) {
					t.Errorf("%s: %s", p.SDK, line)
				}
			}
		})
	}
}

// wantPublished is what an SDK should read: the fields, what is computed from the body, and
// what the row says.
func wantPublished(m published) peers.Decoded {
	e := m.e
	if e.Claim == "" {
		sum := sha256.Sum256(e.Body)
		e.Size, e.SHA256 = int64(len(e.Body)), hex.EncodeToString(sum[:])
	}
	want := peers.Want(&e)
	want["v"] = json.Number("1")
	maps.Copy(want, m.reads)
	key, _ := want["idempotency_key"].(string)
	want["key"], want["key_with_replay"] = key, key
	if e.ReplayID != "" {
		want["key_with_replay"] = key + "#replay:" + e.ReplayID
	}
	return want
}

// A signed reference is the one thing that a publisher can pass on and that an older SDK
// refuses.
func TestPublishedSignedClaim(t *testing.T) {
	e := full(func(e *envelope.Envelope) { e.Body, e.Claim, e.SHA256, e.Size = nil, signedRef, helloSHA256, 5 })
	wire, err := e.AppendWire(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, refusal := peers.Python(t).Decode(t, wire); refusal == nil || refusal.String() != "invalid_field claim" {
		t.Errorf("%s: %v, want invalid_field claim: it %s", peers.Python050, refusal, onlyV1Refs)
	}
	rust := peers.Rust(t)
	got, refusal := rust.Decode(t, wire)
	if refusal != nil {
		t.Fatalf("%s refuses: %s", peers.Rust060, refusal)
	}
	for _, line := range rust.Diff(got, wantPublished(published{e: e})) {
		t.Errorf("%s: %s", peers.Rust060, line)
	}
}

// Every field that a message has is either exposed by an SDK or listed as unknown to it.
func TestUnknownFields(t *testing.T) {
	for _, p := range []*peers.Peer{peers.Python(t), peers.Rust(t)} {
		got, refusal := p.Decode(t, []byte(inline()))
		if refusal != nil {
			t.Fatalf("%s: %s", p.SDK, refusal)
		}
		want := slices.Collect(maps.Keys(peers.Want(&envelope.Envelope{})))
		want = slices.DeleteFunc(append(want, "v"), func(name string) bool { return slices.Contains(p.Unknown, name) })
		if have := slices.Sorted(maps.Keys(got)); !slices.Equal(have, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s exposes %q, want %q", p.SDK, have, slices.Sorted(slices.Values(want)))
		}
	}
}
