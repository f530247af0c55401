package envelope_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
)

// hello is an envelope of which only what a test sets differs.
func hello(set func(*envelope.Envelope)) *envelope.Envelope {
	e := &envelope.Envelope{ID: "a", SourceID: "s", ReceivedAt: time.UnixMilli(1), Body: []byte("hello")}
	set(e)
	return e
}

// What AppendWire makes of fields that are not written as they are.
func TestAppendWireMembers(t *testing.T) {
	const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	tests := []struct {
		reason string
		set    func(*envelope.Envelope)
		want   string // what is somewhere in the text
		not    string // what is nowhere
	}{
		{"version 1 is written first", asIs, `{"v":1,"id":`, ""},
		{"milliseconds round down", func(e *envelope.Envelope) { e.ReceivedAt = time.Unix(0, 1999999) }, `"received_at":1,`, ""},
		{"milliseconds round down before 1970", func(e *envelope.Envelope) { e.ReceivedAt = time.Unix(0, -1) }, `"received_at":-1,`, ""},
		{"the last millisecond", func(e *envelope.Envelope) { e.ReceivedAt = time.UnixMilli(math.MaxInt64) }, `"received_at":9223372036854775807,`, ""},
		{"the first millisecond", func(e *envelope.Envelope) { e.ReceivedAt = time.UnixMilli(math.MinInt64) }, `"received_at":-9223372036854775808,`, ""},
		{"empty is null", func(e *envelope.Envelope) { e.ContentType = "" }, `"content_type":null,`, ""},
		{"an empty source stays", func(e *envelope.Envelope) { e.SourceID = "" }, `"source_id":"",`, ""},
		{"size and digest are the body's", func(e *envelope.Envelope) { e.Size, e.SHA256 = 7, "x" }, `"sha256":"` + helloDigest + `","body_base64":"aGVsbG8="}`, `"size":7`},
		{"no body is an empty body", func(e *envelope.Envelope) { e.Body, e.Size = nil, 9 }, `"body_base64":""}`, `"size":9`},

		{"key from the id", asIs, `"idempotency_key":"a",`, ""},
		{"key from the dedupe key", func(e *envelope.Envelope) { e.DedupeKey, e.TenantID = "k\n", `t"` }, `"idempotency_key":"t\":s:k\n",`, ""},
		{"key without a tenant", func(e *envelope.Envelope) { e.DedupeKey = "k" }, `"idempotency_key":"default:s:k",`, ""},
		{"key without a source", func(e *envelope.Envelope) { e.DedupeKey, e.SourceID = "k", "" }, `"idempotency_key":"default::k",`, ""},
		{"key without the replay", func(e *envelope.Envelope) { e.ReplayID = "r" }, `"idempotency_key":"a",`, ""},
		{"key as it is", func(e *envelope.Envelope) { e.DedupeKey, e.IdempotencyKey = "k", "mine" }, `"idempotency_key":"mine",`, ""},

		{"verification of nobody", asIs, `"verification":{"status":"skipped","flagged":false},`, ""},
		{"verification without a status", func(e *envelope.Envelope) { e.Verification.Flagged = true }, `{"status":"skipped","flagged":true},`, ""},
		{"verification of another kind", func(e *envelope.Envelope) { e.Verification.Status = "later" }, `{"status":"later","flagged":false},`, ""},

		{"no headers", asIs, `"headers":{},`, ""},
		{"lower case", func(e *envelope.Envelope) { e.Headers = pairs("X-A: V") }, `"headers":{"x-a":"V"},`, ""},
		{"joined", func(e *envelope.Envelope) { e.Headers = pairs("a: 1", "b: 2", "A: \"", "a: 4") }, `"headers":{"a":"1, \", 4","b":"2"},`, ""},
		{"joined and clean", func(e *envelope.Envelope) { e.Headers = pairs("a: 1", "b: 2", "a: 3") }, `"headers":{"a":"1, 3","b":"2"},`, ""},
		{"never forwarded", func(e *envelope.Envelope) { e.Headers = pairs("cookie: 1", "x-ankusa-id: 2", "X-Api-Key: 3") }, `"headers":{},`, ""},
		{"never forwarded alone", func(e *envelope.Envelope) { e.Headers = pairs("a: 1", "x-api-key: no") }, `"headers":{"a":"1"},`, "no"},
		{"the last letter is upper case too", func(e *envelope.Envelope) { e.Headers = pairs("a-long-name-Z: 1") }, `"headers":{"a-long-name-z":"1"},`, ""},
		{"the first letter is upper case too", func(e *envelope.Envelope) { e.Headers = pairs("A-long-name: 1") }, `"headers":{"a-long-name":"1"},`, ""},
		{"their neighbours are no letters", func(e *envelope.Envelope) { e.Headers = pairs("@[`{@[`{@[: 1", "\u00c1\u00da\u00c1\u00da: 2") }, "\"headers\":{\"@[`{@[`{@[\":\"1\",\"\u00c1\u00da\u00c1\u00da\":\"2\"},", ""},
		{"never forwarded beside others", func(e *envelope.Envelope) { e.Headers = pairs("Host: 1", "a: 2", "te: 3") }, `"headers":{"a":"2"},`, ""},
		{"no caps", func(e *envelope.Envelope) { e.Headers = numbered(100, strings.Repeat("x", 1000)) }, `"h99":"xxx`, ""},
		{"what the door refuses is written here", func(e *envelope.Envelope) { e.Headers = pairs("é\n: \x00") }, `"headers":{"é\n":"\u0000"},`, ""},

		{"trace context", func(e *envelope.Envelope) { e.Traceparent, e.Tracestate = traceparent, "a=b" }, `"traceparent":"` + traceparent + `","tracestate":"a=b",`, ""},
		{"tracestate alone", func(e *envelope.Envelope) { e.Tracestate = "a=b" }, `"traceparent":null,"tracestate":null,`, "a=b"},
		{"trace context that is not valid", func(e *envelope.Envelope) { e.Traceparent, e.Tracestate = traceparent[1:], "a=b" }, `"traceparent":null,"tracestate":null,`, "a=b"},
		{"long tracestate", func(e *envelope.Envelope) {
			e.Traceparent, e.Tracestate = traceparent, strings.Repeat("x", 600)+",a=b"
		}, `"tracestate":"a=b",`, "xxx"},

		{"no ordering key", asIs, "", "ordering_key"},
		{"ordering key", func(e *envelope.Envelope) { e.OrderingKey = "k" }, `"region":null,"ordering_key":"k","sha256":`, ""},
		{"no metadata", func(e *envelope.Envelope) { e.Metadata = map[string]string{} }, "", "watermill_metadata"},
		{
			"metadata sorted by name", func(e *envelope.Envelope) { e.Metadata = map[string]string{"b": "2", "": "0", "c": "\"", "a": "1"} },
			`"region":null,"watermill_metadata":{"":"0","a":"1","b":"2","c":"\""},"sha256":`, "",
		},
		{
			"reserved metadata", func(e *envelope.Envelope) {
				e.Metadata = map[string]string{"ankusa_id": "no", "Envelope_Redeemed": "no", "b": "2", "TraceState": "no"}
			}, `"watermill_metadata":{"b":"2"},`, "no",
		},
		{"a traceparent that is none is metadata", func(e *envelope.Envelope) { e.Metadata = map[string]string{"traceparent": "mine"} }, `"watermill_metadata":{"traceparent":"mine"},`, ""},
		{"but not beside a real one", func(e *envelope.Envelope) {
			e.Traceparent, e.Metadata = traceparent, map[string]string{"traceparent": "mine", "tracestate": "mine"}
		}, "", "mine"},
		{"a real one in metadata is none", func(e *envelope.Envelope) { e.Metadata = map[string]string{"traceparent": traceparent} }, "", traceparent},
		{"only reserved metadata", func(e *envelope.Envelope) { e.Metadata = map[string]string{"ankusa_claim": "no"} }, "", "watermill_metadata"},

		{"no unknown members", func(e *envelope.Envelope) { e.Unknown = []byte(" { } ") }, `"region":null,"sha256":`, ""},
		{"unknown members verbatim", func(e *envelope.Envelope) { e.Unknown = []byte("\n{ \"x\" : [1, 2.0],\"\\u0078\":\"\\/\" }\n") }, `"region":null,"x" : [1, 2.0],"\u0078":"\/","sha256":`, ""},

		{"claim", func(e *envelope.Envelope) { e.Claim, e.SHA256, e.Size, e.Body = ref, helloDigest, 7, nil }, `"size":7,`, "body_base64"},
		{"claim last", func(e *envelope.Envelope) { e.Claim, e.SHA256, e.Body = ref, helloDigest, nil }, `"sha256":"` + helloDigest + `","claim":"` + ref + `"}`, ""},
		{"claim of the body that is there", func(e *envelope.Envelope) { e.Claim, e.SHA256, e.Size = ref, helloDigest, 7 }, `"size":5,`, "body_base64"},
		{"claim of the tenant", func(e *envelope.Envelope) {
			e.TenantID, e.Claim, e.SHA256, e.Body = "acme", signedRef, helloDigest, nil
		}, `"claim":"` + signedRef + `"}`, ""},
	}
	for _, tt := range tests {
		text, err := hello(tt.set).AppendWire(nil)
		if err != nil {
			t.Errorf("%s: %v", tt.reason, err)
			continue
		}
		if !json.Valid(text) || !strings.Contains(string(text), tt.want) || tt.not != "" && strings.Contains(string(text), tt.not) {
			t.Errorf("%s:\n%.600s\nwants %s and not %s", tt.reason, text, tt.want, tt.not)
		}
		if _, err := envelope.ParseWire(text); err != nil {
			t.Errorf("%s: what was written is not read: %v", tt.reason, err)
		}
	}
}

func TestAppendWireRefuses(t *testing.T) {
	type set = func(*envelope.Envelope)
	tests := []struct {
		reason, field string
		set           set
	}{
		{"beyond the last millisecond", "received_at", func(e *envelope.Envelope) { e.ReceivedAt = time.UnixMilli(math.MaxInt64).Add(time.Millisecond) }},
		{"before the first millisecond", "received_at", func(e *envelope.Envelope) { e.ReceivedAt = time.UnixMilli(math.MinInt64).Add(-1) }},
		{"far beyond", "received_at", func(e *envelope.Envelope) { e.ReceivedAt = time.Unix(math.MaxInt64, 0) }},
		{"a claim that is no reference", "claim", func(e *envelope.Envelope) { e.Claim, e.SHA256, e.Body = ref+"0", helloDigest, nil }},
		{"a claim beside another body", "claim", func(e *envelope.Envelope) { e.Claim, e.SHA256, e.Body = ref, helloDigest, []byte("hullo") }},
		{"a claim beside a body without digest", "claim", func(e *envelope.Envelope) { e.Claim = ref }},
		{"a claim without digest", "sha256", func(e *envelope.Envelope) { e.Claim, e.Body = ref, nil }},
		{"a claim with an upper-case digest", "sha256", func(e *envelope.Envelope) { e.Claim, e.SHA256, e.Body = ref, strings.ToUpper(helloDigest), nil }},
		{"a claim with a negative size", "size", func(e *envelope.Envelope) { e.Claim, e.SHA256, e.Size, e.Body = ref, helloDigest, -1, nil }},
	}
	bad := []string{"\xff", "a\x80", "é\xe2\x82", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80", strings.Repeat("x", 100) + "\xff", "\"\xff\n"}
	for _, b := range bad {
		for field, s := range map[string]set{
			"id":                 func(e *envelope.Envelope) { e.ID = b },
			"source_id":          func(e *envelope.Envelope) { e.SourceID, e.DedupeKey = b, "k" },
			"tenant_id":          func(e *envelope.Envelope) { e.TenantID, e.DedupeKey = b, "k" },
			"content_type":       func(e *envelope.Envelope) { e.ContentType = b },
			"dedupe_key":         func(e *envelope.Envelope) { e.DedupeKey = b },
			"replay_id":          func(e *envelope.Envelope) { e.ReplayID = b },
			"idempotency_key":    func(e *envelope.Envelope) { e.IdempotencyKey = b },
			"verification":       func(e *envelope.Envelope) { e.Verification.Status = envelope.VerificationStatus(b) },
			"headers":            func(e *envelope.Envelope) { e.Headers = []envelope.Header{{Name: "a"}, {Name: "b", Value: b}} },
			"traceparent":        func(e *envelope.Envelope) { e.Traceparent = b },
			"tracestate":         func(e *envelope.Envelope) { e.Tracestate = b },
			"instance":           func(e *envelope.Envelope) { e.Instance = b },
			"region":             func(e *envelope.Envelope) { e.Region = b },
			"ordering_key":       func(e *envelope.Envelope) { e.OrderingKey = b },
			"watermill_metadata": func(e *envelope.Envelope) { e.Metadata = map[string]string{"a": "b", "c": b} },
			"unknown":            func(e *envelope.Envelope) { e.Unknown = []byte(`{"a":"` + b + `"}`) },
		} {
			tests = append(tests, struct {
				reason, field string
				set           set
			}{"not UTF-8", field, s})
		}
		tests = append(tests, []struct {
			reason, field string
			set           set
		}{
			{"a header name that is not UTF-8", "headers", func(e *envelope.Envelope) { e.Headers = []envelope.Header{{Name: b}} }},
			{"a joined value that is not UTF-8", "headers", func(e *envelope.Envelope) { e.Headers = []envelope.Header{{Name: "a"}, {Name: "A", Value: b}} }},
			{"a metadata name that is not UTF-8", "watermill_metadata", func(e *envelope.Envelope) { e.Metadata = map[string]string{b: ""} }},
			{"not UTF-8 beside a valid traceparent", "tracestate", func(e *envelope.Envelope) {
				e.Traceparent, e.Tracestate = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", b
			}},
			{"the first field in the order of the text", "source_id", func(e *envelope.Envelope) { e.Region, e.SourceID = b, b }},
		}...)
	}
	// Texts that would bring in members, or break the message.
	for _, text := range []string{
		"null", "[]", `""`, "1", " ", "{", "}", "{}{}", `{},{}`, `{"a":1}}`, `{"a":1},"id":"x","b":{`, `{"a"}`, `{"a":1,}`, `{a:1}`,
		`{"id":"x"}`, `{"\u0069d":"x"}`, `{"a":1,"v":2}`, `{"claim":null}`, `{"body_base64":""}`, `{"watermill\u005fmetadata":{}}`, `{"ordering_key":1}`,
		`{"a":"\ud800"}`, `{"a":1e400}`, "\ufeff{}", `{"a":` + nested(127) + "}", "{\"a\":\"\n\"}", "{}\x00", "\f{}", "\u00a0{}",
	} {
		tests = append(tests, struct {
			reason, field string
			set           set
		}{text, "unknown", func(e *envelope.Envelope) { e.Unknown = []byte(text) }})
	}
	for _, tt := range tests {
		before := []byte("before")
		text, err := hello(tt.set).AppendWire(before)
		var e *envelope.Error
		if !errors.As(err, &e) || e.Code != envelope.CodeInvalidField || e.Field != tt.field || !envelope.IsPermanent(err) {
			t.Errorf("%s: error %v, want invalid_field %q", tt.reason, err, tt.field)
		}
		if !bytes.Equal(text, before) {
			t.Errorf("%s: returned %q with the error", tt.reason, text)
		}
	}

	_, err := hello(func(e *envelope.Envelope) { e.TenantID, e.Claim, e.SHA256, e.Body = "other", ref, helloDigest, nil }).AppendWire(nil)
	if e := new(envelope.Error); !errors.As(err, &e) || e.Code != envelope.CodeTenantMismatch {
		t.Errorf("another tenant's claim: %v", err)
	}
}

// An empty ID is minted once, and a zero time is now.
func TestAppendWireMints(t *testing.T) {
	e := &envelope.Envelope{SourceID: "s"}
	before := time.Now().Truncate(time.Millisecond)
	first, err := e.AppendWire(nil)
	if err != nil {
		t.Fatal(err)
	}
	read, err := envelope.ParseWire(first)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(read.ID) || read.ID != e.ID {
		t.Errorf("minted %q, and the envelope has %q", read.ID, e.ID)
	}
	if read.ReceivedAt.Before(before) || read.ReceivedAt.After(time.Now()) {
		t.Errorf("received at %v, want about now", read.ReceivedAt)
	}
	if !e.ReceivedAt.IsZero() {
		t.Errorf("ReceivedAt was set")
	}
	second, err := e.AppendWire(nil)
	if err != nil || !strings.Contains(string(second), e.ID) {
		t.Errorf("the second attempt has another id: %s, error %v", second, err)
	}
}

func TestMarshalJSON(t *testing.T) {
	e := hello(func(e *envelope.Envelope) { e.Headers = pairs("a: <b>") })
	want, err := e.AppendWire(nil)
	if err != nil {
		t.Fatal(err)
	}
	direct, err := e.MarshalJSON()
	if err != nil || !bytes.Equal(direct, want) {
		t.Errorf("MarshalJSON: %s, error %v", direct, err)
	}
	for name, v := range map[string]any{"value": *e, "pointer": e, "slice": []envelope.Envelope{*e}} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []envelope.Envelope
		if name != "slice" {
			text = append(append([]byte("["), text...), ']')
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(got) != 1 || string(got[0].Body) != "hello" || got[0].Headers[0].Value != "<b>" {
			t.Errorf("%s: came back as %#v", name, got)
		}
	}
	if _, err := json.Marshal(envelope.Envelope{SourceID: "s"}); !strings.Contains(err.Error(), `invalid_field "id"`) {
		t.Errorf("an empty id: %v", err)
	}
	kept := hello(asIs)
	if err := kept.UnmarshalJSON([]byte("null")); !errors.Is(err, envelope.ErrMalformed) || kept.ID != "a" {
		t.Errorf("null: error %v, and the envelope is %#v", err, kept)
	}
}
