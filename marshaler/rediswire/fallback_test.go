package rediswire_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
)

// counter is an Observer.
type counter struct {
	malformed map[string]int
	fallback  map[string]int
}

func newCounter() *counter {
	return &counter{malformed: map[string]int{}, fallback: map[string]int{}}
}

func (c *counter) Malformed(topic string, code envelope.Code) { c.malformed[topic+" "+string(code)]++ }
func (c *counter) Fallback(topic string)                      { c.fallback[topic]++ }

// fallback is a Fallback made of a function.
type fallback func(map[string]any) (*message.Message, error)

func (f fallback) Unmarshal(values map[string]any) (*message.Message, error) {
	return f(values)
}

var stock = redisstream.DefaultMarshallerUnmarshaller{}

// stockEntry is what a producer with the stock marshaler stores.
func stockEntry(t testing.TB, msg *message.Message) map[string]any {
	t.Helper()
	fields, err := stock.Marshal("hooks", msg)
	if err != nil {
		t.Fatal(err)
	}
	return stored(t, fields)
}

// A stream in the middle of a migration: every body arrives as it was sent, and what we broke
// is never taken for a message of the old format.
func TestFallbackOnALiveStream(t *testing.T) {
	const each = 1000
	count := newCounter()
	m := rediswire.Marshaler{Source: "orders", Fallback: stock, Observer: count}

	type sent struct {
		values     map[string]any
		uuid, body string
		old        bool
	}
	var stream []sent
	for i := range each {
		body := fmt.Sprintf("{\"order\":%d}\xff", i)
		old := hooktest.With(message.NewMessage(fmt.Sprintf("old-%d", i), []byte(body)), "n", "old")
		stream = append(stream, sent{stockEntry(t, old), old.UUID, body, true})
		ours := hooktest.With(message.NewMessage(fmt.Sprintf("new-%d", i), []byte(body)), "n", "new")
		stream = append(stream, sent{stored(t, marshal(t, m, ours)), ours.UUID, body, false})
	}
	rand.Shuffle(len(stream), func(i, j int) { stream[i], stream[j] = stream[j], stream[i] })

	var ours map[string]any
	for _, s := range stream {
		msg := unmarshal(t, m, s.values)
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
			ours = s.values
		}
	}
	if len(count.malformed) != 0 || !maps.Equal(count.fallback, map[string]int{"": each}) {
		t.Errorf("counted %v", count)
	}

	payload := ours["payload"].(string)
	ours["payload"], ours["_watermill_message_uuid"] = payload[:len(payload)-1], "u-1"
	if msg := unmarshal(t, m, ours); !envelope.IsMalformed(msg) {
		t.Errorf("a broken message of ours was read as %q", msg.Payload)
	}
	if count.malformed[" invalid_json"] != 1 {
		t.Errorf("counted %v", count)
	}
}

func TestFallback(t *testing.T) {
	returns := func(msg *message.Message, err error) fallback {
		return func(map[string]any) (*message.Message, error) { return msg, err }
	}
	old := stockEntry(t, message.NewMessage("u-1", []byte("hello")))
	with := func(name string) map[string]any {
		values := maps.Clone(old)
		values[name] = ""
		return values
	}
	tests := []struct {
		rule      string
		fallback  rediswire.Unmarshaler
		values    map[string]any
		malformed bool
	}{
		{"another format is read", stock, old, false},
		{"a broken message of ours stays malformed", stock, with("ankusa_message_version"), true},
		{"in any letter case", stock, with("Ankusa_Message_Version"), true},
		{"metadata of that name say nothing", stock, with("meta:ankusa_message_version"), false},
		{"an entry that the stock marshaler refuses", stock, entry("hello"), true},
		{"an entry that it panics on", stock, map[string]any{"payload": []byte("hello"), "_watermill_message_uuid": 7}, true},
		{"msgpack that is none", stock, entry("hello", "_watermill_message_uuid=u-1", "metadata=\xc1"), true},
		{"an error means malformed", returns(message.NewMessage("1", nil), errors.New("unreadable")), old, true},
		{"no message means malformed", returns(nil, nil), old, true},
		{"so does a marshaler of ours that cannot read it", rediswire.Marshaler{}, old, true},
		{"metadata are made", returns(&message.Message{Payload: []byte("hello")}, nil), old, false},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			count := newCounter()
			msg := unmarshal(t, rediswire.Marshaler{Fallback: tt.fallback, Observer: count}, tt.values)
			if envelope.IsMalformed(msg) != tt.malformed {
				t.Fatalf("malformed %v: %v", !tt.malformed, msg.Metadata)
			}
			if tt.malformed {
				if string(envelope.Raw(msg)) != "hello" || msg.Metadata["envelope_fallback"] != "" {
					t.Errorf("raw %q, metadata %v", envelope.Raw(msg), msg.Metadata)
				}
				if count.malformed[" invalid_json"] != 1 || len(count.fallback) != 0 {
					t.Errorf("counted %v", count)
				}
				return
			}
			if string(msg.Payload) != "hello" || msg.Metadata["envelope_fallback"] != "true" {
				t.Errorf("payload %q, metadata %v", msg.Payload, msg.Metadata)
			}
			if count.fallback[""] != 1 || len(count.malformed) != 0 {
				t.Errorf("counted %v", count)
			}
		})
	}
}

// A well-formed message never reaches the fallback, with or without our attributes.
func TestFallbackIsNotAsked(t *testing.T) {
	m := rediswire.Marshaler{Fallback: fallback(func(map[string]any) (*message.Message, error) {
		t.Error("asked")
		return nil, nil
	})}
	if msg := unmarshal(t, m, entry(hookJSON)); string(msg.Payload) != "hello" {
		t.Errorf("payload %q", msg.Payload)
	}
}

// What the fallback reads carries no envelope, whatever its metadata say, and can be sealed.
func TestFallbackIsNotBelieved(t *testing.T) {
	m := rediswire.Marshaler{Source: "orders", Tenant: "acme", Fallback: stock}
	msg := unmarshal(t, m, stockEntry(t, hooktest.With(message.NewMessage("u-1", []byte("hello")), "ankusa_id", "x", "Ankusa_Tenant_Id", "evil",
		"ankusa_verification", "ok", "ANKUSA_CLAIM", claimRef, "envelope_redeemed", "true", "a", "\xff", "traceparent", traceparent, "kept", "1")))
	want := message.Metadata{"envelope_fallback": "true", "envelope_receipt": "redis", "traceparent": traceparent, "kept": "1"}
	if msg.UUID != "u-1" || !maps.Equal(msg.Metadata, want) {
		t.Errorf("%s %v, want %v", msg.UUID, msg.Metadata, want)
	}
	fields := marshal(t, m, msg)
	if fields["ankusa_tenant_id"] != "acme" || fields["meta:kept"] != "1" || fields["envelope_fallback"] != nil {
		t.Errorf("sealed as %q", beside(t, fields))
	}
}
