package natswire_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	wmjs "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/jetstream"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/natswire"
)

// stocks are the marshalers of watermill-nats.
var stocks = map[string]wmnats.MarshalerUnmarshaler{
	"gob": wmnats.GobMarshaler{}, "json": wmnats.JSONMarshaler{}, "headers": &wmnats.NATSMarshaler{},
}

// fallback is a Fallback made of a function.
type fallback func(*nats.Msg) (*message.Message, error)

func (f fallback) Unmarshal(in *nats.Msg) (*message.Message, error) { return f(in) }

// stockMsg is a message as a stock marshaler sends it and a consumer gets it.
func stockMsg(t testing.TB, m wmnats.Marshaler, msg *message.Message) *nats.Msg {
	t.Helper()
	out, err := m.Marshal("hooks", msg)
	if err != nil {
		t.Fatal(err)
	}
	return delivered(t, out)
}

// A subject in the middle of a migration: every body arrives as it was sent, and what we broke
// is never taken for a message of the old format.
func TestFallbackOnALiveSubject(t *testing.T) {
	for name, stock := range stocks {
		t.Run(name, func(t *testing.T) {
			const each = 300
			count := newCounter()
			m := natswire.Marshaler{Source: "orders", Fallback: stock, Observer: count}
			type sent struct {
				in         *nats.Msg
				uuid, body string
				old        bool
			}
			var stream []sent
			for i := range each {
				body := fmt.Sprintf(`{"order":%d}`, i)
				old := hooktest.With(message.NewMessage(fmt.Sprintf("old-%d", i), []byte(body)), "n", "old")
				stream = append(stream, sent{stockMsg(t, stock, old), old.UUID, body, true})
				ours := marshal(t, m, hooktest.With(message.NewMessage(fmt.Sprintf("new-%d", i), []byte(body)), "n", "new"))
				stream = append(stream, sent{delivered(t, ours), fmt.Sprintf("new-%d", i), body, false})
			}
			rand.Shuffle(len(stream), func(i, j int) { stream[i], stream[j] = stream[j], stream[i] })
			var broken *nats.Msg
			for _, s := range stream {
				msg := unmarshal(t, m, s.in)
				if string(msg.Payload) != s.body || msg.UUID != s.uuid || msg.Metadata["n"] != s.uuid[:3] {
					t.Fatalf("%s: got %s %q %v", s.uuid, msg.UUID, msg.Payload, msg.Metadata)
				}
				if got := msg.Metadata["envelope_fallback"] == "true"; got != s.old {
					t.Errorf("%s: fallback %v", s.uuid, got)
				}
				if got := msg.Metadata["ankusa_id"] != ""; got == s.old {
					t.Errorf("%s: carries an envelope: %v", s.uuid, got)
				}
				if !s.old {
					broken = s.in
				}
			}
			if len(count.malformed) != 0 || !maps.Equal(count.fallback, map[string]int{"hooks": each}) {
				t.Errorf("counted %v", count)
			}
			broken.Data = broken.Data[:len(broken.Data)-1]
			if msg := unmarshal(t, m, broken); !envelope.IsMalformed(msg) {
				t.Errorf("a broken message of ours was read as %q", msg.Payload)
			}
			if count.malformed["hooks invalid_json"] != 1 {
				t.Errorf("counted %v", count)
			}
		})
	}
}

func TestFallback(t *testing.T) {
	returns := func(msg *message.Message, err error) fallback {
		return func(*nats.Msg) (*message.Message, error) { return msg, err }
	}
	headers := &wmnats.NATSMarshaler{}
	tests := []struct {
		rule      string
		fallback  natswire.Unmarshaler
		in        *nats.Msg
		malformed bool
	}{
		{"another format is read", headers, natsMsg("hello"), false},
		{"a broken message of ours stays malformed", headers, natsMsg("hello", "ankusa_message_version=1"), true},
		{"in any letter case", headers, natsMsg("hello", "Ankusa_Message_Version=1"), true},
		{"a message that the stock marshaler refuses", headers, natsMsg("hello", "a=1", "a=2"), true},
		{"gob that is none", wmnats.GobMarshaler{}, natsMsg("hello"), true},
		{"JSON that is none", wmnats.JSONMarshaler{}, natsMsg("hello"), true},
		{"an error means malformed", returns(message.NewMessage("1", nil), errors.New("unreadable")), natsMsg("hello"), true},
		{"so does a panic", fallback(func(*nats.Msg) (*message.Message, error) { panic("odd") }), natsMsg("hello"), true},
		{"no message means malformed", returns(nil, nil), natsMsg("hello"), true},
		{"so does a marshaler of ours that cannot read it", natswire.Marshaler{}, natsMsg("hello"), true},
		{"metadata are made", returns(&message.Message{Payload: []byte("hello")}, nil), natsMsg("hello"), false},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			count := newCounter()
			msg := unmarshal(t, natswire.Marshaler{Fallback: tt.fallback, Observer: count}, tt.in)
			checkFallback(t, msg, count, tt.malformed)
		})
	}
	for rule, tt := range map[string]struct {
		in        *nats.Msg
		malformed bool
	}{
		"pkg/jetstream: another format is read":                   {natsMsg("hello"), false},
		"pkg/jetstream: a broken message of ours stays malformed": {natsMsg("hello", "ankusa_message_version=1"), true},
		"pkg/jetstream: a message that the stock one refuses":     {natsMsg("hello", "a=1", "a=2"), true},
	} {
		t.Run(rule, func(t *testing.T) {
			count := newCounter()
			u := natswire.JetStreamUnmarshaler{Fallback: wmjs.DefaultUnmarshaler{}, Observer: count}
			msg, err := u.Unmarshal(jsMsg{in: tt.in})
			if err != nil {
				t.Fatal(err)
			}
			checkFallback(t, msg, count, tt.malformed)
		})
	}
}

func checkFallback(t *testing.T, msg *message.Message, count *counter, malformed bool) {
	t.Helper()
	if envelope.IsMalformed(msg) != malformed {
		t.Fatalf("malformed %v: %v", !malformed, msg.Metadata)
	}
	if malformed {
		if string(envelope.Raw(msg)) != "hello" || msg.Metadata["envelope_fallback"] != "" {
			t.Errorf("raw %q, metadata %v", envelope.Raw(msg), msg.Metadata)
		}
		if count.malformed["hooks invalid_json"] != 1 || len(count.fallback) != 0 {
			t.Errorf("counted %v", count)
		}
		return
	}
	if string(msg.Payload) != "hello" || msg.Metadata["envelope_fallback"] != "true" || msg.Metadata["envelope_receipt"] != receipt {
		t.Errorf("payload %q, metadata %v", msg.Payload, msg.Metadata)
	}
	if count.fallback["hooks"] != 1 || len(count.malformed) != 0 {
		t.Errorf("counted %v", count)
	}
}

// A well-formed message never reaches the fallback, with or without our attributes.
func TestFallbackIsNotAsked(t *testing.T) {
	m := natswire.Marshaler{Fallback: fallback(func(*nats.Msg) (*message.Message, error) {
		t.Error("asked")
		return nil, nil
	})}
	if msg := unmarshal(t, m, natsMsg(hookJSON)); string(msg.Payload) != "hello" {
		t.Errorf("payload %q", msg.Payload)
	}
}

// What the fallback reads carries no envelope, whatever its metadata say, and can be sealed: as
// a new message under the receipt of its copy.
func TestFallbackIsNotBelieved(t *testing.T) {
	for name, stock := range stocks {
		t.Run(name, func(t *testing.T) {
			m := natswire.Marshaler{Source: "orders", Tenant: "acme", Fallback: stock}
			msg := unmarshal(t, m, stockMsg(t, stock, hooktest.With(message.NewMessage("u-1", []byte("hello")),
				"ankusa_id", "x", "Ankusa_Tenant_Id", "evil", "ankusa_verification", "ok", "ANKUSA_CLAIM", claimRef,
				"envelope_redeemed", "true", "traceparent", traceparent, "kept", "1")))
			want := message.Metadata{"envelope_fallback": "true", "envelope_receipt": receipt, "traceparent": traceparent, "kept": "1"}
			if msg.UUID != "u-1" || !maps.Equal(msg.Metadata, want) {
				t.Errorf("%s %v, want %v", msg.UUID, msg.Metadata, want)
			}
			out := marshal(t, m, msg)
			if out.Header.Get("ankusa_tenant_id") != "acme" || out.Header.Get("kept") != "1" || out.Header["envelope_fallback"] != nil {
				t.Errorf("sealed as %q", lines(out.Header))
			}
			if id := out.Header.Get("Nats-Msg-Id"); id == "u-1" {
				t.Error("goes out again under the id that it came with")
			}
		})
	}
}
