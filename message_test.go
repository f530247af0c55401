package envelope_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
)

func TestMessage(t *testing.T) {
	tests := []struct {
		why  string
		in   envelope.Envelope
		want md
	}{
		{
			why: "every field",
			in: envelope.Envelope{
				ID: hookID, SourceID: "stripe", TenantID: "acme", ReceivedAt: time.UnixMilli(1737500000000), ContentType: "text/plain",
				Headers: []envelope.Header{{Name: "x-event", Value: "push"}}, Body: []byte("hello"), Size: 99, SHA256: helloSum,
				DedupeKey: "evt_1", ReplayID: "r-1", IdempotencyKey: "acme:stripe:evt_1",
				Verification: envelope.Verification{Status: envelope.VerificationOK, Flagged: true},
				Traceparent:  parent, Tracestate: "a=1", Instance: "blue", Region: "eu", OrderingKey: "lane",
				Metadata: md{"correlation_id": "c-1"}, Unknown: []byte(`{"future":[1]}`),
			},
			want: with(receivedHook, md{envelope.MetadataReceipt: ""}),
		},
		{
			why:  "nothing",
			in:   envelope.Envelope{ID: "i"},
			want: md{envelope.MetadataID: "i", envelope.MetadataSize: "0"},
		},
		{
			why:  "a claim has the size that it says",
			in:   envelope.Envelope{ID: "i", Claim: claimRef, Size: 7, SHA256: helloSum},
			want: md{envelope.MetadataID: "i", envelope.MetadataSize: "7", envelope.MetadataClaim: claimRef, envelope.MetadataSHA256: helloSum},
		},
		{
			why: "a body beside a claim was redeemed",
			in:  envelope.Envelope{ID: "i", Claim: claimRef, Size: 7, SHA256: helloSum, Body: []byte("hello")},
			want: md{
				envelope.MetadataID: "i", envelope.MetadataSize: "5", envelope.MetadataClaim: claimRef,
				envelope.MetadataSHA256: helloSum, envelope.MetadataRedeemed: "true",
			},
		},
		{
			why: "headers follow the rules of forwarding",
			in: envelope.Envelope{ID: "i", Headers: []envelope.Header{
				{Name: "B", Value: `"1"`},
				{Name: "Authorization", Value: "secret"},
				{Name: "a", Value: "2"},
				{Name: "b", Value: "3"},
				{Name: "X-Ankusa-Id", Value: "evil"},
			}},
			want: md{envelope.MetadataID: "i", envelope.MetadataSize: "0", envelope.MetadataHeaders: `{"b":"\"1\", 3","a":"2"}`},
		},
		{
			why:  "no headers are left",
			in:   envelope.Envelope{ID: "i", Headers: []envelope.Header{{Name: "Cookie", Value: "secret"}}},
			want: md{envelope.MetadataID: "i", envelope.MetadataSize: "0"},
		},
		{
			why: "names that are ours are not metadata",
			in: envelope.Envelope{ID: "i", Metadata: md{
				"ankusa_tenant_id": "evil", "Ankusa_x": "1", "envelope_malformed": "x", "traceparent": parent, "publishTime": "x", "x": "1",
			}},
			want: md{envelope.MetadataID: "i", envelope.MetadataSize: "0", "x": "1"},
		},
		{
			why:  "but a trace context that is none is",
			in:   envelope.Envelope{ID: "i", Metadata: md{"traceparent": "none", "tracestate": "x"}},
			want: md{envelope.MetadataID: "i", envelope.MetadataSize: "0", "traceparent": "none", "tracestate": "x"},
		},
		{
			why:  "unless there is one",
			in:   envelope.Envelope{ID: "i", Traceparent: parent, Metadata: md{"traceparent": "none", "tracestate": "x"}},
			want: md{envelope.MetadataID: "i", envelope.MetadataSize: "0", "traceparent": parent},
		},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			msg := tt.in.Message()
			checkMessage(t, msg, tt.in.ID, tt.want, string(tt.in.Body), 0)
		})
	}

	t.Run("a minted ID is kept", func(t *testing.T) {
		var e envelope.Envelope
		msg := e.Message()
		if e.ID == "" || msg.UUID != e.ID || e.Message().UUID != e.ID {
			t.Errorf("ID %q, UUID %q", e.ID, msg.UUID)
		}
	})
	t.Run("a time that milliseconds do not hold is refused on sealing", func(t *testing.T) {
		e := envelope.Envelope{ID: "i", ReceivedAt: time.Unix(1<<60, 0)}
		_, err := envelope.Prepare(e.Message(), envelope.Defaults{})
		var refused *envelope.Error
		if !errors.As(err, &refused) || refused.Field != envelope.MetadataReceivedAt {
			t.Errorf("error %v", err)
		}
	})
	t.Run("headers that are not UTF-8 are refused on sealing", func(t *testing.T) {
		e := envelope.Envelope{ID: "i", Headers: []envelope.Header{{Name: "a", Value: "b\xff"}}}
		_, err := envelope.Prepare(e.Message(), envelope.Defaults{})
		var refused *envelope.Error
		if !errors.As(err, &refused) || refused.Field != envelope.MetadataHeaders {
			t.Errorf("error %v", err)
		}
	})
}

func TestFromMessage(t *testing.T) {
	full := envelope.Envelope{
		ID: hookID, SourceID: "stripe", TenantID: "acme", ReceivedAt: time.UnixMilli(1737500000000).UTC(), ContentType: "text/plain",
		Headers: []envelope.Header{{Name: "x-event", Value: "push"}}, Body: []byte("hello"), Size: 5, SHA256: helloSum,
		DedupeKey: "evt_1", ReplayID: "r-1", IdempotencyKey: "acme:stripe:evt_1",
		Verification: envelope.Verification{Status: envelope.VerificationOK, Flagged: true},
		Traceparent:  parent, Tracestate: "a=1", Instance: "blue", Region: "eu", OrderingKey: "lane",
		Metadata: md{"correlation_id": "c-1"}, Unknown: []byte(`{"future":[1]}`),
	}
	change := func(f func(*envelope.Envelope)) envelope.Envelope {
		e := full
		f(&e)
		return e
	}
	tests := []struct {
		why      string
		uuid     string
		metadata md
		payload  string
		want     envelope.Envelope
	}{
		{"every field", hookID, receivedHook, "hello", full},
		{
			"size and digest are those of the payload", hookID, with(receivedHook, md{envelope.MetadataSize: "7", envelope.MetadataSHA256: emptySum}),
			"hello", full,
		},
		{
			"an unredeemed claim", hookID, with(claimedHook, md{envelope.MetadataSize: "7"}), "",
			change(func(e *envelope.Envelope) { e.Body, e.Claim, e.Size = []byte{}, claimRef, 7 }),
		},
		{
			"a redeemed claim", hookID, with(claimedHook, md{envelope.MetadataRedeemed: "true", envelope.MetadataSize: "7"}), "hello",
			change(func(e *envelope.Envelope) { e.Claim = claimRef }),
		},
		{
			"a redeemed claim whose body was changed", hookID, with(claimedHook, md{envelope.MetadataRedeemed: "true", envelope.MetadataSHA256: emptySum}), "hello",
			full,
		},
		{
			"the last of a repeated header, in the first place", hookID, with(receivedHook, md{envelope.MetadataHeaders: `{"a":"1","B":"\u00e9","a":"2"}`}), "hello",
			change(func(e *envelope.Envelope) {
				e.Headers = []envelope.Header{{Name: "a", Value: "2"}, {Name: "B", Value: "é"}}
			}),
		},
		{
			"names that are ours or framing are not metadata", hookID, with(receivedHook, md{"Ankusa_x": "1", "envelope_key": "k", "publishTime": "x"}), "hello",
			full,
		},
		{
			"a trace context that is none is metadata", hookID, with(receivedHook, md{envelope.MetadataTraceparent: "none"}), "hello",
			change(func(e *envelope.Envelope) {
				e.Traceparent, e.Tracestate = "", ""
				e.Metadata = md{"correlation_id": "c-1", "traceparent": "none", "tracestate": "a=1"}
			}),
		},
		{
			"a sealed message is opened", otherID,
			md{envelope.MetadataVersion: "1", "shared": "native"},
			sealedHello,
			envelope.Envelope{
				ID: hookID, SourceID: "stripe", ReceivedAt: time.UnixMilli(1737500000000).UTC(), Body: []byte("hello"), Size: 5, SHA256: helloSum,
				IdempotencyKey: hookID, Verification: envelope.Verification{Status: envelope.VerificationOK}, Metadata: md{"shared": "member"},
			},
		},
		{
			"a message without envelope", "u",
			md{envelope.MetadataSourceID: "s", envelope.MetadataReceivedAt: "0", "content_type": "a/b"},
			"hello",
			envelope.Envelope{
				ID: "u", SourceID: "s", ReceivedAt: time.UnixMilli(0).UTC(), ContentType: "a/b", Body: []byte("hello"), Size: 5, SHA256: helloSum,
				IdempotencyKey: "u", Metadata: md{"content_type": "a/b"},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			msg := newMessage(tt.uuid, tt.metadata, tt.payload)
			got, err := envelope.FromMessage(msg)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*got, tt.want) {
				t.Errorf("got\n%#v\nwant\n%#v\nmetadata %q, want %q", *got, tt.want, got.Metadata, tt.want.Metadata)
			}
			wire, err := got.AppendWire(nil)
			if err != nil {
				t.Fatalf("it cannot be written: %v", err)
			}
			if _, err := envelope.ParseWire(wire); err != nil {
				t.Errorf("it cannot be read: %v", err)
			}
		})
	}

	t.Run("a derived message", func(t *testing.T) {
		got, err := envelope.FromMessage(newMessage(otherID, receivedHook, "x"))
		if err != nil || got.ID != otherID || got.Verification.Trusted() || got.DedupeKey != "" || got.TenantID != "acme" {
			t.Errorf("%+v, error %v", got, err)
		}
	})
	t.Run("a malformed message", func(t *testing.T) {
		_, err := envelope.FromMessage(newMessage(hookID, with(malformedHook, md{envelope.MetadataMalformed: "invalid_field:id"}), ""))
		var e *envelope.Error
		if !errors.As(err, &e) || e.Code != envelope.CodeInvalidField || e.Field != "id" {
			t.Errorf("error %v, want the one that it was opened with", err)
		}
	})
	t.Run("a sealed message that cannot be opened", func(t *testing.T) {
		_, err := envelope.FromMessage(newMessage(hookID, md{envelope.MetadataVersion: "1"}, "[]"))
		var e *envelope.Error
		if !errors.As(err, &e) || e.Code != envelope.CodeNotAnObject {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a minted UUID is written back", func(t *testing.T) {
		msg := newMessage("", nil, "x")
		msg.Metadata = nil
		if _, err := envelope.FromMessage(msg); err == nil || msg.Metadata == nil || msg.UUID == "" {
			t.Errorf("UUID %q, metadata %v, error %v", msg.UUID, msg.Metadata, err)
		}
	})
}

func TestHeadersOf(t *testing.T) {
	for _, tt := range []struct {
		why, text string
		want      []envelope.Header
	}{
		{"absent", "", nil},
		{"empty", " {} ", nil},
		{"the order is that of the text", `{"b":"1","a":"2"}`, []envelope.Header{{Name: "b", Value: "1"}, {Name: "a", Value: "2"}}},
		{"escapes", `{"\u0061":"\ud83d\ude00\n"}`, []envelope.Header{{Name: "a", Value: "😀\n"}}},
		{"the last one of a name wins", `{"a":"1","b":"2","a":"3"}`, []envelope.Header{{Name: "a", Value: "3"}, {Name: "b", Value: "2"}}},
	} {
		got, err := envelope.HeadersOf(newMessage(hookID, with(receivedHook, md{envelope.MetadataHeaders: tt.text}), "x"))
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, error %v, want %q", tt.why, got, err, tt.want)
		}
	}
	if got, err := envelope.HeadersOf(newMessage(hookID, with(malformedHook, md{envelope.MetadataHeaders: `{"a":"1"}`}), "")); got != nil || err != nil {
		t.Errorf("a malformed message has headers %q, error %v", got, err)
	}
}

func TestKeysOfMessages(t *testing.T) {
	tests := []struct {
		why                     string
		uuid                    string
		metadata                md
		topic                   string
		delivery, lane, publish string
	}{
		{"a new message", "i", with(bareHook, md{envelope.MetadataSourceID: "s"}), "t", "i", "/s", "i"},
		{"a replay", "i", with(bareHook, md{envelope.MetadataReplayID: "r"}), "t", "i:replay:r", "/", "i:replay:r"},
		{
			"a message that was received", "i", with(bareHook, md{envelope.MetadataTenantID: "a", envelope.MetadataReceipt: "queue/7"}), "t",
			"i", "a/", "i:57e6f21410e00eb8", // sha256 of queue/7, LF, t
		},
		{
			"the same for another topic", "i", with(bareHook, md{envelope.MetadataReceipt: "queue/7"}), "",
			"i", "/", "i:24b235e38849cf27",
		},
		{"a received replay", "i", with(bareHook, md{envelope.MetadataReplayID: "r", envelope.MetadataReceipt: "queue/7"}), "t", "i:replay:r", "/", "i:replay:r:57e6f21410e00eb8"},
		{"an ordering key", "i", with(bareHook, md{envelope.MetadataTenantID: "a", envelope.MetadataOrderingKey: "o"}), "t", "i", "o", "i"},
		{
			"a malformed message, whose metadata cannot be believed", hookID, with(malformedHook, md{envelope.MetadataReplayID: "r", envelope.MetadataOrderingKey: "o"}), "t",
			hookID, "malformed", hookID + ":57e6f21410e00eb8",
		},
	}
	for _, tt := range tests {
		msg := newMessage(tt.uuid, tt.metadata, "")
		got := []string{envelope.DeliveryIDOf(msg), envelope.LaneKeyOf(msg), envelope.PublishID(msg, tt.topic)}
		if want := []string{tt.delivery, tt.lane, tt.publish}; !slices.Equal(got, want) {
			t.Errorf("%s: delivery id, lane key, publish id %q, want %q", tt.why, got, want)
		}
	}
}

// Every field and every entry of user metadata survives the way to another program and back.
func TestNothingIsLost(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for i := range 2000 {
		in := randomEnvelope(random)
		msg := in.Message()
		o := envelope.SealOptions{EscapeNoncharacters: i%2 == 0}
		beside := md{}
		if i%3 == 0 {
			o.Native = func(name, value string) bool {
				if len(name)%2 == 0 {
					beside[name] = value
					return true
				}
				return false
			}
		}
		prepared, err := envelope.Prepare(msg, envelope.Defaults{})
		if err != nil {
			t.Fatalf("%#v: %v", in, err)
		}
		sealed, err := envelope.Seal(nil, prepared, o)
		if err != nil {
			t.Fatalf("%#v: %v", in, err)
		}
		opened, err := envelope.Open(sealed)
		if err != nil {
			t.Fatalf("%s: %v", sealed, err)
		}
		maps.Copy(opened.Metadata, beside)
		if in.Claim != "" && len(in.Body) > 0 { // redeemed again
			opened.Payload = in.Body
		}
		got, err := envelope.FromMessage(opened)
		if err != nil {
			t.Fatalf("%s: %v", sealed, err)
		}
		want := in
		want.Body = append([]byte{}, in.Body...)
		got.Body = append([]byte{}, got.Body...)
		if want.IdempotencyKey == "" {
			want.IdempotencyKey = want.DeduplicationKey()
		}
		if want.Verification.Status == "" {
			want.Verification.Status = envelope.VerificationSkipped
		}
		if !reflect.DeepEqual(*got, want) {
			t.Fatalf("case %d: got\n%#v %q %q %q\nwant\n%#v %q %q %q\nfrom %s", i, *got, got.Headers, got.Metadata, got.Unknown,
				want, want.Headers, want.Metadata, want.Unknown, sealed)
		}

		// The codec without Watermill writes the same message, and reads it as the same.
		if o.Native != nil {
			continue
		}
		parsed, err := envelope.ParseWire(sealed)
		if err != nil {
			t.Fatal(err)
		}
		parsed.Body = append([]byte{}, parsed.Body...)
		if in.Claim != "" {
			want.Body = []byte{}
		}
		if !reflect.DeepEqual(*parsed, want) {
			t.Fatalf("case %d: ParseWire has\n%#v %q\nwant\n%#v %q\nfrom %s", i, *parsed, parsed.Metadata, want, want.Metadata, sealed)
		}
	}
}

// randomEnvelope has every field now and then, with odd but legal texts.
func randomEnvelope(r *rand.Rand) envelope.Envelope {
	texts := []string{"a", "stripe", "ä\u2028😀", `"quoted\`, "line\nbreak\x00", "\ufffe\uffff", strings.Repeat("long", 100), "{}", "null", " "}
	text := func() string { return texts[r.IntN(len(texts))] }
	maybe := func() string {
		if r.IntN(2) == 0 {
			return ""
		}
		return text()
	}
	e := envelope.Envelope{
		ID: text(), SourceID: maybe(), ReceivedAt: time.UnixMilli(r.Int64() - r.Int64()).UTC(), ContentType: maybe(),
		DedupeKey: maybe(), ReplayID: maybe(), IdempotencyKey: maybe(), Instance: maybe(), Region: maybe(), OrderingKey: maybe(),
		Verification: envelope.Verification{Status: envelope.VerificationStatus(maybe()), Flagged: r.IntN(2) == 0},
	}
	if r.IntN(2) == 0 {
		e.TenantID = []string{"acme", text()}[r.IntN(2)]
	}
	if r.IntN(2) == 0 {
		e.Traceparent, e.Tracestate = parent, maybe()
		if len(e.Tracestate) > 512 {
			e.Tracestate = ""
		}
	}
	for i := range r.IntN(5) {
		e.Headers = append(e.Headers, envelope.Header{Name: fmt.Sprintf("h-%d%s", i, strings.ToLower(text())), Value: maybe()})
	}
	for i := range r.IntN(4) {
		if e.Metadata == nil {
			e.Metadata = md{}
		}
		e.Metadata[fmt.Sprint(i, text())] = maybe()
	}
	if e.Traceparent == "" && r.IntN(3) == 0 {
		if e.Metadata == nil {
			e.Metadata = md{}
		}
		e.Metadata["traceparent"], e.Metadata["tracestate"] = text(), text()
	}
	if r.IntN(3) == 0 {
		e.Unknown = []byte(`{"x":[1.50,{"id":"\/"}],"Y":null}`)
	}
	e.Body, e.SHA256 = []byte("hello"), helloSum
	if r.IntN(3) == 0 {
		e.Body, e.SHA256 = nil, emptySum
	}
	e.Size = int64(len(e.Body))
	if r.IntN(4) == 0 && (e.TenantID == "" || e.TenantID == "acme") {
		e.Claim = claimRef
		if r.IntN(2) == 0 {
			e.Body, e.Size, e.SHA256 = nil, r.Int64(), helloSum
		}
	}
	return e
}
