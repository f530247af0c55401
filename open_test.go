package envelope_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope"
)

func TestOpen(t *testing.T) {
	const start = `{"v":1,"id":"i","source_id":"s","received_at":1,"size":5,"body_base64":"aGVsbG8=",`
	base := md{envelope.MetadataID: "i", envelope.MetadataSourceID: "s", envelope.MetadataReceivedAt: "1", envelope.MetadataSize: "5"}
	tests := []struct {
		why     string
		wire    string
		want    md
		payload string
	}{
		{
			why: "every field",
			wire: `{"v":2,"id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","source_id":"stripe","tenant_id":"acme",` +
				`"received_at":1737500000000,"content_type":"text/plain","size":5,"dedupe_key":"evt_1","replay_id":"r-1",` +
				`"idempotency_key":"acme:stripe:evt_1","verification":{"status":"ok","flagged":true},` +
				`"headers":{"x-event":"push"},"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",` +
				`"tracestate":"a=1","instance":"blue","region":"eu","ordering_key":"lane",` +
				`"watermill_metadata":{"correlation_id":"c-1"},"future":[1],` + bareEnd,
			want: with(receivedHook, md{envelope.MetadataReceipt: ""}), payload: "hello",
		},
		{
			why:  "a claim has an empty payload",
			wire: `{"v":1,"id":"i","source_id":"","received_at":-1,"size":3145728,"sha256":"` + helloSum + `","claim":"` + claimRef + `"}`,
			want: md{
				envelope.MetadataID: "i", envelope.MetadataReceivedAt: "-1", envelope.MetadataSize: "3145728",
				envelope.MetadataSHA256: helloSum, envelope.MetadataClaim: claimRef,
			},
		},
		{
			why:  "null, empty and absent are absent",
			wire: start + `"tenant_id":"","content_type":null,"headers":{ },"verification":null,"ordering_key":"","watermill_metadata":{},"region":""}`,
			want: base, payload: "hello",
		},
		{
			why:  "user metadata are unescaped, the last of a name wins",
			wire: start + `"watermill_metadata":{"a":"1","\u0061":"2","b\n":"\ud83d\ude00","":"x","y":"","content_type":"a/b","_watermill_delayed_for":"1s"}}`,
			want: func() md {
				m := with(base, md{"a": "2", "b\n": "😀", "": "x", "content_type": "a/b", "_watermill_delayed_for": "1s"})
				m["y"] = ""
				return m
			}(),
			payload: "hello",
		},
		{
			why: "names that are ours are not taken from user metadata",
			wire: start + `"watermill_metadata":{"ankusa_tenant_id":"evil","ANKUSA_x":"1","envelope_redeemed":"true","Envelope_Malformed":"x",` +
				`"\u0065nvelope_raw":"x","traceparent":"` + parent + `","Traceparent":"x","tracestate":"a=1",` +
				`"_watermill_message_uuid":"x","publishTime":"x","ankusa_message_version":"1"}}`,
			want: with(base, md{envelope.MetadataTracestate: "a=1"}), payload: "hello",
		},
		{
			why:  "a traceparent that is none is user metadata, where the field is null",
			wire: start + `"traceparent":null,"watermill_metadata":{"traceparent":"none","tracestate":"x"}}`,
			want: with(base, md{envelope.MetadataTraceparent: "none", envelope.MetadataTracestate: "x"}), payload: "hello",
		},
		{
			why:  "and is not where it is not",
			wire: start + `"traceparent":"` + parent + `","watermill_metadata":{"traceparent":"none","tracestate":"x"}}`,
			want: with(base, md{envelope.MetadataTraceparent: parent}), payload: "hello",
		},
		{
			why:  "the text of the field is kept, whatever it is",
			wire: start + `"traceparent":"odd","tracestate":"y","watermill_metadata":{"traceparent":"none","tracestate":"x"}}`,
			want: with(base, md{envelope.MetadataTraceparent: "odd", envelope.MetadataTracestate: "y"}), payload: "hello",
		},
		{
			why:  "header text is as it was written",
			wire: start + `"headers":{"B":"\u0031", "a":"x","a":"y"}}`,
			want: with(base, md{envelope.MetadataHeaders: `{"B":"\u0031", "a":"x","a":"y"}`}), payload: "hello",
		},
		{
			why:  "a header that is no string is left out where a later one replaces it",
			wire: start + `"headers":{"a":1, "b" : "x","\u0061":"y","c":null,"c":"z"},"watermill_metadata":{"m":[],"m":"1"}}`,
			want: with(base, md{envelope.MetadataHeaders: `{"b" : "x","\u0061":"y","c":"z"}`, "m": "1"}), payload: "hello",
		},
		{
			why:  "unknown members keep their text",
			wire: `{"V":2, "v" : 1,"id":"i","source_id":"s", "x":{"id": 1.50} ,"received_at":1,"size":5,"body_base64":"aGVsbG8=","x":null}`,
			want: with(base, md{envelope.MetadataUnknown: `{"V":2,"x":{"id": 1.50},"x":null}`}), payload: "hello",
		},
		{
			why:  "user metadata of the wrong type are none",
			wire: start + `"watermill_metadata":{"a":1},"ordering_key":7}`,
			want: base, payload: "hello",
		},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			data := []byte(tt.wire)
			msg, err := envelope.Open(data)
			if err != nil {
				t.Fatal(err)
			}
			clear(data) // the message is its own
			checkMessage(t, msg, tt.want[envelope.MetadataID], tt.want, tt.payload, 0)

			// It goes out as it is, and is the same when it comes in again.
			if p, err := envelope.Prepare(msg, envelope.Defaults{}); err != nil {
				t.Fatal(err)
			} else {
				msg = p
			}
			sealed, err := envelope.Seal(nil, msg, envelope.SealOptions{})
			if err != nil {
				t.Fatal(err)
			}
			again, err := envelope.Open(sealed)
			if err != nil {
				t.Fatal(err)
			}
			want := with(msg.Metadata, md{
				envelope.MetadataSHA256: again.Metadata[envelope.MetadataSHA256], // always written
				// A verification that is none is skipped.
				envelope.MetadataVerification: again.Metadata[envelope.MetadataVerification],
			})
			if v, ok := msg.Metadata["y"]; ok {
				want["y"] = v
			}
			checkMessage(t, again, msg.UUID, want, tt.payload, 0)
		})
	}
}

// What is read is held once: strings with escapes are not held as they were written, too.
func TestOpenMemory(t *testing.T) {
	const slack = 64 << 10
	const many = 100_000
	metadata := func(members string) string {
		return `{"v":1,"id":"i","source_id":"s","received_at":1,"size":0,"body_base64":"","watermill_metadata":{` + members + `}}`
	}
	for _, tt := range []struct {
		why, text string
		content   int
	}{
		{"a big value of escapes", metadata(`"x":"` + strings.Repeat(`\u0041`, 1<<20) + `"`), 1 << 20},
		{"a big name of escapes", metadata(`"` + strings.Repeat(`\u0041`, 1<<20) + `":""`), 1 << 20},
		{"many entries of one name", metadata(strings.TrimSuffix(strings.Repeat(`"x":"",`, many), ",")), many},
		{"many entries that are ours", metadata(strings.TrimSuffix(strings.Repeat(`"ankusa_x":"",`, many), ",")), many * len("ankusa_x")},
		{"a big body", `{"v":1,"id":"i","source_id":"s","received_at":1,"size":3145728,"body_base64":"` + strings.Repeat("QUJD", 1<<20) + `"}`, 3 << 20},
	} {
		data := []byte(tt.text)
		var err error
		got := allocated(func() { sinkMessage, err = envelope.Open(data) })
		if limit := uint64(tt.content + tt.content/8 + slack); err != nil || got > limit {
			t.Errorf("%s: allocated %d, want at most %d; error %v", tt.why, got, limit, err)
		}
	}
}

// One for each of: the message, its two channels, the map that it is made with and is then
// replaced, the strings, the body; four for a map of this size.
func TestOpenAllocations(t *testing.T) {
	data := must(benchEnvelope(16, 1<<10).AppendWire(nil))
	open := func() { sinkMessage = must(envelope.Open(data)) }
	if n := testing.AllocsPerRun(100, open); n > 10 {
		t.Errorf("%v allocations", n)
	}
}

func TestOpenErrors(t *testing.T) {
	for _, tt := range []struct {
		data string
		code envelope.Code
	}{
		{"", envelope.CodeInvalidJSON},
		{"[]", envelope.CodeNotAnObject},
		{`{"v":3}`, envelope.CodeUnsupportedVersion},
		{`{"v":1,"id":7}`, envelope.CodeInvalidField},
		{`{"v":1,"id":"i","source_id":"","received_at":1,"size":0}`, envelope.CodeMissingBody},
	} {
		msg, err := envelope.Open([]byte(tt.data))
		var e *envelope.Error
		if !errors.As(err, &e) || e.Code != tt.code || msg != nil {
			t.Errorf("%s: %v, error %v, want code %s", tt.data, msg, err, tt.code)
		}
	}
}

func TestOpenMalformed(t *testing.T) {
	tests := []struct {
		why    string
		raw    string
		reason error
		id     string
		native md
		uuid   string // "" is minted
		want   md
	}{
		{
			why: "a code and a field",
			raw: "{\xff", reason: &envelope.Error{Code: envelope.CodeInvalidField, Field: "id"}, id: "m-1",
			native: md{"x": "1"}, uuid: "m-1",
			want: md{envelope.MetadataMalformed: "invalid_field:id", "x": "1"},
		},
		{
			why: "a code alone, inside another error",
			raw: "{", reason: fmt.Errorf("reading: %w", &envelope.Error{Code: envelope.CodeIntegrity}), id: "m-1",
			uuid: "m-1", want: md{envelope.MetadataMalformed: "integrity"},
		},
		{
			why: "an error of another kind",
			raw: "{", reason: errors.New("a fallback's"), id: "m-1",
			uuid: "m-1", want: md{envelope.MetadataMalformed: "invalid_json"},
		},
		{
			why: "no reason", raw: "", id: "m-1",
			uuid: "m-1", want: md{envelope.MetadataMalformed: "invalid_json"},
		},
		{
			why: "native headers as they came, but for names that live in memory only",
			raw: "{", id: "m-1", uuid: "m-1",
			native: md{
				envelope.MetadataSourceID: "s", envelope.MetadataVersion: "1", envelope.MetadataTraceparent: parent, "content_type": "a/b",
				envelope.MetadataRaw: "evil", "Envelope_Malformed": "evil", envelope.MetadataRedeemed: "evil", "publishTime": "x",
			},
			want: md{
				envelope.MetadataSourceID: "s", envelope.MetadataVersion: "1", envelope.MetadataTraceparent: parent, "content_type": "a/b",
				envelope.MetadataMalformed: "invalid_json", "publishTime": "x",
			},
		},
		{
			why: "the transport's own id wins",
			raw: "{", id: "m-1", native: md{"_watermill_message_uuid": "w-1", envelope.MetadataID: "a-1"}, uuid: "m-1",
			want: md{envelope.MetadataMalformed: "invalid_json", "_watermill_message_uuid": "w-1"},
		},
		{
			why: "then Watermill's", raw: "{", native: md{"_watermill_message_uuid": "w-1", envelope.MetadataID: "a-1"}, uuid: "w-1",
			want: md{envelope.MetadataMalformed: "invalid_json", "_watermill_message_uuid": "w-1"},
		},
		{
			why: "then ours, which stays as it came", raw: "{", native: md{envelope.MetadataID: "a-1"}, uuid: "a-1",
			want: md{envelope.MetadataMalformed: "invalid_json"},
		},
		{
			why: "without any, an id is minted", raw: "{",
			want: md{envelope.MetadataMalformed: "invalid_json"},
		},
	}
	minted := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-`)
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			raw, native := []byte(tt.raw), maps.Clone(tt.native)
			msg := envelope.OpenMalformed(raw, tt.reason, tt.id, native)
			clear(raw)
			if !maps.Equal(native, tt.native) {
				t.Errorf("the native headers became %v", native)
			}
			if tt.uuid == "" && minted.MatchString(msg.UUID) {
				tt.uuid = msg.UUID
			}
			want := maps.Clone(tt.want)
			want[envelope.MetadataID], want[envelope.MetadataRaw] = tt.uuid, tt.raw
			checkMessage(t, msg, tt.uuid, want, "", 0)
			if !envelope.IsMalformed(msg) {
				t.Error("not malformed")
			}
			if got := envelope.Raw(msg); got == nil || string(got) != tt.raw {
				t.Errorf("Raw is %q", got)
			}
			got, err := envelope.Prepare(msg, envelope.Defaults{SourceID: "src"})
			if err != nil || got != msg {
				t.Errorf("Prepare does not pass it on: %v", err)
			}
			if sealed, err := envelope.Seal(nil, got, envelope.SealOptions{}); err != nil || string(sealed) != tt.raw {
				t.Errorf("sealed %q, error %v", sealed, err)
			}
		})
	}
}

func TestIsMalformed(t *testing.T) {
	for _, tt := range []struct {
		why      string
		uuid     string
		metadata md
		payload  string
		want     bool
	}{
		{"unchanged", hookID, malformedHook, "", true},
		{"with reasons of a poison queue", hookID, with(malformedHook, md{"reason_poisoned": "x"}), "", true},
		{"with a payload", hookID, malformedHook, "x", false},
		{"with another UUID", otherID, malformedHook, "", false},
		{"a hook", hookID, receivedHook, "", false},
		{"nothing", "", md{}, "", false},
	} {
		msg := newMessage(tt.uuid, tt.metadata, tt.payload)
		if got := envelope.IsMalformed(msg); got != tt.want {
			t.Errorf("%s: %v", tt.why, got)
		}
	}
	if envelope.IsMalformed(newMessage(hookID, nil, "")) {
		t.Error("nil metadata are malformed")
	}
}

func TestRaw(t *testing.T) {
	if got := envelope.Raw(newMessage(hookID, receivedHook, "x")); got != nil {
		t.Errorf("a hook has raw bytes: %q", got)
	}
	msg := newMessage(hookID, malformedHook, "changed")
	raw := envelope.Raw(msg)
	if string(raw) != "{" {
		t.Errorf("a changed malformed message has raw bytes %q", raw)
	}
	raw[0] = 'x'
	if !bytes.Equal(envelope.Raw(msg), []byte("{")) {
		t.Error("Raw is no copy")
	}
}

func TestIsReserved(t *testing.T) {
	for name, want := range map[string]bool{
		"ankusa_id": true, "Ankusa_Anything": true, "ankusa_": true, "envelope_raw": true, "ENVELOPE_RAW": true,
		"traceparent": true, "TraceParent": true, "tracestate": true, "TRACESTATE": true,
		"_watermill_message_uuid": true, "_watermill_amqp_redelivered": true,
		"_watermill_message_google_message_id": true, "publishTime": true,
		"": false, "ankusa": false, "ankusaid": false, "envelope": false, "x-ankusa-id": false, " ankusa_id": false,
		"traceparents": false, "traceparen": false, "trace\u017ftate": false, "an\u212ausa_id": false,
		"_watermill_requeue_topic": false, "publishtime": false, "content_type": false, "correlation_id": false,
	} {
		if got := envelope.IsReserved(name); got != want {
			t.Errorf("IsReserved(%q) = %v", name, got)
		}
	}
}
