package envelope_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
)

// An acceptance is a text that is read, and what differs from the message of wireText().
type acceptance struct {
	reason string
	text   string
	want   func(*envelope.Envelope)
}

func asIs(*envelope.Envelope) {}

// spaced puts space between all tokens of a text that has none in its strings.
func spaced(text string) string {
	return " \n" + strings.NewReplacer("{", "{\r\n\t", "}", " } ", ",", "\t, ", ":", " :\n").Replace(text) + "\r\n"
}

func acceptances() []acceptance {
	good := wireText()
	field := func(set func(*envelope.Envelope, string), name string) []acceptance {
		one := func(reason, value, want string) acceptance {
			return acceptance{name + " " + reason, wireText(name, value), func(e *envelope.Envelope) { set(e, want) }}
		}
		all := []acceptance{
			one("plain", `"abc"`, "abc"),
			one("with escapes", `"\u0061\"\\\/\b\f\n\r\t\u00E9\ud83d\ude00z"`, "a\"\\/\b\f\n\r\té😀z"),
			one("NUL", `"\u0000"`, "\x00"),
			one("not ASCII", `"é中😀"`, "é中😀"),
			one("byte order mark inside a string", "\"\ufeff\"", "\ufeff"),
			one("noncharacters", "\"\ufffe\uffff\U0010ffff\"", "\ufffe\uffff\U0010ffff"),
			one("DEL is no control character", "\"\x7f\"", "\x7f"),
			one("replacement character", "\"\ufffd\"", "\ufffd"),
			one("any length", quoted(strings.Repeat(`x\n`, 50000)), strings.Repeat("x\n", 50000)),
			one("the last one wins", `1,`+quoted(name)+`:null,`+quoted(name)+`:"abc"`, "abc"),
			one("the last one wins, by an escaped name", `1,`+quoted(fmt.Sprintf(`\u%04x`, name[0])+name[1:])+`:"abc"`, "abc"),
		}
		if name != "id" && name != "source_id" {
			all = append(all, one("null", "null", ""), one("empty", `""`, ""), one("null as the last one", `"x",`+quoted(name)+`:null`, ""))
		}
		return all
	}
	all := []acceptance{
		{"as it is", good, asIs},
		{"space between all tokens", spaced(good), asIs},
		{"version 2", wireText("v", "2"), asIs},
		{"a last v that is right", wireText("v", `"3","v":1`), asIs},
		{"escaped names", strings.NewReplacer(`"v"`, `"\u0076"`, `"id"`, `"\u0069d"`, `"body_base64"`, `"body\u005fbase64"`).Replace(good), asIs},
		{"escaped names of upper-case digits", strings.Replace(good, `"source_id"`, `"source\u005Fid"`, 1), asIs},
		{"source_id empty", wireText("source_id", `""`), func(e *envelope.Envelope) { e.SourceID = "" }},
		{"received_at 0", wireText("received_at", "0"), func(e *envelope.Envelope) { e.ReceivedAt = time.UnixMilli(0).UTC() }},
		{"received_at negative", wireText("received_at", "-1"), func(e *envelope.Envelope) { e.ReceivedAt = time.UnixMilli(-1).UTC() }},
		{
			"received_at at its end", wireText("received_at", "9223372036854775807"),
			func(e *envelope.Envelope) { e.ReceivedAt = time.UnixMilli(math.MaxInt64).UTC() },
		},
		{
			"received_at at its beginning", wireText("received_at", "-9223372036854775808"),
			func(e *envelope.Envelope) { e.ReceivedAt = time.UnixMilli(math.MinInt64).UTC() },
		},
		{"headers null", wireText("headers", "null"), asIs},
		{"headers empty", wireText("headers", "{ }"), asIs},
		{
			"headers as they are", wireText("headers", `{"X-A":"1","x-a":"2","":"3","cookie":"4","x-ankusa-id":"5","é":"\u0000"}`),
			func(e *envelope.Envelope) {
				e.Headers = pairs("X-A: 1", "x-a: 2", ": 3", "cookie: 4", "x-ankusa-id: 5", "é: \x00")
			},
		},
		{
			"a repeated header keeps its place and has its last value", wireText("headers", `{"a":"1","b":"2","\u0061":"3","c":"4","b":"5"}`),
			func(e *envelope.Envelope) { e.Headers = pairs("a: 3", "b: 5", "c: 4") },
		},
		{
			"a header that is no string is nothing where a later one replaces it", wireText("headers", `{"a":1,"b":[{"c":"d"}],"\u0062":"2","\u0061":"3","a":"4"}`),
			func(e *envelope.Envelope) { e.Headers = pairs("b: 2", "a: 4") },
		},
		{
			"many headers, some repeated", wireText("headers", "{"+strings.Repeat(`"a":"1","b":"2",`, 40)+manyHeaders(50)+`,"a":"3","h7":"7","\u0062":"4"}`),
			func(e *envelope.Envelope) {
				e.Headers = append(pairs("a: 3", "b: 4"), numbered(50, "x")...)
				e.Headers[2+7].Value = "7"
			},
		},
		{"many headers", wireText("headers", "{"+manyHeaders(33)+"}"), func(e *envelope.Envelope) { e.Headers = numbered(33, "x") }},
		{"the last headers win", wireText("headers", `1,"headers":{"a":"1"},"headers":{"b":"2"}`), func(e *envelope.Envelope) { e.Headers = pairs("b: 2") }},
		{"sha256", wireText("sha256", quoted(helloDigest)), func(e *envelope.Envelope) { e.SHA256 = helloDigest }},
		{"sha256 with escapes", wireText("sha256", quoted(`\u0032`+helloDigest[1:])), func(e *envelope.Envelope) { e.SHA256 = helloDigest }},
		{"sha256 null", wireText("sha256", "null"), asIs},
		{"verification null", wireText("verification", "null"), asIs},
		{
			"verification with more in it", wireText("verification", `{"x":{"status":1},"\u0066lagged":true,"status":"o\u006b","Status":7}`),
			func(e *envelope.Envelope) { e.Verification = envelope.Verification{Status: "ok", Flagged: true} },
		},
		{
			"verification with an unknown status", wireText("verification", `{"status":" ","flagged":false}`),
			func(e *envelope.Envelope) { e.Verification.Status = " " },
		},
		{
			"the last status and flag win", wireText("verification", `{"status":1,"flagged":2,"status":"ok","flagged":true,"status":"failed"}`),
			func(e *envelope.Envelope) { e.Verification = envelope.Verification{Status: "failed", Flagged: true} },
		},
		{"trace context that is not valid", wireText("traceparent", `"x"`, "tracestate", `"y"`), func(e *envelope.Envelope) { e.Traceparent, e.Tracestate = "x", "y" }},
		{"ordering_key", wireText("ordering_key", `"k\n"`), func(e *envelope.Envelope) { e.OrderingKey = "k\n" }},
		{
			"watermill_metadata", wireText("watermill_metadata", ` { "b" : "2" , "\u0061":"\n", "b":"3" }`),
			func(e *envelope.Envelope) { e.Metadata = map[string]string{"a": "\n", "b": "3"} },
		},
		{
			"metadata that is no string is nothing where a later one replaces it", wireText("watermill_metadata", `{"a":1,"b":"2","a":"3"}`),
			func(e *envelope.Envelope) { e.Metadata = map[string]string{"a": "3", "b": "2"} },
		},
		{"the last watermill_metadata counts, of whatever type", wireText("watermill_metadata", `{"a":1},"watermill_metadata":"\"y"`), asIs},
		{"headers null after others", wireText("headers", `{"a":1,"b":"c"},"headers":null`), asIs},
		{
			"watermill_metadata does not set what is ours",
			wireText("watermill_metadata", `{"ankusa_id":"x","Envelope_Redeemed":"true","envelope\u005fclaim":"x","TRACESTATE":"x","mine":"1"}`),
			func(e *envelope.Envelope) { e.Metadata = map[string]string{"mine": "1"} },
		},
		{"only reserved metadata", wireText("watermill_metadata", `{"ankusa_id":"x"}`), asIs},
		{"base64 with escapes", wireText("body_base64", `"\u0061GVsbG8\u003d"`), asIs},
		{"base64 with a slash", wireText("body_base64", `"\/\/\u002f\u002B"`, "size", "3"), func(e *envelope.Envelope) { e.Body, e.Size = []byte("\xff\xff\xfe"), 3 }},
		{"base64 of nothing", wireText("body_base64", `""`, "size", "0"), func(e *envelope.Envelope) { e.Body, e.Size = []byte{}, 0 }},
		{"the last body wins", strings.Replace(good, `"id"`, `"body_base64":"\\","id"`, 1), asIs},
		{"the last body wins, over a string with quotes in it", strings.Replace(good, `"id"`, `"body_base64":"\",","id"`, 1), asIs},
		{"claim null beside a body", wireText("claim", "null"), asIs},
		{"claim", claimText(), asClaim("", ref)},
		{"claim with escapes", claimText("claim", quoted(strings.ReplaceAll(ref, ":", `\u003a`))), asClaim("", ref)},
		{"claim and body null", claimText("body_base64", "null"), asClaim("", ref)},
		{"signed claim", claimText("claim", quoted(signedRef)), asClaim("", signedRef)},
		{"claim of the same tenant", claimText("tenant_id", `"acme"`), asClaim("acme", ref)},
		{"claim of the same tenant, escaped", claimText("tenant_id", `"\u0061cme"`), asClaim("acme", ref)},
		{"claim of no tenant", claimText("tenant_id", "null"), asClaim("", ref)},
		{"claim with any size", claimText("size", "9223372036854775807"), func(e *envelope.Envelope) { asClaim("", ref)(e); e.Size = math.MaxInt64 }},
		{"claim with the longest tenant", claimText("claim", quoted(strings.Replace(ref, "acme", strings.Repeat("A-_9", 16), 1))), asClaim("", strings.Replace(ref, "acme", strings.Repeat("A-_9", 16), 1))},
	}
	for _, value := range []string{"null", "1", "true", "[]", "{}", `{"a":1}`, `[{"a":"b"}]`, `""`, `{"a":"b","c":null}`, `{"a":{"b":"c"}}`} {
		all = append(all, acceptance{"watermill_metadata of the wrong type", wireText("watermill_metadata", value), asIs})
	}
	for _, value := range []string{"null", "1", "true", "[]", "{}", `{"a":1}`, `""`} {
		all = append(all, acceptance{"ordering_key of the wrong type", wireText("ordering_key", value), asIs})
	}
	for _, name := range memberNames {
		for _, other := range []string{strings.ToUpper(name), name + " ", name + `\u0000`, " " + name, strings.Repeat(`\u0000`, 1000) + name} {
			all = append(all, acceptance{"an unknown name", wireText(other, "[1]"), withUnknown(quoted(other) + ":[1]")})
		}
	}
	for _, value := range []string{
		"null", "true", `"\u0000\ud83d\ude00"`, "[ ]", "{ }", `{"a" : [1, {"b":null}]}`, nested(126), strings.Repeat(`{"":`, 126) + "0" + strings.Repeat("}", 126),
		"1e308", "-1.7976931348623157e308", "1.7976931348623158e308", "1e-400", "0e99999999999999999999", "-0.0E+0", strings.Repeat("9", 308),
		"0." + strings.Repeat("0", 5000) + "1e5001", strings.Repeat("1", 5000) + "e-5000", "1" + strings.Repeat("0", 1<<20) + "e-1048576",
	} {
		all = append(all, acceptance{"an unknown value", wireText("x", value), withUnknown(`"x":` + value)})
	}
	all = append(all,
		acceptance{"unknown members keep their text and order", `{ "z" :1 ,` + good[1:len(good)-1] + `,"y": [ 1 , 2 ],"z":"\/" , "x":{} }`, withUnknown(`"z" :1,"y": [ 1 , 2 ],"z":"\/","x":{}`)},
		acceptance{"more runs of them than a few", strings.ReplaceAll(good, ",", ` , "a" : 1 , "\u0062":[] ,`), withUnknown(strings.TrimSuffix(strings.Repeat(`"a" : 1,"\u0062":[],`, 5), ","))},
		acceptance{"127 levels in a known member", wireText("verification", `{"status":"ok","flagged":false,"x":`+nested(125)+"}"), func(e *envelope.Envelope) { e.Verification.Status = "ok" }},
		acceptance{"127 levels in one that is ignored", wireText("ordering_key", nested(126)), asIs},
	)
	all = append(all, field(func(e *envelope.Envelope, s string) { e.ID = s }, "id")...)
	all = append(all, field(func(e *envelope.Envelope, s string) { e.SourceID = s }, "source_id")...)
	all = append(all, field(func(e *envelope.Envelope, s string) { e.TenantID = s }, "tenant_id")...)
	all = append(all, field(func(e *envelope.Envelope, s string) { e.ContentType = s }, "content_type")...)
	all = append(all, field(func(e *envelope.Envelope, s string) { e.DedupeKey = s }, "dedupe_key")...)
	all = append(all, field(func(e *envelope.Envelope, s string) { e.ReplayID = s }, "replay_id")...)
	all = append(all, field(func(e *envelope.Envelope, s string) { e.IdempotencyKey = s }, "idempotency_key")...)
	all = append(all, field(func(e *envelope.Envelope, s string) { e.Traceparent = s }, "traceparent")...)
	all = append(all, field(func(e *envelope.Envelope, s string) { e.Tracestate = s }, "tracestate")...)
	all = append(all, field(func(e *envelope.Envelope, s string) { e.Instance = s }, "instance")...)
	all = append(all, field(func(e *envelope.Envelope, s string) { e.Region = s }, "region")...)
	return all
}

var memberNames = []string{
	"v", "id", "source_id", "tenant_id", "received_at", "content_type", "size", "dedupe_key", "replay_id", "idempotency_key", "verification",
	"headers", "traceparent", "tracestate", "instance", "region", "ordering_key", "watermill_metadata", "sha256", "claim", "body_base64",
}

// manyHeaders is the text of the members of numbered(n, "x").
func manyHeaders(n int) string {
	var all []string
	for _, h := range numbered(n, "x") {
		all = append(all, quoted(h.Name)+`:"x"`)
	}
	return strings.Join(all, ",")
}

// asClaim makes the claim form of claimText.
func asClaim(tenant, ref string) func(*envelope.Envelope) {
	return func(e *envelope.Envelope) {
		e.TenantID, e.Claim, e.SHA256, e.Body = tenant, ref, helloDigest, nil
	}
}

func withUnknown(members string) func(*envelope.Envelope) {
	return func(e *envelope.Envelope) { e.Unknown = []byte("{" + members + "}") }
}

func TestParseWireAccepts(t *testing.T) {
	for _, tt := range acceptances() {
		want := &envelope.Envelope{ID: "a", SourceID: "s", ReceivedAt: time.UnixMilli(1).UTC(), Body: []byte("hello"), Size: 5}
		tt.want(want)
		got, err := envelope.ParseWire([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v\n%.300s", tt.reason, err, tt.text)
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %.300s\ngot  %.500s\nwant %.500s", tt.reason, tt.text, fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want))
		}
	}
}

// The result does not change when the input does.
func TestParseWireDoesNotAlias(t *testing.T) {
	for _, tt := range acceptances() {
		data := []byte(tt.text)
		got, err := envelope.ParseWire(data)
		if err != nil {
			t.Fatalf("%s: %v", tt.reason, err)
		}
		for i := range data {
			data[i] = '!'
		}
		want, err := envelope.ParseWire([]byte(tt.text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: it changed with the input, error %v", tt.reason, err)
		}
	}
}

// Every byte value, alone and beside others, survives as a body.
func TestEveryByteAsBody(t *testing.T) {
	for b := range 256 {
		for _, body := range [][]byte{{byte(b)}, {byte(b), byte(b)}, {'{', byte(b), 0, 255}} {
			e := envelope.Envelope{ID: "a", Body: body}
			text, err := e.AppendWire(nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := envelope.ParseWire(text)
			if err != nil || string(got.Body) != string(body) || got.Size != int64(len(body)) {
				t.Errorf("body %q came back as %q, error %v", body, got.Body, err)
			}
		}
	}
}
