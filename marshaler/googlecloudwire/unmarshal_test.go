package googlecloudwire_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
)

func sortedNames(m message.Metadata) []string { return slices.Sorted(maps.Keys(m)) }

// Nothing that a foreign producer writes beside the JSON is believed.
func TestUnmarshalForeign(t *testing.T) {
	each(t, func(t *testing.T, with func(options) codec) {
		c := with(options{})
		msg := unmarshal(t, c, pub{id: "7", data: hookJSON, key: "lane", attributes: map[string]string{
			"own": "é", "empty": "", "envelope_redeemed": "true", "Ankusa_Tenant_Id": "evil", "ankusa_claim": "evil", "content_type": "text/plain",
			"googclient_schemaencoding": "JSON",
		}})
		want := hooktest.With(hooktest.Message(), "own", "é", "empty", "", "googclient_schemaencoding", "JSON", "envelope_receipt", "7")
		if msg.UUID != hooktest.ID || string(msg.Payload) != "hello" || !maps.Equal(msg.Metadata, want.Metadata) {
			t.Errorf("got %s %q\n%v, want\n%v", msg.UUID, msg.Payload, msg.Metadata, want.Metadata)
		}
		minimal := unmarshal(t, c, pub{id: "8", data: `{"v":1,"id":"1","source_id":"s","received_at":1,"content_type":"","size":0,"headers":{},"body_base64":""}`})
		if envelope.IsMalformed(minimal) || minimal.UUID != "1" || minimal.Metadata["ankusa_source_id"] != "s" || minimal.Metadata["envelope_receipt"] != "8" {
			t.Errorf("got %s %v", minimal.UUID, minimal.Metadata)
		}
		if err := c.unmarshalNil(); err == nil {
			t.Error("a nil message is no error")
		}
		// Each copy has a name of its own, also where no server gave one.
		if a, b := unmarshal(t, c, pub{data: hookJSON}).Metadata["envelope_receipt"], unmarshal(t, c, pub{data: hookJSON}).Metadata["envelope_receipt"]; a == "" || a == b {
			t.Errorf("the receipts of two copies are %q and %q", a, b)
		}
		if msg := unmarshal(t, c, pub{}); !envelope.IsMalformed(msg) || msg.UUID == "" {
			t.Errorf("an empty message is %s %v", msg.UUID, msg.Metadata)
		}
	})
}

// A malformed message keeps all it came with, and the id and the key of its copy.
func TestUnmarshalMalformed(t *testing.T) {
	each(t, func(t *testing.T, with func(options) codec) {
		count := &counter{malformed: map[envelope.Code]int{}}
		msg := unmarshal(t, with(options{observer: count}), pub{id: "7", data: "\xff", key: "lane", attributes: map[string]string{"own": "1", "ankusa_id": "x"}})
		if !envelope.IsMalformed(msg) || msg.UUID != "7" || string(envelope.Raw(msg)) != "\xff" || len(msg.Payload) != 0 || msg.Metadata["own"] != "1" || msg.Metadata["envelope_key"] != "lane" {
			t.Errorf("got %s %q %v", msg.UUID, envelope.Raw(msg), msg.Metadata)
		}
		if len(count.malformed) != 1 {
			t.Errorf("counted %v", count.malformed)
		}
	})
}

// A topic in the middle of a migration: every body arrives as it was sent, and what we broke is
// never taken for a message of the old format.
func TestFallback(t *testing.T) {
	each(t, func(t *testing.T, with func(options) codec) {
		count := &counter{malformed: map[envelope.Code]int{}}
		c := with(options{source: "orders", stock: true, observer: count})
		for _, body := range []string{"hello", `{"order":7}`, `{"v":1}`} {
			old := c.sentBefore(t, hooktest.With(message.NewMessage("old-1", []byte(body)), "n", "1", "ankusa_claim", "evil"))
			old.id = "7"
			msg := unmarshal(t, c, old)
			if msg.UUID != "old-1" || string(msg.Payload) != body || msg.Metadata["n"] != "1" || msg.Metadata["ankusa_claim"] != "" || msg.Metadata["envelope_fallback"] != "true" {
				t.Errorf("got %s %q %v", msg.UUID, msg.Payload, msg.Metadata)
			}
			ours := marshal(t, c, message.NewMessage("new-1", []byte(body)))
			if msg := unmarshal(t, c, ours); msg.UUID != "new-1" || string(msg.Payload) != body || msg.Metadata["envelope_fallback"] != "" {
				t.Errorf("got %s %q %v", msg.UUID, msg.Payload, msg.Metadata)
			}
			ours.data = ours.data[:20]
			if msg := unmarshal(t, c, ours); !envelope.IsMalformed(msg) {
				t.Errorf("what we broke was read as %q", msg.Payload)
			}
		}
		if count.fallback != 3 || count.malformed[envelope.CodeInvalidJSON] != 3 {
			t.Errorf("counted %+v", count)
		}
	})
}

// Time and id of the server, which the stock marshaler makes metadata, do not go out again.
func TestServersOwnStayBehind(t *testing.T) {
	each(t, func(t *testing.T, with func(options) codec) {
		c := with(options{source: "orders", stock: true})
		old := c.sentBefore(t, message.NewMessage("old-1", []byte("hello")))
		old.id = "7"
		for _, in := range []pub{old, {id: "7", data: hookJSON}, {id: "7", data: "broken"}} {
			for name, value := range marshal(t, c, unmarshal(t, c, in)).attributes {
				if name == "publishTime" || name != "ankusa_id" && value == "7" {
					t.Errorf("%q goes out with %s=%s", in.data, name, value)
				}
			}
		}
	})
}

type counter struct {
	malformed map[envelope.Code]int
	fallback  int
}

func (c *counter) Malformed(_ string, code envelope.Code) { c.malformed[code]++ }
func (c *counter) Fallback(string)                        { c.fallback++ }
