package rediswire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
)

func asClaim(tenant string) *message.Message {
	msg := hook()
	msg.Payload = nil
	return hooktest.With(msg, "ankusa_claim", claimRef, "ankusa_tenant_id", tenant, "ankusa_idempotency_key", "k")
}

func sizedMessages(t testing.TB) map[string]*message.Message {
	t.Helper()
	many := hook()
	for c := 'a'; c <= 'z'; c++ {
		many.Metadata[string(c)] = strings.Repeat("é", int(c))
	}
	return map[string]*message.Message{
		"the hook":            hook(),
		"without an envelope": hooktest.With(message.NewMessage("m-1", message.Payload("body")), "ankusa_dedupe_key", "d"),
		"an empty body":       message.NewMessage("m-1", nil),
		"many entries":        many,
		"escapes":             hooktest.With(hook(), "a", "\u0001\"\\\u2028", "content_type", "\n\"", "ankusa_instance", "\x7f\x1f"),
		"a long tracestate":   hooktest.With(hook(), "tracestate", strings.Repeat("k=v,", 300)),
		"everything":          hooktest.With(hook(), "ankusa_replay_id", "r", "ankusa_ordering_key", "o", "tracestate", "a=b", "", "x", "payload", "y"),
		"a claim":             asClaim("acme"),
		"malformed":           unmarshal(t, rediswire.Marshaler{}, entry("broken", "ankusa_id=x", "a=\xff", "meta:b=c")),
		"64 KiB":              func() *message.Message { m := hook(); m.Payload = make([]byte, 64<<10); return m }(),
	}
}

// bytesOf is what the fields take: names and values.
func bytesOf(t testing.TB, fields map[string]any) (n int64) {
	t.Helper()
	for name, value := range stored(t, fields) {
		n += int64(len(name) + len(value.(string)))
	}
	return n
}

func TestSizeIsNamesAndValues(t *testing.T) {
	m := rediswire.Marshaler{Source: "orders", Ordered: true}
	pubsub := rediswire.PubSubMarshaler{Source: "orders", Ordered: true}
	for name, msg := range sizedMessages(t) {
		t.Run(name, func(t *testing.T) {
			fields, payload := marshal(t, m, msg), publish(t, pubsub, msg)
			for _, c := range []struct {
				on string
				s  marshaler.Fitter
				n  int64
			}{{"a stream", m, bytesOf(t, fields)}, {"a channel", pubsub, int64(len(payload))}} {
				prepared, err := c.s.Prepare("hooks", msg)
				if err != nil {
					t.Fatal(err)
				}
				inline, _, limit := c.s.Size("hooks", prepared, "acme")
				if inline != c.n || limit != 1<<20 {
					t.Errorf("%s: %d bytes, Size says %d of %d", c.on, c.n, inline, limit)
				}
				if n := testing.AllocsPerRun(20, func() { c.s.Size("hooks", prepared, "acme") }); n != 0 {
					t.Errorf("%s: Size makes %v allocations", c.on, n)
				}
				if n := testing.AllocsPerRun(20, func() { c.s.Fits("hooks", prepared) }); n != 0 {
					t.Errorf("%s: Fits makes %v allocations", c.on, n)
				}
			}
			if body := fields["payload"].([]byte); cap(body) != len(body) || cap(payload) != len(payload) {
				t.Errorf("%d and %d bytes of body in allocations of %d and %d", len(body), len(payload), cap(body), cap(payload))
			}
		})
	}
}

func TestSizeOfAClaim(t *testing.T) {
	m, pubsub := rediswire.Marshaler{}, rediswire.PubSubMarshaler{}
	for _, tenant := range []string{"acme", ""} {
		msg := hooktest.With(hook(), "ankusa_tenant_id", tenant, "ankusa_idempotency_key", "k", "a", "b")
		sent := hooktest.With(asClaim(tenant), "a", "b")
		if _, claim, _ := m.Size("hooks", msg, "acme"); claim != bytesOf(t, marshal(t, m, sent)) {
			t.Errorf("stream, tenant %q: Size said %d", tenant, claim)
		}
		if _, claim, _ := pubsub.Size("hooks", msg, "acme"); claim != int64(len(publish(t, pubsub, sent))) {
			t.Errorf("channel, tenant %q: Size said %d", tenant, claim)
		}
	}
}

func TestTooLarge(t *testing.T) {
	msg := hooktest.With(hook(), "a", "b")
	check := func(size int64, at, under func() error) {
		t.Helper()
		if err := at(); err != nil {
			t.Errorf("the limit is inclusive: %v", err)
		}
		err := under()
		var tooLarge *envelope.TooLargeError
		if !errors.As(err, &tooLarge) || tooLarge.Size != size || tooLarge.Max != size-1 || !envelope.IsPermanent(err) {
			t.Errorf("got %v", err)
		}
	}
	n, _, _ := rediswire.Marshaler{}.Size("hooks", msg, "")
	stream := func(limit int64) func() error {
		return func() error {
			_, err := rediswire.Marshaler{MaxMessageBytes: limit}.Marshal("hooks", msg)
			return err
		}
	}
	check(n, stream(n), stream(n-1))
	n, _, _ = rediswire.PubSubMarshaler{}.Size("hooks", msg, "")
	channel := func(limit int64) func() error {
		return func() error {
			_, err := rediswire.PubSubMarshaler{MaxMessageBytes: limit}.Marshal("hooks", msg)
			return err
		}
	}
	check(n, channel(n), channel(n-1))
}

// True is certain: nothing that fits by Fits is over the limit by Size.
func TestFits(t *testing.T) {
	for name, msg := range sizedMessages(t) {
		for _, s := range []func(limit int64) marshaler.Fitter{
			func(limit int64) marshaler.Fitter { return rediswire.Marshaler{Source: "o", MaxMessageBytes: limit} },
			func(limit int64) marshaler.Fitter {
				return rediswire.PubSubMarshaler{Source: "o", MaxMessageBytes: limit}
			},
		} {
			prepared, err := s(0).Prepare("hooks", msg)
			if err != nil {
				t.Fatal(err)
			}
			inline, _, _ := s(0).Size("hooks", prepared, "")
			if s(inline-1).Fits("hooks", prepared) {
				t.Errorf("%s: fits %d bytes, takes %d", name, inline-1, inline)
			}
			if !s(1<<30).Fits("hooks", prepared) {
				t.Errorf("%s: does not fit 1 GiB", name)
			}
		}
	}
}

// A malformed message that does not fit as it came goes out in an envelope, which can be
// checked in.
func TestMalformedOverTheLimit(t *testing.T) {
	raw := strings.Repeat("{", 2000)
	msg := unmarshal(t, rediswire.Marshaler{}, entry(raw, "a=1", "b=\xff", "ankusa_tenant_id=evil"))
	m := rediswire.Marshaler{MaxMessageBytes: 2000}
	prepared, err := m.Prepare("poison", msg)
	if err != nil {
		t.Fatal(err)
	}
	if envelope.IsMalformed(prepared) || string(prepared.Payload) != raw || prepared.UUID != msg.UUID ||
		prepared.Metadata["malformed_code"] != "invalid_json" || prepared.Metadata["a"] != "1" || prepared.Metadata["ankusa_tenant_id"] != "" {
		t.Fatalf("prepared %s %q %v", prepared.UUID, prepared.Payload, prepared.Metadata)
	}
	if _, claim, limit := m.Size("poison", prepared, "acme"); claim > limit {
		t.Errorf("as a claim it takes %d of %d bytes", claim, limit)
	}
}
