package sqswire_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/sqswire"
)

const hookJSON = `{"v":1,"id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","source_id":"stripe","tenant_id":"acme","received_at":1737500000000,` +
	`"content_type":"application/json","size":5,"dedupe_key":"evt_1","replay_id":null,"idempotency_key":"acme:stripe:evt_1",` +
	`"verification":{"status":"ok","flagged":false},"headers":{"x-github-event":"push"},"traceparent":"` + hooktest.Traceparent + `",` +
	`"tracestate":null,"instance":"default","region":"eu-west-1","sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","body_base64":"aGVsbG8="}`

func marshal(t testing.TB, m sqswire.Marshaler, msg *message.Message) *types.Message {
	t.Helper()
	out, err := m.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// values returns the attributes, which must be of the type String and legal.
func values(t testing.TB, msg *types.Message) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, value := range msg.MessageAttributes {
		if *value.DataType != "String" || value.StringValue == nil || *value.StringValue == "" {
			t.Errorf("attribute %s is %+v", name, value)
			continue
		}
		all[name] = *value.StringValue
	}
	if len(all) > sqswire.MaxAttributes {
		t.Errorf("%d attributes", len(all))
	}
	return all
}

func TestMarshalMessage(t *testing.T) {
	msg := marshal(t, sqswire.Marshaler{Source: "default", Tenant: "default"}, hooktest.With(hooktest.Message(),
		"correlation_id", "c-1", "Mixed-Case", "", "content_type", "x", "ankusa_ordering_key", "lane 7"))
	want := strings.NewReplacer(`"region":"eu-west-1",`,
		`"region":"eu-west-1","ordering_key":"lane 7","watermill_metadata":{"Mixed-Case":"","content_type":"x","correlation_id":"c-1"},`).Replace(hookJSON)
	if *msg.Body != want {
		t.Errorf("the body is\n%s\nwant\n%s", *msg.Body, want)
	}
	if got, want := values(t, msg), map[string]string{
		"ankusa_id":              hooktest.ID,
		"ankusa_source_id":       "stripe",
		"ankusa_tenant_id":       "acme",
		"ankusa_message_version": "1",
		"ankusa_idempotency_key": "acme:stripe:evt_1",
		"content_type":           "application/json",
		"ankusa_dedupe_key":      "evt_1",
		"ankusa_ordering_key":    "lane 7",
		"traceparent":            hooktest.Traceparent,
	}; !maps.Equal(got, want) {
		t.Errorf("the attributes are\n%q, want\n%q", got, want)
	}
}

// Which attributes there are.
func TestMarshalAttributes(t *testing.T) {
	few := []string{"ankusa_id", "ankusa_source_id", "ankusa_message_version", "content_type"}
	for _, tt := range []struct {
		rule    string
		entries []string
		more    []string // beside few
	}{
		{"what is empty is left out", nil, []string{"ankusa_idempotency_key"}},
		{"what has characters that SQS refuses is left out, also where it is part of a key", []string{
			"ankusa_tenant_id", "a\x00", "ankusa_dedupe_key", "\uffff", "ankusa_ordering_key", "\x1f", "ankusa_replay_id", "\ufffe",
		}, nil},
		{"what has characters of XML is not", []string{
			"ankusa_tenant_id", "a\t\r\n ", "ankusa_ordering_key", "\x7fé€\ufffd\ud7ff\ue000😀",
		}, []string{"ankusa_tenant_id", "ankusa_ordering_key", "ankusa_idempotency_key"}},
		{"ten of them", []string{
			"ankusa_tenant_id", "t", "ankusa_dedupe_key", "d", "ankusa_ordering_key", "o", "traceparent", hooktest.Traceparent, "tracestate", "a=b",
		}, []string{"ankusa_tenant_id", "ankusa_dedupe_key", "ankusa_ordering_key", "traceparent", "tracestate", "ankusa_idempotency_key"}},
		{"of eleven tracestate gives way", []string{
			"ankusa_tenant_id", "t", "ankusa_dedupe_key", "d", "ankusa_replay_id", "r", "ankusa_ordering_key", "o",
			"traceparent", hooktest.Traceparent, "tracestate", "a=b",
		}, []string{"ankusa_tenant_id", "ankusa_dedupe_key", "ankusa_replay_id", "ankusa_ordering_key", "traceparent", "ankusa_idempotency_key"}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			m := sqswire.Marshaler{Source: "orders"}
			out := marshal(t, m, hooktest.With(message.NewMessage("m-1", nil), tt.entries...))
			want := map[string]bool{}
			for _, name := range append(few, tt.more...) {
				want[name] = true
			}
			got := map[string]bool{}
			for name := range values(t, out) {
				got[name] = true
			}
			if !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			opened := unmarshal(t, m, out)
			for i := 0; i < len(tt.entries); i += 2 {
				if got := opened.Metadata[tt.entries[i]]; got != tt.entries[i+1] {
					t.Errorf("%s came back as %q, want %q", tt.entries[i], got, tt.entries[i+1])
				}
			}
		})
	}
}

func TestGroupAndDeduplication(t *testing.T) {
	received := unmarshal(t, sqswire.Marshaler{}, &types.Message{Body: aws.String(hookJSON), MessageId: aws.String("sqs-1")})
	own := sqswire.Marshaler{
		GroupID:         func(msg *message.Message) string { return "group of " + msg.UUID },
		DeduplicationID: func(msg *message.Message) string { return "id-of-" + msg.UUID },
	}
	malformed := unmarshal(t, own, &types.Message{Body: aws.String("x"), MessageId: aws.String("sqs-1"), Attributes: map[string]string{"MessageGroupId": "g"}})
	digest := func(id string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(id))) }
	// ofCopy is the id of a message that was received as the copy sqs-1.
	ofCopy := func(id string) string { return fmt.Sprintf("%s:%.8x", id, sha256.Sum256([]byte("sqs-1\n"))) }
	longest, longer := strings.Repeat("i", 128), strings.Repeat("i", 129)
	for _, tt := range []struct {
		rule      string
		m         sqswire.Marshaler
		msg       *message.Message
		group, id string
	}{
		{"of tenant and source, and its id", sqswire.Marshaler{}, hooktest.Message(), "acme/stripe", hooktest.ID},
		{"of the ordering key", sqswire.Marshaler{}, hooktest.With(hooktest.Message(), "ankusa_ordering_key", "lane"), "lane", hooktest.ID},
		{"a replay", sqswire.Marshaler{}, hooktest.With(hooktest.Message(), "ankusa_replay_id", "r"), "acme/stripe", hooktest.ID + ":replay:r"},
		{"one that was received", sqswire.Marshaler{}, received, "acme/stripe", ofCopy(hooktest.ID)},
		{
			"what SQS does not take",
			sqswire.Marshaler{Source: "s"},
			hooktest.With(message.NewMessage(longer, nil), "ankusa_ordering_key", "a lane"), digest("a lane"), digest(longer),
		},
		{
			"what it just takes",
			sqswire.Marshaler{Source: "s"},
			hooktest.With(message.NewMessage(longest, nil), "ankusa_ordering_key", "!~"), "!~", longest,
		},
		{"Ordered", sqswire.Marshaler{Source: "s", Ordered: true}, message.NewMessage("m", nil), "/s", "m"},
		{"none", sqswire.Marshaler{
			GroupID:         func(*message.Message) string { return "" },
			DeduplicationID: func(*message.Message) string { return "" },
		}, hooktest.Message(), "", ""},
		{"of one's own", own, hooktest.With(hooktest.Message(), "ankusa_ordering_key", "o"), digest("group of " + hooktest.ID), "id-of-" + hooktest.ID},
		{"malformed, with a group", own, malformed, "g", ofCopy("sqs-1")},
		{"malformed, without one", own, unmarshal(t, own, &types.Message{Body: aws.String("x"), MessageId: aws.String("sqs-1")}), "malformed", ofCopy("sqs-1")},
	} {
		out := marshal(t, tt.m, tt.msg)
		for name, want := range map[string]string{"MessageGroupId": tt.group, "MessageDeduplicationId": tt.id} {
			if got, ok := out.Attributes[name]; got != want || ok != (want != "") {
				t.Errorf("%s: %s is %q, want %q", tt.rule, name, got, want)
			}
		}
	}
	// A handler that runs twice for one copy publishes once; another copy is another message.
	if first, again := marshal(t, own, malformed), marshal(t, own, malformed.Copy()); first.Attributes["MessageDeduplicationId"] != again.Attributes["MessageDeduplicationId"] {
		t.Error("one copy has two ids")
	}
	other := unmarshal(t, own, &types.Message{Body: aws.String(hookJSON), MessageId: aws.String("sqs-2")})
	m := sqswire.Marshaler{}
	ids := map[string]bool{
		hooktest.ID: true,
		marshal(t, m, received).Attributes["MessageDeduplicationId"]: true,
		marshal(t, m, other).Attributes["MessageDeduplicationId"]:    true,
	}
	if len(ids) != 3 {
		t.Errorf("the copies have the ids %v, want three", ids)
	}
}

// A malformed message goes out as it came, or in an envelope where SQS would not take it.
func TestMarshalMalformed(t *testing.T) {
	m := sqswire.Marshaler{}
	for _, tt := range []struct {
		rule       string
		body       string
		attributes map[string]string
		enclosed   bool
		left       []string // attributes that do not go out
	}{
		{"as it came", "hello\t\r\né😀", map[string]string{"own": "1", "ankusa_id": "x", "a.b-c_D9": "2"}, false, nil},
		{"characters that SQS refuses", "a\x00", map[string]string{"own": "1"}, true, nil},
		{"no text", "\xff", nil, true, nil},
		{"noncharacters", "\uffff", nil, true, nil},
		{"an empty body", "", nil, true, nil},
		{"eleven attributes", "hello", map[string]string{
			"1": "v", "2": "v", "3": "v", "4": "v", "5": "v", "6": "v", "7": "v", "8": "v", "9": "v", "10": "v", "11": "v",
		}, true, nil},
		{"attributes that cannot be one", "hello", map[string]string{
			"a b": "1", ".a": "1", "a.": "1", "a..b": "1", "AWS.x": "1", "amazon.y": "1", "é": "1", "v": "\x00", strings.Repeat("n", 257): "1", "e": "",
		}, false, []string{"a b", ".a", "a.", "a..b", "AWS.x", "amazon.y", "é", "v", strings.Repeat("n", 257), "e"}},
		{"the longest name", "hello", map[string]string{strings.Repeat("n", 256): "1"}, false, nil},
		{"too large", strings.Repeat("x", sqswire.DefaultMaxMessageBytes+1), nil, true, nil},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			in := &types.Message{Body: &tt.body, MessageId: aws.String("sqs-1"), MessageAttributes: attributes(tt.attributes)}
			msg := unmarshal(t, m, in)
			prepared, err := m.Prepare("", msg)
			if err != nil {
				t.Fatal(err)
			}
			if got := !envelope.IsMalformed(prepared); got != tt.enclosed {
				t.Fatalf("enclosed: %t, want %t", got, tt.enclosed)
			}
			if tt.enclosed {
				if string(prepared.Payload) != tt.body || prepared.Metadata["malformed_code"] == "" {
					t.Errorf("the envelope has %.99q and %v", prepared.Payload, prepared.Metadata)
				}
				return
			}
			out := marshal(t, m, msg)
			if *out.Body != tt.body {
				t.Errorf("the body is %q", *out.Body)
			}
			for _, name := range tt.left {
				delete(tt.attributes, name)
			}
			tt.attributes["ankusa_id"] = "sqs-1" // what it is called here
			if got := values(t, out); !maps.Equal(got, tt.attributes) {
				t.Errorf("the attributes are %q, want %q", got, tt.attributes)
			}
		})
	}
}

// What Size says is what SQS counts: the body, and each attribute's name, type and value.
func TestSize(t *testing.T) {
	malformed := unmarshal(t, sqswire.Marshaler{}, &types.Message{Body: aws.String("x"), MessageAttributes: attributes(map[string]string{"a": "1"})})
	for name, msg := range map[string]*message.Message{
		"the hook":      hooktest.Message(),
		"metadata":      hooktest.With(hooktest.Message(), "a", "\x01\uffff", "b", ""),
		"eleven":        hooktest.With(hooktest.Message(), "ankusa_replay_id", "r", "ankusa_ordering_key", "o", "tracestate", "a=b"),
		"left out":      hooktest.With(hooktest.Message(), "ankusa_tenant_id", "\x00"),
		"malformed":     malformed,
		"no envelope":   message.NewMessage("m", []byte("x")),
		"unknown":       hooktest.With(hooktest.Message(), "ankusa_unknown", "{\"a\":\"\uffff\"}"),
		"nothing in it": message.NewMessage("", nil),
	} {
		m := sqswire.Marshaler{Source: "orders"}
		prepared, err := m.Prepare("", msg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		inline, _, limit := m.Size("", prepared, "")
		out := marshal(t, m, prepared)
		sum := len(*out.Body)
		for name, value := range out.MessageAttributes {
			sum += len(name) + len(*value.DataType) + len(*value.StringValue)
		}
		if int64(sum) != inline || limit != sqswire.DefaultMaxMessageBytes {
			t.Errorf("%s: Size says %d of %d, the message has %d", name, inline, limit, sum)
		}
		if strings.ContainsAny(*out.Body, "\x00\x01\ufffe\uffff") {
			t.Errorf("%s: the body has what SQS refuses: %q", name, *out.Body)
		}
		if n := testing.AllocsPerRun(10, func() { m.Size("", prepared, "acme"); m.Fits("", prepared) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if !m.Fits("", prepared) {
			t.Errorf("%s: does not fit", name)
		}
		if m.MaxMessageBytes = inline; marshal(t, m, prepared) == nil {
			t.Errorf("%s: the limit is inclusive", name)
		}
		m.MaxMessageBytes = inline - 1
		if m.Fits("", prepared) {
			t.Errorf("%s: fits into one byte less", name)
		}
		var tooLarge *envelope.TooLargeError
		if _, err := m.Marshal(prepared); !envelope.IsMalformed(prepared) && (!errors.As(err, &tooLarge) || tooLarge.Size != inline || tooLarge.Max != inline-1) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOrdered(t *testing.T) {
	m := sqswire.Marshaler{Source: "orders", Tenant: "acme", Ordered: true}
	out := marshal(t, m, message.NewMessage("m-1", nil))
	if got := values(t, out)["ankusa_ordering_key"]; got != "acme/orders" || !strings.Contains(*out.Body, `"ordering_key":"acme/orders"`) {
		t.Errorf("the ordering key is %q in the attribute, and the body is %s", got, *out.Body)
	}
}

func TestValidate(t *testing.T) {
	if err := (sqswire.Marshaler{Source: "\xff", MaxMessageBytes: -1}).Validate(); err == nil ||
		!strings.Contains(err.Error(), "Source") || !strings.Contains(err.Error(), "MaxMessageBytes") {
		t.Errorf("got %v", err)
	}
	if err := (sqswire.Marshaler{}).Validate(); err != nil {
		t.Error(err)
	}
}
