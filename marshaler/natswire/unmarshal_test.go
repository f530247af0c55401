package natswire_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/natswire"
)

func TestUnmarshalHeaders(t *testing.T) {
	tests := []struct {
		rule    string
		headers []string
		want    message.Metadata // beside those of the data
	}{
		{"no headers are needed", nil, nil},
		{"names keep their letter case", []string{"a=1", "A=2", "Mixed-Case="}, message.Metadata{"a": "1", "A": "2", "Mixed-Case": ""}},
		{"of several values the first counts", []string{"a=1", "a=2"}, message.Metadata{"a": "1"}},
		{"blanks around a value are no part of it", []string{"a= \t1 2\t"}, message.Metadata{"a": "1 2"}},
		{"names that no client of ours writes", []string{"a b=1", "é=2"}, message.Metadata{"a b": "1", "é": "2"}},
		{"text that is not UTF-8 is dropped", []string{"a=\xff", "\xff=b", "c=d"}, message.Metadata{"c": "d"}},
		{
			"what is the server's is not metadata, in any letter case",
			[]string{"Nats-Msg-Id=x", "nats-rollup=all", "NATS-Sequence=1", "Nats=kept"},
			message.Metadata{"Nats": "kept"},
		},
		{
			"nothing of ours is believed, in any letter case",
			[]string{
				"envelope_redeemed=true", "Envelope_Malformed=x", "envelope_receipt=z", "ankusa_id=evil", "Ankusa_Tenant_Id=evil",
				"ANKUSA_CLAIM=" + claimRef, "ankusa_message_version=9", "TraceParent=00",
			},
			nil,
		},
		{
			"framing is dropped, other keys of Watermill are the user's",
			[]string{"_watermill_message_uuid=u", "content_type=text/plain", "_watermill_requeued_from=kept"},
			message.Metadata{"_watermill_requeued_from": "kept"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			in := natsMsg(hookJSON, tt.headers...)
			msg := unmarshal(t, natswire.Marshaler{}, in)
			want := hook().Metadata
			want["envelope_receipt"] = receipt
			maps.Copy(want, tt.want)
			if msg.UUID != hookID || string(msg.Payload) != "hello" || !maps.Equal(msg.Metadata, want) {
				t.Errorf("%s %q\n%v, want\n%v", msg.UUID, msg.Payload, msg.Metadata, want)
			}
			same, err := natswire.JetStreamUnmarshaler{}.Unmarshal(jsMsg{in: in})
			if err != nil || same.UUID != msg.UUID || string(same.Payload) != "hello" || !maps.Equal(same.Metadata, want) {
				t.Errorf("pkg/jetstream: %v %v", same, err)
			}
			marshal(t, natswire.Marshaler{}, msg)
		})
	}
}

// jsMsg is a message as pkg/jetstream gets it, of which an unmarshaler asks no more.
type jsMsg struct {
	jetstream.Msg
	in *nats.Msg
}

func (m jsMsg) Data() []byte         { return m.in.Data }
func (m jsMsg) Headers() nats.Header { return m.in.Header }
func (m jsMsg) Subject() string      { return m.in.Subject }
func (m jsMsg) Reply() string        { return m.in.Reply }

func TestUnmarshalMemberWins(t *testing.T) {
	data := strings.Replace(hookJSON, `"sha256"`, `"watermill_metadata":{"a":"member","Nats-Rollup":"all"},"sha256"`, 1)
	msg := unmarshal(t, natswire.Marshaler{}, natsMsg(data, "a=header", "b=header"))
	for name, want := range map[string]string{"a": "member", "b": "header", "Nats-Rollup": "all"} {
		if got := msg.Metadata[name]; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestReceipt(t *testing.T) {
	for reply, want := range map[string]string{
		ackReply: receipt,
		"$JS.ACK._.ACCHASH.HOOKS.orders.1.42.7.1737500000000000000.0":       receipt,
		"$JS.ACK.hub.ACCHASH.HOOKS.orders.1.42.7.1737500000000000000.0.rnd": receipt,
		"$JS.ACK.HOOKS.orders.9.42.99.1.5":                                  receipt, // delivered again
		"":                                                                  "",
		"_INBOX.abc.1":                                                      "",
		"$JS.ACK.":                                                          "",
		"$JS.ACK.HOOKS.orders.1.42.7.1":                                     "", // a token too few
		"$JS.ACK.HOOKS.orders.1.42.7.1.0.0":                                 "", // between the two forms
		"$JS.ACK.HOOKS.orders.1.x.7.1.0":                                    "",
		"$JS.ACK.HOOKS.orders.1..7.1.0":                                     "",
		"$JS.ACK..orders.1.42.7.1.0":                                        "",
		"$JS.ACK.......":                                                    "",
		"$js.ack.HOOKS.orders.1.42.7.1.0":                                   "",
	} {
		in := natsMsg(hookJSON)
		in.Reply = reply
		got := unmarshal(t, natswire.Marshaler{}, in).Metadata["envelope_receipt"]
		if want != "" && got != want {
			t.Errorf("%q: receipt %q, want %q", reply, got, want)
		}
		if want == "" {
			again := unmarshal(t, natswire.Marshaler{}, in).Metadata["envelope_receipt"]
			if !strings.HasPrefix(got, "nats/") || got == again {
				t.Errorf("%q: receipts %q and %q, want one for each delivery", reply, got, again)
			}
		}
	}
}

func TestUnmarshalMalformed(t *testing.T) {
	core := natsMsg("hello")
	core.Reply = ""
	tests := []struct {
		rule   string
		in     *nats.Msg
		reason string
		id     string // "" is minted
		out    []string
	}{
		{"no data", natsMsg(""), "invalid_json", receipt, nil},
		{"text", natsMsg("hello"), "invalid_json", receipt, nil},
		{"text that came from no stream", core, "invalid_json", "", nil},
		{"a later version", natsMsg(`{"v":3}`), "unsupported_version", receipt, nil},
		{"a field of the wrong type", natsMsg(strings.Replace(hookJSON, `"acme",`, `7,`, 1)), "invalid_field:tenant_id", receipt, nil},
		{"a body that was changed", natsMsg(strings.Replace(hookJSON, "aGVsbG8", "SGVsbG8", 1)), "integrity", receipt, nil},
		{
			"the UUID of a stock producer", natsMsg("x", "_watermill_message_uuid=u-1", "ankusa_id=a-1"),
			"invalid_json", "u-1",
			[]string{"_watermill_message_uuid=u-1"},
		},
		{
			"an attribute of ours", natsMsg("x", "ankusa_id=a-1", "ankusa_message_version=1", "content_type=application/json"),
			"invalid_json", "a-1",
			[]string{"ankusa_message_version=1", "content_type=application/json"},
		},
		{
			"headers that are no text", natsMsg("x", "a=\xff", "b=1", "b=2", "c= 3 "),
			"invalid_json", receipt,
			[]string{"a=\xff", "b=1", "c=3"},
		},
		{
			"orders to the server are not passed on, nor what cannot be written",
			natsMsg("x", "Nats-Rollup=all", "nats-ttl=1s", "a b=1", "c=1\r2", "d=1"),
			"invalid_json", receipt,
			[]string{"d=1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			m := natswire.Marshaler{}
			msg := unmarshal(t, m, tt.in)
			if len(msg.Payload) != 0 || !envelope.IsMalformed(msg) || msg.Metadata["envelope_malformed"] != tt.reason {
				t.Fatalf("payload %q, malformed %q", msg.Payload, msg.Metadata["envelope_malformed"])
			}
			if string(envelope.Raw(msg)) != string(tt.in.Data) || msg.UUID == "" || tt.id != "" && msg.UUID != tt.id {
				t.Errorf("id %q raw %q", msg.UUID, envelope.Raw(msg))
			}
			hooktest.With(msg, "reason_poisoned", "malformed")

			out := marshal(t, m, msg)
			if string(out.Data) != string(tt.in.Data) {
				t.Errorf("passed on as %q", out.Data)
			}
			want := append([]string{
				"Nats-Msg-Id=" + envelope.PublishID(msg, "hooks"), "ankusa_id=" + msg.UUID, "reason_poisoned=malformed",
			}, tt.out...)
			slices.Sort(want)
			if got := lines(out.Header); !slices.Equal(got, want) {
				t.Errorf("headers %q, want %q", got, want)
			}
		})
	}
}

// No client delivers one.
func TestUnmarshalNil(t *testing.T) {
	if msg, err := (natswire.Marshaler{}).Unmarshal(nil); err == nil || msg != nil {
		t.Errorf("got %v, %v", msg, err)
	}
	if msg, err := (natswire.JetStreamUnmarshaler{}).Unmarshal(nil); err == nil || msg != nil {
		t.Errorf("got %v, %v", msg, err)
	}
}

func TestRoundTrip(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	tests := map[string]*message.Message{
		"the hook":         hook(),
		"an empty body":    func() *message.Message { m := hook(); m.Payload = message.Payload{}; return m }(),
		"every byte":       func() *message.Message { m := hook(); m.Payload = every; return m }(),
		"unknown members":  hooktest.With(hook(), "ankusa_unknown", `{"later":{"a":[1,2]}}`),
		"a flag":           hooktest.With(hook(), "ankusa_verification", "failed", "ankusa_verification_flagged", "true"),
		"user metadata":    hooktest.With(hook(), "a", "", "é", "\u2028<&>", "content_type", "x", "\u0000", "\u0001", "b", " \r\n", "Nats-TTL", "1s"),
		"140,000 bytes":    hooktest.With(hook(), "a", strings.Repeat("x", 140_000), "b", "small"),
		"odd fields":       hooktest.With(hook(), "ankusa_tenant_id", "a\r\nb", "ankusa_ordering_key", " ", "tracestate", "a=b"),
		"one of 64 values": func() *message.Message { m := hook(); fill(m, 64); return m }(),
	}
	for name, msg := range tests {
		t.Run(name, func(t *testing.T) {
			m := natswire.Marshaler{}
			opened := unmarshal(t, m, delivered(t, marshal(t, m, msg)))
			again := unmarshal(t, m, delivered(t, marshal(t, m, opened)))
			want := maps.Clone(msg.Metadata)
			for _, name := range []string{"ankusa_size", "ankusa_sha256"} {
				want[name] = opened.Metadata[name]
			}
			want["envelope_receipt"] = receipt
			for _, got := range []*message.Message{opened, again} {
				if string(got.Payload) != string(msg.Payload) || got.UUID != msg.UUID || !maps.Equal(got.Metadata, want) {
					t.Errorf("got %s %q %v, want %v", got.UUID, got.Payload, got.Metadata, want)
				}
			}
		})
	}
}

func fill(msg *message.Message, n int) {
	for i := range n {
		msg.Metadata[fmt.Sprintf("x-%d", i)] = strings.Repeat("é", i)
	}
}
