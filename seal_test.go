package envelope_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope"
)

type sealTest struct {
	why      string
	uuid     string
	metadata md
	payload  string
	options  envelope.SealOptions
	want     string
}

// native carries what a test says beside the body.
func native(names ...string) func(name, value string) bool {
	return func(name, _ string) bool {
		if envelope.IsReserved(name) {
			panic("asked about " + name)
		}
		return slices.Contains(names, name)
	}
}

// The start and the end of a sealed message with nothing in it but a body.
const (
	bareStart = `{"v":1,"id":"i","source_id":"","tenant_id":null,"received_at":1,"content_type":null,"size":5,` +
		`"dedupe_key":null,"replay_id":null,"idempotency_key":"i","verification":{"status":"skipped","flagged":false},`
	bareTrace = `"traceparent":null,"tracestate":null,"instance":null,"region":null,`
	bareEnd   = `"sha256":"` + helloSum + `","body_base64":"aGVsbG8="}`
)

var bareHook = md{envelope.MetadataID: "i", envelope.MetadataReceivedAt: "1", envelope.MetadataIdempotencyKey: "i"}

var sealTests = []sealTest{
	{
		why:  "every field",
		uuid: hookID, metadata: receivedHook, payload: "hello",
		want: `{"v":1,"id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","source_id":"stripe","tenant_id":"acme",` +
			`"received_at":1737500000000,"content_type":"text/plain","size":5,"dedupe_key":"evt_1","replay_id":"r-1",` +
			`"idempotency_key":"acme:stripe:evt_1","verification":{"status":"ok","flagged":true},` +
			`"headers":{"x-event":"push"},"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",` +
			`"tracestate":"a=1","instance":"blue","region":"eu","ordering_key":"lane",` +
			`"watermill_metadata":{"correlation_id":"c-1"},"future":[1],` + bareEnd,
	},
	{
		why:  "a claim",
		uuid: hookID, metadata: with(claimedHook, md{envelope.MetadataSize: "3145728", envelope.MetadataUnknown: "", envelope.MetadataOrderingKey: "", envelope.MetadataFlagged: ""}),
		want: `{"v":1,"id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","source_id":"stripe","tenant_id":"acme",` +
			`"received_at":1737500000000,"content_type":"text/plain","size":3145728,"dedupe_key":"evt_1","replay_id":"r-1",` +
			`"idempotency_key":"acme:stripe:evt_1","verification":{"status":"ok","flagged":false},` +
			`"headers":{"x-event":"push"},"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",` +
			`"tracestate":"a=1","instance":"blue","region":"eu",` +
			`"watermill_metadata":{"correlation_id":"c-1"},"sha256":"` + helloSum + `","claim":"` + claimRef + `"}`,
	},
	{
		why:  "nothing but a body",
		uuid: "i", metadata: bareHook, payload: "hello",
		want: bareStart + `"headers":{},` + bareTrace + bareEnd,
	},
	{
		why:  "size and digest are those of the payload, whatever the metadata say",
		uuid: "i", metadata: with(bareHook, md{envelope.MetadataSize: "7", envelope.MetadataSHA256: emptySum}), payload: "hello",
		want: bareStart + `"headers":{},` + bareTrace + bareEnd,
	},
	{
		why:  "an empty body is a body",
		uuid: "i", metadata: bareHook,
		want: strings.Replace(bareStart, `"size":5`, `"size":0`, 1) + `"headers":{},` + bareTrace + `"sha256":"` + emptySum + `","body_base64":""}`,
	},
	{
		why:  "user metadata are sorted by name",
		uuid: "i", metadata: with(bareHook, md{"b": "2", "a": `"\` + "\n", "content_type": "x", "é/<>": "&\u2028", "_watermill_delayed_for": "1s"}), payload: "hello",
		want: bareStart + `"headers":{},` + bareTrace +
			`"watermill_metadata":{"_watermill_delayed_for":"1s","a":"\"\\\n","b":"2","content_type":"x","é/<>":"&` + "\u2028" + `"},` + bareEnd,
	},
	{
		why:  "user metadata that the transport carries are not in the JSON",
		uuid: "i", metadata: with(bareHook, md{"b": "2", "a": "1", "c": "3"}), payload: "hello",
		options: envelope.SealOptions{Native: native("a", "c")},
		want:    bareStart + `"headers":{},` + bareTrace + `"watermill_metadata":{"b":"2"},` + bareEnd,
	},
	{
		why:  "no member when the transport carries all",
		uuid: "i", metadata: with(bareHook, md{"b": "2"}), payload: "hello",
		options: envelope.SealOptions{Native: native("b")},
		want:    bareStart + `"headers":{},` + bareTrace + bareEnd,
	},
	{
		why:  "an entry with an empty name and an entry with an empty value",
		uuid: "i", payload: "hello",
		metadata: map[string]string{envelope.MetadataID: "i", envelope.MetadataReceivedAt: "1", envelope.MetadataIdempotencyKey: "i", "": "x", "y": ""},
		want:     bareStart + `"headers":{},` + bareTrace + `"watermill_metadata":{"":"x","y":""},` + bareEnd,
	},
	{
		why:  "a trace context that is none is null, and its text is user metadata",
		uuid: "i", payload: "hello",
		metadata: with(bareHook, md{envelope.MetadataTraceparent: "00-0-0-00", envelope.MetadataTracestate: "b=2"}),
		options:  envelope.SealOptions{Native: native()},
		want:     bareStart + `"headers":{},` + bareTrace + `"watermill_metadata":{"traceparent":"00-0-0-00","tracestate":"b=2"},` + bareEnd,
	},
	{
		why:  "a tracestate alone is no trace context",
		uuid: "i", payload: "hello", metadata: with(bareHook, md{envelope.MetadataTracestate: "b=2"}),
		want: bareStart + `"headers":{},` + bareTrace + `"watermill_metadata":{"tracestate":"b=2"},` + bareEnd,
	},
	{
		why:  "names that are ours, framing, and what lives in memory only are not written",
		uuid: "i", payload: "hello",
		metadata: with(bareHook, md{
			"Ankusa_Mine": "1", "ankusa_mine": "1", "envelope_receipt": "q/1", "envelope_redeemed": "true", "Envelope_X": "1",
			"envelope_fallback": "true", "envelope_key": "k", "publishTime": "1", "_watermill_message_uuid": "1", "TRACEPARENT": "1",
		}),
		want: bareStart + `"headers":{},` + bareTrace + bareEnd,
	},
	{
		why:  "headers and unknown members are written as they are",
		uuid: "i", payload: "hello",
		metadata: with(bareHook, md{envelope.MetadataHeaders: `{"Z":"\u0031","a":"1","a":"2"}`, envelope.MetadataUnknown: `{"x":1.50,"y":{"id":"\/"}}`}),
		want:     bareStart + `"headers":{"Z":"\u0031","a":"1","a":"2"},` + bareTrace + `"x":1.50,"y":{"id":"\/"},` + bareEnd,
	},
	{
		why:  "empty objects add nothing",
		uuid: "i", payload: "hello",
		metadata: with(bareHook, md{envelope.MetadataHeaders: `{}`, envelope.MetadataUnknown: ` { } `}),
		want:     bareStart + `"headers":{},` + bareTrace + bareEnd,
	},
	{
		why:  "noncharacters are escaped where XML carries the message",
		uuid: "i", payload: "hello", options: envelope.SealOptions{EscapeNoncharacters: true},
		metadata: with(bareHook, md{"a\ufffe": "\uffff\ufffd", envelope.MetadataHeaders: "{\"h\":\"\ufffe\"}", envelope.MetadataRegion: "\uffff"}),
		want: strings.Replace(bareStart+`"headers":{"h":"\ufffe"},`+bareTrace, `"region":null`, `"region":"\uffff"`, 1) +
			`"watermill_metadata":{"a\ufffe":"\uffff` + "\ufffd" + `"},` + bareEnd,
	},
	{
		why:  "and are not anywhere else",
		uuid: "i", payload: "hello",
		metadata: with(bareHook, md{"a\ufffe": "\uffff"}),
		want:     bareStart + `"headers":{},` + bareTrace + "\"watermill_metadata\":{\"a\ufffe\":\"\uffff\"}," + bareEnd,
	},
	{
		why:  "a malformed message is its bytes",
		uuid: hookID, metadata: with(malformedHook, md{envelope.MetadataRaw: "\x00\xff not \ufffe JSON"}),
		options: envelope.SealOptions{EscapeNoncharacters: true},
		want:    "\x00\xff not \ufffe JSON",
	},
	{
		why:  "also when there are none",
		uuid: hookID, metadata: with(malformedHook, md{envelope.MetadataRaw: ""}),
		want: "",
	},
}

func TestSeal(t *testing.T) {
	for _, tt := range sealTests {
		t.Run(tt.why, func(t *testing.T) {
			msg := newMessage(tt.uuid, tt.metadata, tt.payload)
			if p, err := envelope.Prepare(msg, envelope.Defaults{}); err != nil || p != msg {
				t.Fatalf("the message is not prepared: %v", err)
			}
			got, err := envelope.Seal([]byte("before "), msg, tt.options)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != "before "+tt.want {
				t.Errorf("sealed\n%s\nwant\n%s", got, "before "+tt.want)
			}
			inline, claim := envelope.SealedSize(msg, tt.options, "tenant-of-the-store")
			if inline != int64(len(tt.want)) {
				t.Errorf("SealedSize is %d, the message has %d bytes", inline, len(tt.want))
			}
			if isClaim := msg.Metadata[envelope.MetadataClaim] != ""; isClaim || envelope.IsMalformed(msg) {
				if claim != inline {
					t.Errorf("SealedSize is %d as a claim, want %d as it is", claim, inline)
				}
				return
			}
			// The same message after its body was checked in.
			tenant := "tenant-of-the-store"
			if own := tt.metadata[envelope.MetadataTenantID]; own != "" {
				tenant = own
			}
			checkedIn := newMessage(tt.uuid, with(tt.metadata, md{
				envelope.MetadataClaim:  "urn:ankusa:claim:v1:" + tenant + ":01M39VMD8RA3C5HR4RBV67Y002",
				envelope.MetadataSHA256: helloSum, envelope.MetadataSize: fmt.Sprint(len(tt.payload)),
				envelope.MetadataRedeemed: "",
			}), "")
			sealed, err := envelope.Seal(nil, checkedIn, tt.options)
			if err != nil || claim != int64(len(sealed)) {
				t.Errorf("SealedSize as a claim is %d, the message has %d bytes (error %v)", claim, len(sealed), err)
			}
		})
	}
}

func TestSealErrors(t *testing.T) {
	tests := []struct {
		why      string
		uuid     string
		metadata md
		payload  string
		options  envelope.SealOptions
		field    string
	}{
		{"no envelope", "i", md{"x": "1"}, "hello", envelope.SealOptions{}, envelope.MetadataID},
		{"another UUID", "j", bareHook, "hello", envelope.SealOptions{}, envelope.MetadataID},
		{"a sealed message", "i", with(bareHook, md{envelope.MetadataVersion: "1"}), "hello", envelope.SealOptions{}, envelope.MetadataID},
		{"a redeemed claim", hookID, claimedHook, "hello", envelope.SealOptions{}, envelope.MetadataClaim},
		{"a redeemed empty claim", hookID, with(claimedHook, md{envelope.MetadataRedeemed: "true"}), "", envelope.SealOptions{}, envelope.MetadataClaim},
		{"no received_at", "i", with(bareHook, md{envelope.MetadataReceivedAt: ""}), "hello", envelope.SealOptions{}, envelope.MetadataReceivedAt},
		{"a value that is not UTF-8", "i", with(bareHook, md{"b": "1", "a": "\xff"}), "hello", envelope.SealOptions{}, "a"},
		{"a name that is not UTF-8", "i", with(bareHook, md{"\xff": "1"}), "hello", envelope.SealOptions{Native: native()}, "\xff"},
		{"a trace context that is neither valid nor UTF-8", "i", with(bareHook, md{envelope.MetadataTraceparent: "\xff"}), "hello", envelope.SealOptions{}, envelope.MetadataTraceparent},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			msg := newMessage(tt.uuid, tt.metadata, tt.payload)
			got, err := envelope.Seal([]byte("before"), msg, tt.options)
			var e *envelope.Error
			if !errors.As(err, &e) || e.Code != envelope.CodeInvalidField || e.Field != tt.field {
				t.Errorf("error %v, want invalid_field %q", err, tt.field)
			}
			if string(got) != "before" {
				t.Errorf("dst became %q", got)
			}
		})
	}
}

func TestSealOptionsCheck(t *testing.T) {
	tests := []struct {
		why      string
		metadata md
		options  envelope.SealOptions
		field    string // "" is no error
	}{
		{"all is UTF-8", md{"a": "ä"}, envelope.SealOptions{}, ""},
		{"the first by name is reported", md{"b": "\xff", "a": "\xff", "c": "\xff"}, envelope.SealOptions{}, "a"},
		{"what the transport carries may be any bytes", md{"a": "\xff", "\xff": "x"}, envelope.SealOptions{Native: native("a", "\xff")}, ""},
		{"a name", md{"a": "\xff", "\xfe": "x"}, envelope.SealOptions{Native: native("a")}, "\xfe"},
		{"a trace context that is none", md{envelope.MetadataTraceparent: "\xff"}, envelope.SealOptions{Native: native()}, envelope.MetadataTraceparent},
		{"what is not written does not matter", md{"envelope_key": "\xff", "publishTime": "\xff"}, envelope.SealOptions{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			msg := newMessage("i", with(bareHook, tt.metadata), "hello")
			for how, try := range map[string]func() error{
				"Check": func() error { return tt.options.Check(msg) },
				"Seal": func() error {
					_, err := envelope.Seal(nil, msg, tt.options)
					return err
				},
				"Prepare": func() error {
					p, err := tt.options.Prepare(msg, envelope.Defaults{})
					if (p == nil) != (err != nil) {
						t.Errorf("prepared %v, error %v", p, err)
					}
					return err
				},
				"Prepare of a copy": func() error { // which changes
					derived := msg.Copy()
					derived.UUID = "another"
					_, err := tt.options.Prepare(derived, envelope.Defaults{})
					return err
				},
			} {
				err := try()
				var e *envelope.Error
				if tt.field == "" && err != nil || tt.field != "" && (!errors.As(err, &e) || e.Field != tt.field) {
					t.Errorf("%s: error %v, want field %q", how, err, tt.field)
				}
			}
		})
	}
	if err := (envelope.SealOptions{}).Check(newMessage(hookID, with(malformedHook, md{"a": "\xff"}), "")); err != nil {
		t.Errorf("a malformed message is passed on as it is, but: %v", err)
	}
}

func TestSealedSizeDoesNotAllocate(t *testing.T) {
	msg := newMessage(hookID, with(receivedHook, md{"a": "1", "b": "\n", "c": "3"}), strings.Repeat("x", 64<<10))
	o := envelope.SealOptions{Native: native("a"), EscapeNoncharacters: true}
	if n := testing.AllocsPerRun(100, func() { envelope.SealedSize(msg, o, "") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	prepare := func() {
		if p, err := envelope.Prepare(msg, envelope.Defaults{}); err != nil || p != msg {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, prepare); n != 0 {
		t.Errorf("Prepare of what is prepared: %v allocations", n)
	}
	dst := make([]byte, 0, 128<<10)
	o.Native = native("a", "b", "c", "correlation_id")
	seal := func() {
		if _, err := envelope.Seal(dst, msg, o); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, seal); n != 0 {
		t.Errorf("Seal into a buffer that has room: %v allocations", n)
	}
}
