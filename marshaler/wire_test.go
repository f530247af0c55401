package marshaler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler"
)

const (
	hookID      = hooktest.ID
	traceparent = hooktest.Traceparent
)

// The hook of the wire format's documentation, and its two forms.
const hookJSON = `{"v":1,"id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","source_id":"stripe","tenant_id":"acme",` +
	`"received_at":1737500000000,"content_type":"application/json","size":5,"dedupe_key":"evt_1","replay_id":null,` +
	`"idempotency_key":"acme:stripe:evt_1","verification":{"status":"ok","flagged":false},` +
	`"headers":{"x-github-event":"push"},` +
	`"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":null,` +
	`"instance":"default","region":"eu-west-1",` +
	`"sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","body_base64":"aGVsbG8="}`

func hook() *message.Message { return hooktest.Message() }

func anything(_, _ string) bool { return true }

// seal does what a Marshaler does.
func seal(t *testing.T, w marshaler.Wire, msg *message.Message) (marshaler.Sealed, marshaler.Size) {
	t.Helper()
	prepared, err := w.Prepare(msg)
	if err != nil {
		t.Fatal(err)
	}
	size := w.Size(prepared, "")
	sealed, err := w.Seal(prepared, size)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(sealed.Body)) != size.Inline-size.Attributes*bool64(!w.Apart)-w.PerMessage || cap(sealed.Body) != len(sealed.Body) {
		t.Errorf("%d bytes of body in %d, of %+v", len(sealed.Body), cap(sealed.Body), size)
	}
	var attributes int64
	for _, a := range sealed.Attributes {
		attributes += int64(len(a.Name)+len(a.Value)) + w.PerAttribute
	}
	if attributes != size.Attributes {
		t.Errorf("attributes of %d bytes, counted %d", attributes, size.Attributes)
	}
	return sealed, size
}

func bool64(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func lines(attributes []marshaler.Attribute) []string {
	var list []string
	for _, a := range attributes {
		list = append(list, a.Name+"="+a.Value)
	}
	return list
}

func TestAttributeLists(t *testing.T) {
	all := func() *message.Message {
		return hooktest.With(hook(), "ankusa_replay_id", "r", "ankusa_ordering_key", "o", "tracestate", "a=b", "user", "u", "another", "")
	}
	list := []string{
		"ankusa_id=" + hookID, "ankusa_source_id=stripe", "ankusa_tenant_id=acme", "ankusa_message_version=1",
		"ankusa_idempotency_key=acme:stripe:evt_1", "content_type=application/json", "ankusa_dedupe_key=evt_1",
		"ankusa_replay_id=r", "ankusa_ordering_key=o", "traceparent=" + traceparent, "tracestate=a=b",
	}
	const inMember = `"watermill_metadata":{"another":"","user":"u"}`
	tests := []struct {
		rule   string
		wire   marshaler.Wire
		msg    *message.Message
		want   []string
		member string
	}{
		{
			"headers: the whole list, then the user's in order",
			marshaler.Wire{Native: anything, TenantAlways: true, PerAttribute: 3, PerMessage: 7},
			all(), append(slices.Clone(list), "another=", "user=u"), "",
		},
		{"no room for the user's", marshaler.Wire{}, all(), list, inMember},
		{
			"some fit and some do not",
			marshaler.Wire{Native: func(_, value string) bool { return value != "" }, Apart: true, PerAttribute: 3},
			all(), append(slices.Clone(list), "user=u"), `"watermill_metadata":{"another":""}`,
		},
		{
			"as many as the transport takes",
			marshaler.Wire{Native: anything, MaxAttributes: 13},
			all(), append(slices.Clone(list), "another=", "user=u"), "",
		},
		{"all of the user's go before one is left out", marshaler.Wire{Native: anything, MaxAttributes: 12}, all(), list, inMember},
		{
			"an attribute that the transport does not carry unchanged is left out, and nothing takes its place",
			marshaler.Wire{TenantAlways: true, PerAttribute: 3, Carries: func(name, value string) bool {
				return name != "ankusa_tenant_id" && value != "evt_1" && name != "traceparent"
			}},
			all(),
			slices.DeleteFunc(slices.Clone(list), func(line string) bool {
				return line == "ankusa_tenant_id=acme" || line == "ankusa_dedupe_key=evt_1" || strings.HasPrefix(line, "traceparent=")
			}),
			inMember,
		},
		{"tracestate gives way next", marshaler.Wire{Native: anything, MaxAttributes: 10}, all(), list[:10], inMember},
		{
			"attributes: empty ones are left out",
			marshaler.Wire{Defaults: envelope.Defaults{SourceID: "s"}},
			message.NewMessage("m", nil),
			[]string{
				"ankusa_id=m", "ankusa_source_id=s", "ankusa_message_version=1", "ankusa_idempotency_key=m",
				"content_type=application/json",
			},
			"",
		},
		{
			"a source that is empty, of a message that was read",
			marshaler.Wire{TenantAlways: true},
			hooktest.With(message.NewMessage("m", nil), "ankusa_id", "m"),
			[]string{
				"ankusa_id=m", "ankusa_tenant_id=", "ankusa_message_version=1", "ankusa_idempotency_key=m",
				"content_type=application/json",
			},
			"",
		},
		{
			"a tracestate is cut as W3C says",
			marshaler.Wire{},
			hooktest.With(message.NewMessage("m", nil), "ankusa_id", "m", "traceparent", traceparent,
				"tracestate", "a="+strings.Repeat("x", 200)+",b=c"+strings.Repeat(",d=e", 100)),
			[]string{
				"ankusa_id=m", "ankusa_message_version=1", "ankusa_idempotency_key=m", "content_type=application/json",
				"traceparent=" + traceparent, "tracestate=b=c" + strings.Repeat(",d=e", 100),
			},
			"",
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			tt.wire.MaxMessageBytes = 1 << 20
			sealed, _ := seal(t, tt.wire, tt.msg)
			if got := lines(sealed.Attributes); !slices.Equal(got, tt.want) {
				t.Errorf("attributes\n%q, want\n%q", got, tt.want)
			}
			body := string(sealed.Body)
			if !strings.Contains(body, tt.member) || strings.Contains(body, "watermill_metadata") != (tt.member != "") {
				t.Errorf("body %s, want %s", body, tt.member)
			}
		})
	}
}

func TestEscapeNoncharacters(t *testing.T) {
	const text = "a\uFFFE\uFFFFb"
	msg := hooktest.With(hook(), "ankusa_instance", text, "user", text)
	for escape, want := range map[bool]string{false: text, true: `a\uFFFE\uFFFFb`} {
		w := marshaler.Wire{EscapeNoncharacters: escape, MaxMessageBytes: 1 << 20}
		sealed, _ := seal(t, w, msg)
		if got := strings.Count(strings.ToUpper(string(sealed.Body)), strings.ToUpper(want)); got != 2 {
			t.Errorf("escape %v: %d of %q in %s", escape, got, want, sealed.Body)
		}
	}
}

func TestCheck(t *testing.T) {
	w := marshaler.Wire{Native: anything, PerAttribute: 10, PerMessage: 36, MaxMessageBytes: 1 << 20}
	_, size := seal(t, w, hooktest.With(hook(), "user", "u"))
	w.MaxMessageBytes = size.Inline
	if err := w.Check(size); err != nil {
		t.Errorf("the limit is inclusive: %v", err)
	}
	w.MaxMessageBytes--
	var tooLarge *envelope.TooLargeError
	if err := w.Check(size); !errors.As(err, &tooLarge) || tooLarge.Size != size.Inline || tooLarge.Max != size.Inline-1 {
		t.Errorf("error %v", err)
	}
}

// A message that a stock subscriber received is opened before it is sealed, not wrapped
// twice; one that cannot be opened stays malformed.
func TestSealedAlready(t *testing.T) {
	w := marshaler.Wire{Native: anything, MaxMessageBytes: 1 << 20}
	sealed, _ := seal(t, w, hooktest.With(hook(), "user", "u"))
	received := message.NewMessage("stock", sealed.Body)
	for _, a := range sealed.Attributes {
		received.Metadata[a.Name] = a.Value
	}
	again, _ := seal(t, w, received)
	if string(again.Body) != string(sealed.Body) || !slices.Equal(again.Attributes, sealed.Attributes) {
		t.Errorf("sealed again\n%s\n%q, want\n%s\n%q", again.Body, again.Attributes, sealed.Body, sealed.Attributes)
	}
	received.Payload = []byte("broken")
	if again, _ = seal(t, w, received); string(again.Body) != "broken" {
		t.Errorf("a broken one is sealed as %s", again.Body)
	}
}

func TestPrepareKeepsTheContext(t *testing.T) {
	type key struct{}
	w := marshaler.Wire{Defaults: envelope.Defaults{SourceID: "s"}, Ordered: true, Native: anything, MaxMessageBytes: 200}
	for name, msg := range map[string]*message.Message{
		"ordered":   hook(),
		"enveloped": message.NewMessage("m", nil),
		"enclosed":  w.Open(marshaler.Received{Body: []byte(strings.Repeat("x", 201))}),
	} {
		msg.SetContext(context.WithValue(context.Background(), key{}, name))
		before := maps.Clone(msg.Metadata)
		prepared, err := w.Prepare(msg)
		if err != nil {
			t.Fatal(err)
		}
		if prepared == msg || prepared.Context().Value(key{}) != name || !maps.Equal(msg.Metadata, before) {
			t.Errorf("%s: prepared from %v to %v", name, msg.Metadata, before)
		}
		if again, err := w.Prepare(prepared); again != prepared || err != nil {
			t.Errorf("%s: Prepare is not idempotent: %v", name, err)
		}
	}
}

// counter is an Observer.
type counter struct{ seen []string }

func (c *counter) Malformed(topic string, code envelope.Code) {
	c.seen = append(c.seen, fmt.Sprintf("malformed %s %s", topic, code))
}
func (c *counter) Fallback(topic string) { c.seen = append(c.seen, "fallback "+topic) }

func TestOpen(t *testing.T) {
	native := func(pairs ...string) func(func(string, string) bool) {
		return func(yield func(string, string) bool) {
			for i := 0; i < len(pairs); i += 2 {
				if !yield(pairs[i], pairs[i+1]) {
					return
				}
			}
		}
	}
	count := &counter{}
	w := marshaler.Wire{Observer: count}

	msg := w.Open(marshaler.Received{Body: []byte(hookJSON), ID: "ignored", Key: "ignored", Topic: "t"})
	if !maps.Equal(msg.Metadata, hook().Metadata) || msg.UUID != hookID || string(msg.Payload) != "hello" {
		t.Errorf("without attributes: %s %q %v", msg.UUID, msg.Payload, msg.Metadata)
	}
	msg = w.Open(marshaler.Received{
		Body: []byte(hookJSON), Native: native("a", "first", "a", "second", "envelope_receipt", "evil"), Receipt: "r", Topic: "t",
	})
	if msg.Metadata["a"] != "first" || msg.Metadata["envelope_receipt"] != "r" {
		t.Errorf("metadata %v", msg.Metadata)
	}
	msg = w.Open(marshaler.Received{Body: []byte("x"), ID: "id", Key: "k", Receipt: "r", Topic: "t"})
	want := message.Metadata{
		"ankusa_id": "id", "envelope_malformed": "invalid_json", "envelope_raw": "x", "envelope_key": "k", "envelope_receipt": "r",
	}
	if !maps.Equal(msg.Metadata, want) || msg.UUID != "id" || len(msg.Payload) != 0 {
		t.Errorf("malformed: %s %q %v", msg.UUID, msg.Payload, msg.Metadata)
	}
	msg = w.Open(marshaler.Received{Body: []byte("x"), Topic: "t", Receipt: "r", Fallback: func() (*message.Message, error) {
		return message.NewMessage("old", []byte("body")), nil
	}})
	want = message.Metadata{"envelope_fallback": "true", "envelope_receipt": "r"}
	if !maps.Equal(msg.Metadata, want) || msg.UUID != "old" || string(msg.Payload) != "body" {
		t.Errorf("fallback: %s %q %v", msg.UUID, msg.Payload, msg.Metadata)
	}
	if want := []string{"malformed t invalid_json", "fallback t"}; !slices.Equal(count.seen, want) {
		t.Errorf("counted %q, want %q", count.seen, want)
	}
}
