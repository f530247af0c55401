package googlecloudwire_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
)

const hookJSON = `{"v":1,"id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","source_id":"stripe","tenant_id":"acme","received_at":1737500000000,` +
	`"content_type":"application/json","size":5,"dedupe_key":"evt_1","replay_id":null,"idempotency_key":"acme:stripe:evt_1",` +
	`"verification":{"status":"ok","flagged":false},"headers":{"x-github-event":"push"},"traceparent":"` + hooktest.Traceparent + `",` +
	`"tracestate":null,"instance":"default","region":"eu-west-1","sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","body_base64":"aGVsbG8="}`

// hookAttributes are those of the hook, with more of them.
func hookAttributes(more ...string) map[string]string {
	all := map[string]string{
		"ankusa_id":              hooktest.ID,
		"ankusa_source_id":       "stripe",
		"ankusa_tenant_id":       "acme",
		"ankusa_message_version": "1",
		"ankusa_idempotency_key": "acme:stripe:evt_1",
		"content_type":           "application/json",
		"ankusa_dedupe_key":      "evt_1",
		"traceparent":            hooktest.Traceparent,
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func hundred(name string, n int) []string {
	var entries []string
	for i := range n {
		entries = append(entries, name+strconv.Itoa(i), "v")
	}
	return entries
}

func TestMarshal(t *testing.T) {
	inJSON := func(member string) string {
		return strings.Replace(hookJSON, `"region":"eu-west-1",`, `"region":"eu-west-1",`+member+`,`, 1)
	}
	name256, value1024 := strings.Repeat("n", 256), strings.Repeat("é", 512)
	full := hundred("k", 92)
	tests := []struct {
		rule       string
		entries    []string
		data       string
		attributes map[string]string
		key        string
	}{
		{"the hook", nil, hookJSON, hookAttributes(), ""},
		{"metadata", []string{"correlation_id", "c-1", "Mixed-Case", "é \x00"}, hookJSON, hookAttributes("correlation_id", "c-1", "Mixed-Case", "é \x00"), ""},
		{"an ordering key", []string{"ankusa_ordering_key", "lane 7"}, inJSON(`"ordering_key":"lane 7"`), hookAttributes("ankusa_ordering_key", "lane 7"), "lane 7"},
		{"an empty value", []string{"a", ""}, inJSON(`"watermill_metadata":{"a":""}`), hookAttributes(), ""},
		{"the name of an attribute of ours", []string{"content_type", "x"}, inJSON(`"watermill_metadata":{"content_type":"x"}`), hookAttributes(), ""},
		{"an empty name", []string{"", "x"}, inJSON(`"watermill_metadata":{"":"x"}`), hookAttributes(), ""},
		{"names of Google's", []string{"goog", "1", "GOOGclient", "2", "googx", "3"}, inJSON(`"watermill_metadata":{"GOOGclient":"2","goog":"1","googx":"3"}`), hookAttributes(), ""},
		{"names that are not", []string{"goo", "1", "agoog", "2"}, hookJSON, hookAttributes("goo", "1", "agoog", "2"), ""},
		{"the longest name", []string{name256, "1"}, hookJSON, hookAttributes(name256, "1"), ""},
		{"a longer one", []string{name256 + "n", "1"}, inJSON(`"watermill_metadata":{"` + name256 + `n":"1"}`), hookAttributes(), ""},
		{"the longest value", []string{"a", value1024}, hookJSON, hookAttributes("a", value1024), ""},
		{"a longer one", []string{"a", value1024 + "v"}, inJSON(`"watermill_metadata":{"a":"` + value1024 + `v"}`), hookAttributes(), ""},
		{"a hundred attributes", full, hookJSON, hookAttributes(full...), ""},
		{
			"an attribute more than a hundred", append(hundred("k", 92), "a", "b"),
			inJSON(`"watermill_metadata":{"a":"b",` + hundredJSON + `}`), hookAttributes(), "",
		},
	}
	each(t, func(t *testing.T, with func(options) codec) {
		c := with(options{source: "default", tenant: "default"})
		for _, tt := range tests {
			t.Run(tt.rule, func(t *testing.T) {
				msg := hooktest.With(hooktest.Message(), tt.entries...)
				out := marshal(t, c, msg)
				if out.data != tt.data {
					t.Errorf("the data is\n%s\nwant\n%s", out.data, tt.data)
				}
				if !maps.Equal(out.attributes, tt.attributes) {
					t.Errorf("the attributes are\n%q, want\n%q", out.attributes, tt.attributes)
				}
				if out.key != tt.key {
					t.Errorf("the ordering key is %q, want %q", out.key, tt.key)
				}
				out.id = "7"
				opened := unmarshal(t, c, out)
				want := hooktest.With(msg.Copy(), "envelope_receipt", "7")
				if opened.UUID != msg.UUID || string(opened.Payload) != "hello" || !maps.Equal(opened.Metadata, want.Metadata) {
					t.Errorf("comes back as %s %q\n%v, want\n%v", opened.UUID, opened.Payload, opened.Metadata, want.Metadata)
				}
			})
		}
	})
}

// hundredJSON are the members of hundred("k", 92), by name.
var hundredJSON = func() string {
	all := message.Metadata{}
	list := hundred("k", 92)
	var members []string
	for i := 0; i < len(list); i += 2 {
		all[list[i]] = "v"
	}
	for _, name := range sortedNames(all) {
		members = append(members, fmt.Sprintf("%q:%q", name, all[name]))
	}
	return strings.Join(members, ",")
}()

// An attribute of ours that is too long is left out; the JSON has it.
func TestMarshalLongAttributes(t *testing.T) {
	long := strings.Repeat("l", 1025)
	each(t, func(t *testing.T, with func(options) codec) {
		c := with(options{source: "orders"})
		for name, value := range map[string]string{
			"ankusa_tenant_id": long, "ankusa_dedupe_key": long, "ankusa_replay_id": long, "ankusa_ordering_key": long,
		} {
			msg := hooktest.With(hooktest.Message(), name, value)
			out := marshal(t, c, msg)
			for attribute, value := range out.attributes {
				if len(value) > 1024 || value == "" || attribute == name {
					t.Errorf("%s: the attribute %s has %d bytes", name, attribute, len(value))
				}
			}
			if got := unmarshal(t, c, out).Metadata[name]; got != value {
				t.Errorf("%s came back with %d bytes", name, len(got))
			}
		}
	})
}

func TestOrderingKey(t *testing.T) {
	digest := func(key string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(key))) }
	longest := strings.Repeat("k", 1024)
	own := options{source: "s", key: func(topic string, msg *message.Message) string { return topic + " " + msg.Metadata["ankusa_source_id"] }}
	each(t, func(t *testing.T, with func(options) codec) {
		malformed := unmarshal(t, with(own), pub{id: "7", data: "x", key: "its own"})
		for _, tt := range []struct {
			rule string
			o    options
			msg  *message.Message
			want string
		}{
			{"none", options{}, hooktest.Message(), ""},
			{"of the envelope", options{}, hooktest.With(hooktest.Message(), "ankusa_ordering_key", "lane"), "lane"},
			{"Ordered", options{ordered: true}, hooktest.Message(), "acme/stripe"},
			{"Ordered, and its own", options{ordered: true}, hooktest.With(hooktest.Message(), "ankusa_ordering_key", "lane"), "lane"},
			{"of a function, of the message as it is sealed", own, message.NewMessage("m", nil), "hooks s"},
			{"the longest", options{}, hooktest.With(hooktest.Message(), "ankusa_ordering_key", longest), longest},
			{"a longer one", options{}, hooktest.With(hooktest.Message(), "ankusa_ordering_key", longest+"k"), digest(longest + "k")},
			{"malformed", own, malformed, "its own"},
		} {
			if got := marshal(t, with(tt.o), tt.msg).key; got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.rule, got, tt.want)
			}
		}
	})
}

// A malformed message goes out as it came, or in an envelope where Pub/Sub would not take it.
func TestMarshalMalformed(t *testing.T) {
	many := map[string]string{}
	for i := range 101 {
		many[strconv.Itoa(i)] = "v"
	}
	each(t, func(t *testing.T, with func(options) codec) {
		for _, tt := range []struct {
			rule       string
			data       string
			attributes map[string]string
			max        int64
			enclosed   bool
		}{
			{"as it came", "\xff\x00", map[string]string{"own": "1", "a b": "é"}, 0, false},
			{"without data", "", map[string]string{"own": "1"}, 0, true},
			{"too many attributes", "x", many, 0, true},
			{"too large", strings.Repeat("x", 5000), nil, 5000, true},
		} {
			t.Run(tt.rule, func(t *testing.T) {
				c := with(options{max: tt.max})
				msg := unmarshal(t, c, pub{id: "7", data: tt.data, attributes: tt.attributes})
				if !envelope.IsMalformed(msg) || string(envelope.Raw(msg)) != tt.data {
					t.Fatalf("got %q %v", envelope.Raw(msg), msg.Metadata)
				}
				prepared, err := c.Prepare("poison", msg)
				if err != nil {
					t.Fatal(err)
				}
				if got := !envelope.IsMalformed(prepared); got != tt.enclosed {
					t.Fatalf("enclosed: %t, want %t", got, tt.enclosed)
				}
				if tt.enclosed {
					if string(prepared.Payload) != tt.data || prepared.Metadata["malformed_code"] == "" || prepared.UUID != msg.UUID {
						t.Errorf("the envelope has %.99q and %v", prepared.Payload, prepared.Metadata)
					}
					return
				}
				out := marshal(t, c, msg)
				want := maps.Clone(tt.attributes)
				want["ankusa_id"] = "7" // what it is called here
				if out.data != tt.data || !maps.Equal(out.attributes, want) {
					t.Errorf("goes out as %q %q, want %q", out.data, out.attributes, want)
				}
			})
		}
	})
}

// Whatever stands in the metadata of a malformed message, Pub/Sub takes what goes out.
func TestMarshalMalformedMetadata(t *testing.T) {
	each(t, func(t *testing.T, with func(options) codec) {
		c := with(options{})
		msg := unmarshal(t, c, pub{id: "7", data: "x", attributes: map[string]string{"own": "1"}})
		hooktest.With(msg, "kept", "1", "goog-1", "x", strings.Repeat("n", 257), "x", "long", strings.Repeat("v", 1025), "bytes", "\xff", "empty", "", "\xff", "x", "", "x")
		want := map[string]string{"own": "1", "kept": "1", "ankusa_id": "7"}
		if out := marshal(t, c, msg); !maps.Equal(out.attributes, want) {
			t.Errorf("got %q, want %q", out.attributes, want)
		}
	})
}

func TestValidate(t *testing.T) {
	each(t, func(t *testing.T, with func(options) codec) {
		if err := with(options{source: "\xff", max: -1}).Validate(); err == nil ||
			!strings.Contains(err.Error(), "Source") || !strings.Contains(err.Error(), "MaxMessageBytes") {
			t.Errorf("got %v", err)
		}
		if err := with(options{}).Validate(); err != nil {
			t.Error(err)
		}
		if _, err := with(options{}).marshal("hooks", message.NewMessage("m", nil)); !envelope.IsPermanent(err) {
			t.Errorf("a message without a source: %v", err)
		}
	})
}

// The publisher of Watermill writes into the metadata of what it has published.
func TestMarshalMakesMetadata(t *testing.T) {
	each(t, func(t *testing.T, with func(options) codec) {
		msg := &message.Message{UUID: "m"}
		if marshal(t, with(options{source: "s"}), msg); msg.Metadata == nil || len(msg.Metadata) > 0 {
			t.Errorf("the metadata are %v", msg.Metadata)
		}
	})
}
