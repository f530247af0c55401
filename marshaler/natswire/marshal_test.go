package natswire_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/natswire"
)

func TestMarshalMsg(t *testing.T) {
	msg := marshal(t, natswire.Marshaler{Source: "default", Tenant: "default"}, hooktest.With(hook(),
		"zebra", "last", "correlation_id", "c-1", "Mixed-Case", "", "x", "é\x00\x7f", "naïve", "name",
		"ankusa_replay_id", "r-1", "ankusa_ordering_key", "lane-7", "tracestate", "a=b"))
	data := strings.NewReplacer(
		`"tracestate":null`, `"tracestate":"a=b"`, `"replay_id":null`, `"replay_id":"r-1"`,
		`"region":"eu-west-1",`, `"region":"eu-west-1","ordering_key":"lane-7","watermill_metadata":{"naïve":"name"},`,
	).Replace(hookJSON)
	if msg.Subject != "hooks" || msg.Reply != "" || string(msg.Data) != data {
		t.Errorf("subject %q, reply %q, data\n%s, want\n%s", msg.Subject, msg.Reply, msg.Data, data)
	}
	want := nats.Header{
		"Nats-Msg-Id":            {hookID + ":replay:r-1"},
		"ankusa_id":              {hookID},
		"ankusa_source_id":       {"stripe"},
		"ankusa_tenant_id":       {"acme"},
		"ankusa_message_version": {"1"},
		"ankusa_idempotency_key": {"acme:stripe:evt_1"},
		"content_type":           {"application/json"},
		"ankusa_dedupe_key":      {"evt_1"},
		"ankusa_replay_id":       {"r-1"},
		"ankusa_ordering_key":    {"lane-7"},
		"traceparent":            {traceparent},
		"tracestate":             {"a=b"},
		"Mixed-Case":             {""},
		"correlation_id":         {"c-1"},
		"x":                      {"é\x00\x7f"},
		"zebra":                  {"last"},
	}
	if !maps.EqualFunc(msg.Header, want, slices.Equal[[]string]) {
		t.Errorf("headers\n%q, want\n%q", lines(msg.Header), lines(want))
	}
}

// Which metadata are headers, and which travel in the JSON.
func TestMarshalHeaders(t *testing.T) {
	long := strings.Repeat("v", 60_000)
	tests := []struct {
		rule   string
		m      natswire.Marshaler
		md     message.Metadata
		want   []string // beside those that are always there
		member string
	}{
		{"without a tenant its attribute is empty, not absent", natswire.Marshaler{}, nil, []string{"ankusa_tenant_id="}, ""},
		{"defaults", natswire.Marshaler{Tenant: "acme"}, nil, []string{"ankusa_tenant_id=acme"}, ""},
		{
			"Ordered writes the lane key",
			natswire.Marshaler{Ordered: true},
			nil,
			[]string{"ankusa_ordering_key=/orders", "ankusa_tenant_id="},
			"",
		},
		{
			"names that are tokens of HTTP are headers",
			natswire.Marshaler{},
			message.Metadata{"!#$%&'*+-.^_`|~": "1", "azAZ09": "2", "key": "3", "Key": "4"},
			[]string{"!#$%&'*+-.^_`|~=1", "Key=4", "ankusa_tenant_id=", "azAZ09=2", "key=3"},
			"",
		},
		{
			"others are not",
			natswire.Marshaler{},
			message.Metadata{"a b": "1", "a:b": "2", "é": "3", "a\n": "4", "": "5", "a\x7f": "6", "a\x00": "7", "(": "8"},
			[]string{"ankusa_tenant_id="},
			`{"":"5","(":"8","a\u0000":"7","a\n":"4","a b":"1","a:b":"2","a` + "\x7f" + `":"6","é":"3"}`,
		},
		{
			"values that the client would change are not",
			natswire.Marshaler{},
			message.Metadata{"cr": "a\rb", "lf": "a\nb", "left": " a", "right": "a\t", "blank": " ", "inside": "a \tb", "empty": ""},
			[]string{"ankusa_tenant_id=", "empty=", "inside=a \tb"},
			`{"blank":" ","cr":"a\rb","left":" a","lf":"a\nb","right":"a\t"}`,
		},
		{
			"names that are orders to the server are not, in any letter case",
			natswire.Marshaler{},
			message.Metadata{"Nats-Rollup": "all", "nats-ttl": "1s", "NATS-": "x", "Nats": "kept", "X-Nats": "kept"},
			[]string{"Nats=kept", "X-Nats=kept", "ankusa_tenant_id="},
			`{"NATS-":"x","Nats-Rollup":"all","nats-ttl":"1s"}`,
		},
		{
			"what older servers take for the message id is not",
			natswire.Marshaler{},
			message.Metadata{"a": "see Nats-Msg-Id", "X-Nats-Msg-Id": "x", "b": "nats-msg-id"},
			[]string{"ankusa_tenant_id=", "b=nats-msg-id"},
			`{"X-Nats-Msg-Id":"x","a":"see Nats-Msg-Id"}`,
		},
		{
			"over the most that headers may take, none are",
			natswire.Marshaler{},
			message.Metadata{"a": long, "b": long},
			[]string{"ankusa_tenant_id="},
			`{"a":"` + long + `","b":"` + long + `"}`,
		},
		{
			"an attribute that a header does not hold is left out",
			natswire.Marshaler{},
			message.Metadata{"ankusa_tenant_id": "acme\n", "ankusa_dedupe_key": "Nats-Msg-Id", "ankusa_ordering_key": " lane"},
			nil,
			"",
		},
		{
			"names that are taken",
			natswire.Marshaler{},
			message.Metadata{"content_type": "text/plain", "Content_Type": "x", "traceparent": "none"},
			[]string{"ankusa_tenant_id="},
			`{"Content_Type":"x","content_type":"text/plain","traceparent":"none"}`,
		},
		{
			"reserved and framing names are nowhere",
			natswire.Marshaler{},
			message.Metadata{
				"ankusa_foo": "1", "Envelope_Redeemed": "2", "TRACESTATE": "3", "_watermill_message_uuid": "4", "publishTime": "5",
			},
			[]string{"ankusa_tenant_id="},
			"",
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			msg := message.NewMessage("m-1", message.Payload("x"))
			maps.Copy(msg.Metadata, tt.md)
			tt.m.Source = "orders"
			out := marshal(t, tt.m, msg)
			want := append([]string{
				"Nats-Msg-Id=m-1", "ankusa_id=m-1", "ankusa_source_id=orders", "ankusa_message_version=1", "content_type=application/json",
			}, tt.want...)
			if tt.md["ankusa_dedupe_key"] == "" {
				want = append(want, "ankusa_idempotency_key=m-1")
			}
			slices.Sort(want)
			if got := lines(out.Header); !slices.Equal(got, want) {
				t.Errorf("headers\n%.300q, want\n%.300q", got, want)
			}
			_, member, found := strings.Cut(string(out.Data), `"watermill_metadata":`)
			if found != (tt.member != "") || !strings.HasPrefix(member, tt.member) {
				t.Errorf("member %.300s, want %.300s", member, tt.member)
			}

			opened := unmarshal(t, tt.m, delivered(t, out))
			for name, want := range tt.md {
				if got, ok := opened.Metadata[name]; (!ok || got != want) && (!envelope.IsReserved(name) || strings.HasSuffix(name, "_key")) && name != "traceparent" {
					t.Errorf("%s came back as %.99q, want %.99q", name, got, want)
				}
			}
		})
	}
}

// The id by which a stream deduplicates.
func TestMessageID(t *testing.T) {
	chosen := func(id string) func(string, *message.Message) string {
		return func(topic string, msg *message.Message) string {
			if topic != "hooks" || msg.Metadata["ankusa_source_id"] == "" {
				t.Errorf("asked about topic %q and message %v", topic, msg.Metadata)
			}
			return id
		}
	}
	tests := []struct {
		rule string
		m    natswire.Marshaler
		msg  *message.Message
		want string
	}{
		{"a new message has its own", natswire.Marshaler{Source: "s"}, message.NewMessage("m-1", nil), "m-1"},
		{"so has an envelope", natswire.Marshaler{}, hook(), hookID},
		{"with its replay", natswire.Marshaler{}, hooktest.With(hook(), "ankusa_replay_id", "r"), hookID + ":replay:r"},
		{
			"a message that was received has another, by its copy and the subject: sha256 of \"HOOKS/42\\nhooks\"",
			natswire.Marshaler{},
			unmarshal(t, natswire.Marshaler{}, natsMsg(hookJSON)), hookID + ":8f74a3407b702d0b",
		},
		{
			"so has a malformed one",
			natswire.Marshaler{},
			unmarshal(t, natswire.Marshaler{}, natsMsg("broken", "ankusa_id=m-1")), "m-1:8f74a3407b702d0b",
		},
		{
			"whose own id is that of the copy",
			natswire.Marshaler{},
			unmarshal(t, natswire.Marshaler{}, natsMsg("broken")), "HOOKS/42:8f74a3407b702d0b",
		},
		{"one may choose", natswire.Marshaler{DeduplicationID: chosen("mine")}, hook(), "mine"},
		{"none", natswire.Marshaler{DeduplicationID: chosen("")}, hook(), ""},
		{
			"but not for a malformed one",
			natswire.Marshaler{DeduplicationID: chosen("mine")},
			unmarshal(t, natswire.Marshaler{}, natsMsg("broken")), "HOOKS/42:8f74a3407b702d0b",
		},
		{
			"the digest, where the client would change it: of \"m-1\\n\"",
			natswire.Marshaler{Source: "s"},
			message.NewMessage("m-1\n", nil),
			"sha256:3a552b65876216a72b36f448e411f48aa6d4304dc2eeb184bbc02a39192b3582",
		},
		{
			"of one that was chosen too",
			natswire.Marshaler{DeduplicationID: chosen(" ")},
			hook(),
			"sha256:36a9e7f1c95b82ffb99743e0c5c4ce95d83c9a430aac59f84ef3cbfab6145068",
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			out := marshal(t, tt.m, tt.msg)
			if got := out.Header.Get("Nats-Msg-Id"); got != tt.want || len(out.Header["Nats-Msg-Id"]) > 1 {
				t.Errorf("Nats-Msg-Id %q, want %q", out.Header["Nats-Msg-Id"], tt.want)
			}
			if _, ok := out.Header["Nats-Msg-Id"]; ok != (tt.want != "") {
				t.Error("an empty id is a header")
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
		{"a received_at that is no integer", hooktest.With(hook(), "ankusa_received_at", "1.0"), "ankusa_received_at"},
		{"unknown members that are known", hooktest.With(hook(), "ankusa_unknown", `{"v":2}`), "ankusa_unknown"},
		{"metadata that is not UTF-8", hooktest.With(hook(), "a", "\xff"), "a"},
		{"a name that is not UTF-8", hooktest.With(hook(), "\xff", "a"), "\xff"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			out, err := natswire.Marshaler{}.Marshal("hooks", tt.msg)
			var e *envelope.Error
			if !errors.As(err, &e) || e.Code != envelope.CodeInvalidField || e.Field != tt.field {
				t.Fatalf("error %v, want invalid_field %q", err, tt.field)
			}
			if !envelope.IsPermanent(err) || out != nil {
				t.Errorf("message %v, permanent %v", out, envelope.IsPermanent(err))
			}
			if _, err := (natswire.Marshaler{}).Prepare("hooks", tt.msg); !errors.As(err, &e) || e.Field != tt.field {
				t.Errorf("Prepare finds it only on sealing: %v", err)
			}
		})
	}
}

// What publishing may change of a caller's message is a missing id and missing metadata.
func TestMarshalDoesNotMutate(t *testing.T) {
	m := natswire.Marshaler{Source: "orders", Ordered: true}
	msg := hooktest.With(message.NewMessage("m-1", []byte("x")), "a", "b")
	marshal(t, m, msg)
	if !maps.Equal(msg.Metadata, message.Metadata{"a": "b"}) || msg.UUID != "m-1" || string(msg.Payload) != "x" {
		t.Errorf("became %s %v %q", msg.UUID, msg.Metadata, msg.Payload)
	}
	bare := &message.Message{Payload: []byte("x")}
	out := marshal(t, m, bare)
	if bare.UUID == "" || out.Header.Get("Nats-Msg-Id") != bare.UUID || bare.Metadata == nil {
		t.Errorf("id %q, metadata %v, Nats-Msg-Id %q", bare.UUID, bare.Metadata, out.Header.Get("Nats-Msg-Id"))
	}
}

func TestValidate(t *testing.T) {
	for _, m := range []natswire.Marshaler{{}, {Source: "é", MaxMessageBytes: 1}} {
		if err := m.Validate(); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
	err := natswire.Marshaler{Tenant: "\xff", Instance: "\xff", MaxMessageBytes: -1}.Validate()
	for _, what := range []string{"Tenant", "Instance", "MaxMessageBytes -1"} {
		if !strings.Contains(fmt.Sprint(err), what) {
			t.Errorf("%v does not name %s", err, what)
		}
	}
}
