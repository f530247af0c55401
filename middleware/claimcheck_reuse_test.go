package middleware_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// checkedIn publishes a body of 70,000 bytes, and returns the message that a consumer receives.
func checkedIn(t *testing.T, cc *hookmw.ClaimCheck, b *broker) *message.Message {
	t.Helper()
	if err := wrap(t, cc, b, nil).Publish("hooks", hook(text(70_000), "note", "n")); err != nil {
		t.Fatal(err)
	}
	return b.receive(t, len(b.records)-1)
}

// A body is stored once, whatever becomes of its message, until it is another body or another
// message.
func TestReuse(t *testing.T) {
	identity := func(msg *message.Message) *message.Message { return msg }
	set := func(payload []byte) func(*message.Message) *message.Message {
		return func(msg *message.Message) *message.Message {
			msg.Payload = payload
			return msg
		}
	}
	const same, other, inline = "the same claim", "another claim", "inline"
	tests := []struct {
		rule    string
		lazy    bool
		noReuse bool
		change  func(*message.Message) *message.Message // by the handler
		want    string
		body    []byte
	}{
		{"what was redeemed", false, false, identity, same, text(70_000)},
		{"what was not", true, false, identity, same, text(70_000)},
		{"with the reason of a failure", false, false, func(msg *message.Message) *message.Message {
			msg.Metadata["reason_poisoned"] = "out of stock"
			return msg
		}, same, text(70_000)},
		{"a copy", false, false, (*message.Message).CopyWithContext, same, text(70_000)},
		{"a replay", false, false, func(msg *message.Message) *message.Message { return envelope.Replay(msg, "r-1") }, same, text(70_000)},
		{"a replay of what was not redeemed", true, false, func(msg *message.Message) *message.Message { return envelope.Replay(msg, "r-1") }, same, text(70_000)},
		{"a body that was replaced by an equal one", false, false, set(text(70_000)), same, text(70_000)},
		{"another body", false, false, set(text(80_000)), other, text(80_000)},
		{"a body put in without redeeming", true, false, set(text(80_000)), other, text(80_000)},
		{"a body that fits now", false, false, set(text(10)), inline, text(10)},
		{"a body that was emptied", false, false, set(nil), inline, nil},
		{"a message made of it, of the same body", false, false, func(msg *message.Message) *message.Message {
			return envelope.Derive(msg, "next", msg.Payload)
		}, other, text(70_000)},
		{"another UUID", false, false, func(msg *message.Message) *message.Message {
			msg.UUID = "another"
			return msg
		}, other, text(70_000)},
		{"another tenant", false, false, func(msg *message.Message) *message.Message {
			msg.Metadata[envelope.MetadataTenantID] = "globex"
			return msg
		}, other, text(70_000)},
		{"NoReuse", false, true, identity, other, text(70_000)},
		{"NoReuse of another body", false, true, set(text(10)), inline, text(10)},
		{"NoReuse of a body that is not here", true, true, identity, same, text(70_000)},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			s, b := &store{}, &broker{}
			cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Lazy: tt.lazy, NoReuse: tt.noReuse})
			msg := checkedIn(t, cc, b)
			claim := msg.Metadata[envelope.MetadataClaim]
			if _, err := handle(t, cc, msg); err != nil || len(s.puts) != 1 {
				t.Fatal(s.puts, err)
			}
			msg = tt.change(msg)
			before := msg.Copy()
			if err := wrap(t, cc, b, nil).Publish("next", msg); err != nil {
				t.Fatal(err)
			}
			if !msg.Equals(before) {
				t.Errorf("the caller's message became %v", msg.Metadata)
			}
			got := b.receive(t, 1)
			again, puts := got.Metadata[envelope.MetadataClaim], len(s.puts)
			switch tt.want {
			case same:
				if again != claim || puts != 1 {
					t.Errorf("claim %s, %d puts; want %s again", again, puts, claim)
				}
			case other:
				if again == claim || again == "" || puts != 2 {
					t.Errorf("claim %q, %d puts; want another one", again, puts)
				}
			case inline:
				if again != "" || puts != 1 {
					t.Errorf("claim %s, %d puts; want it inline", again, puts)
				}
			}
			if got.Metadata["note"] != "n" || got.UUID != msg.UUID || got.Metadata["reason_poisoned"] != msg.Metadata["reason_poisoned"] {
				t.Errorf("sent %s %v", got.UUID, got.Metadata)
			}
			body, err := handle(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s}), got)
			if err != nil || !bytes.Equal(body, tt.body) {
				t.Errorf("handled %d bytes, error %v", len(body), err)
			}
		})
	}
}

// Of an empty body that was redeemed, only the mark tells that it was.
func TestReuseOfAnEmptyBody(t *testing.T) {
	for _, noReuse := range []bool{false, true} {
		s, b := &store{}, &broker{}
		cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, InlineMaxBytes: -1, NoReuse: noReuse})
		pub := wrap(t, cc, b, nil)
		if err := pub.Publish("hooks", hook(nil)); err != nil {
			t.Fatal(err)
		}
		msg := b.receive(t, 0)
		if body, err := handle(t, cc, msg); err != nil || len(body) != 0 || msg.Metadata[envelope.MetadataRedeemed] == "" {
			t.Fatalf("%q, %v, %v", body, err, msg.Metadata)
		}
		if err := pub.Publish("hooks", msg); err != nil {
			t.Fatal(err)
		}
		again := b.receive(t, 1).Metadata[envelope.MetadataClaim]
		if reused := again == msg.Metadata[envelope.MetadataClaim]; again == "" || reused == noReuse {
			t.Errorf("NoReuse %v: claim %s, then %s", noReuse, msg.Metadata[envelope.MetadataClaim], again)
		}
	}
}

// A message that a stock subscriber received is still sealed: its payload is no body.
func TestReuseOfASealedMessage(t *testing.T) {
	s, b := &store{}, &broker{}
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, NoReuse: true})
	claim := checkedIn(t, cc, b).Metadata[envelope.MetadataClaim]
	value, err := b.records[0].Value.Encode()
	if err != nil {
		t.Fatal(err)
	}
	stock := message.NewMessage("stock", value)
	stock.Metadata[envelope.MetadataVersion] = "1"
	stock.Metadata[envelope.MetadataClaim] = claim // as a foreign header may say
	if body, err := handle(t, cc, stock); err != nil || !bytes.Equal(body, value) {
		t.Errorf("handled %.100s, error %v", body, err)
	}
	if err := wrap(t, cc, b, nil).Publish("hooks", stock); err != nil {
		t.Fatal(err)
	}
	if again := b.receive(t, 1).Metadata[envelope.MetadataClaim]; again != claim || len(s.puts) != 1 {
		t.Errorf("claim %q, %d puts", again, len(s.puts))
	}
}

// A malformed message is published as it came, and is stored only where no transport has room
// for it.
func TestMalformedMessages(t *testing.T) {
	s, in := &store{}, &broker{}
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, InlineMaxBytes: -1})
	for _, n := range []int{100, 70_000, 90_000} {
		raw := bytes.Repeat([]byte("{"), n)
		native := map[string]string{envelope.MetadataClaim: claimRef}
		if n == 100 {
			native = nil
		}
		msg := envelope.OpenMalformed(raw, &envelope.Error{Code: envelope.CodeInvalidJSON}, "bad", native)
		called := false
		_, err := cc.Middleware(func(*message.Message) ([]*message.Message, error) {
			called = true
			return nil, nil
		})(msg)
		if err != nil || !called || s.gets != 0 {
			t.Errorf("not left to the gate: %v", err)
		}

		b := &broker{Marshaler: kafkawire.Marshaler{MaxMessageBytes: 80_000}}
		before := msg.Copy()
		if err := wrap(t, cc, b, nil).Publish("poison", msg); err != nil {
			t.Fatal(err)
		}
		if !msg.Equals(before) {
			t.Error("the caller's message was changed")
		}
		if n <= 80_000 {
			value, _ := b.records[0].Value.Encode()
			if !bytes.Equal(value, raw) || len(s.puts) != 0 {
				t.Errorf("%d bytes: sent %.100s, %d puts", n, value, len(s.puts))
			}
			continue
		}
		in.records = b.records
		got := in.receive(t, 0)
		body, err := handle(t, cc, got)
		if err != nil || !bytes.Equal(body, raw) || got.Metadata["malformed_code"] != "invalid_json" {
			t.Errorf("handled %.100s, error %v, of %v", body, err, got.Metadata)
		}
		if len(s.puts) != 1 || !strings.HasPrefix(s.puts[0], "claims/tenant=default/") {
			t.Errorf("stored %v", s.puts)
		}
	}
}

// What publishing may do to the caller's message: mint its UUID, and make its metadata a map.
func TestMintedUUID(t *testing.T) {
	s, b := &store{}, &broker{Marshaler: kafkawire.Marshaler{Source: "shop"}}
	pub := wrap(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s}), b, nil)
	for _, n := range []int{10, 70_000} {
		msg := &message.Message{Payload: text(n)}
		for range 2 { // an attempt, and its retry
			if err := pub.Publish("hooks", msg); err != nil {
				t.Fatal(err)
			}
		}
		if msg.UUID == "" || msg.Metadata == nil || len(msg.Metadata) != 0 || len(msg.Payload) != n {
			t.Errorf("the caller's message became %s %v", msg.UUID, msg.Metadata)
		}
		for i := len(b.records) - 2; i < len(b.records); i++ {
			if got := b.receive(t, i); got.UUID != msg.UUID {
				t.Errorf("sent %s, want %s", got.UUID, msg.UUID)
			}
		}
	}
	if len(s.puts) != 2 {
		t.Errorf("%d puts", len(s.puts))
	}
}
