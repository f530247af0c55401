package envelope_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/sidebyside"
)

// headersObject is the JSON text of headers h0, h1, ... with this value.
func headersObject(n int, value string) string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"h%d":%q`, i, value)
	}
	return "{" + strings.Join(members, ",") + "}"
}

type textCase struct {
	rule    string
	text    string
	o       envelope.ForwardOptions
	want    string
	dropped envelope.Dropped
}

func textCases() []textCase {
	allow := func(names ...string) envelope.ForwardOptions {
		return envelope.ForwardOptions{Mode: envelope.ForwardAllowList, Allow: names}
	}
	mib := strings.Repeat("v", 1<<20)
	return []textCase{
		{rule: "no text"},
		{rule: "no headers", text: `{}`, want: `{}`},
		{rule: "no headers, with space", text: ` { } `, want: ` { } `},
		{rule: "nothing to do: the text as it is", text: `{ "a" : "1" , "b":"\u0032" }`, want: `{ "a" : "1" , "b":"\u0032" }`},
		{rule: "the first goes", text: `{"cookie":"s","a":"1","b":"2"}`, want: `{"a":"1","b":"2"}`},
		{rule: "the last goes", text: `{"a":"1","b":"2","cookie":"s"}`, want: `{"a":"1","b":"2"}`},
		{rule: "some between go", text: `{"a":"1","host":"s","te":"s","b":"2","x-ankusa-id":"s","c":"3"}`, want: `{"a":"1","b":"2","c":"3"}`},
		{rule: "all go", text: `{"cookie":"s","authorization":"s"}`},
		{rule: "what is kept keeps its escapes and its space", text: `{"te":"" , "a" : "\u00e9\/" , "b" :"2"}`, want: `{"a" : "\u00e9\/" , "b" :"2"}`},
		{rule: "a name hidden behind an escape", text: `{"\u0063ookie":"s","a":"1"}`, want: `{"a":"1"}`},
		{rule: "a name in upper case is lowered", text: `{"A":"1","Cookie":"s","b":"2"}`, want: `{"a":"1","b":"2"}`},
		{rule: "only ASCII is lowered: U+212A is no k", text: "{\"coo\u212aie\":\"1\",\"\u00c4\":\"2\"}", want: "{\"coo\u212aie\":\"1\",\"\u00c4\":\"2\"}"},
		{rule: "names that differ in case are joined at the first place", text: `{"a":"1","b":"2","A":"3"}`, want: `{"a":"1, 3","b":"2"}`},
		{rule: "of a name that is there twice the last value counts", text: `{"a":"1","b":"2","a":"3"}`, want: `{"a":"3","b":"2"}`},
		{rule: "twice, once with escapes", text: `{"a":"1","b":"2","\u0061":"3"}`, want: `{"a":"3","b":"2"}`},
		{rule: "twice, and never forwarded", text: `{"te":"1","te":"2","a":"1"}`, want: `{"a":"1"}`},
		{rule: "an empty name and an empty value are headers", text: `{"":"1","a":"","te":"s"}`, want: `{"":"1","a":""}`},
		{
			rule: "a value that the source replaced by a hash is a value", text: `{"x-token":"sha256:2cf24dba","te":"s"}`,
			want: `{"x-token":"sha256:2cf24dba"}`,
		},
		{rule: "additions to the never forwarded", text: `{"x-secret":"s","a":"1"}`, o: envelope.ForwardOptions{Never: []string{"X-Secret"}}, want: `{"a":"1"}`},
		{rule: "an allow-list", text: `{"a":"1","b":"2","c":"3"}`, o: allow("C", "a"), want: `{"a":"1","c":"3"}`},
		{rule: "an allow-list does not overrule the never forwarded", text: `{"cookie":"s","a":"1"}`, o: allow("cookie", "a"), want: `{"a":"1"}`},
		{rule: "an empty allow-list allows none", text: `{"a":"1"}`, o: allow()},
		{rule: "none", text: `{"a":"1"}`, o: envelope.ForwardOptions{Mode: envelope.ForwardNone}},
		{rule: "none of none", text: `{ }`, o: envelope.ForwardOptions{Mode: envelope.ForwardNone}, want: `{ }`},
		{rule: "an unknown mode is closed", text: `{"a":"1"}`, o: envelope.ForwardOptions{Mode: 9}},
		{rule: "64 headers fit", text: headersObject(64, "v"), want: headersObject(64, "v")},
		{rule: "the 65th does not", text: headersObject(67, "v"), want: headersObject(64, "v"), dropped: envelope.Dropped{Count: 3}},
		{rule: "never forwarded ones do not count", text: `{"te":"",` + headersObject(64, "v")[1:], want: headersObject(64, "v")},
		{rule: "as many names as are told apart at once", text: headersObject(128, "v"), want: headersObject(64, "v"), dropped: envelope.Dropped{Count: 64}},
		{rule: "one more", text: headersObject(129, "v"), want: headersObject(64, "v"), dropped: envelope.Dropped{Count: 65}},
		{
			rule: "one of more is there twice", text: headersObject(129, "v")[:len(headersObject(129, "v"))-1] + `,"h128":"w"}`,
			want: headersObject(64, "v"), dropped: envelope.Dropped{Count: 65},
		},
		{rule: "10,000 headers", text: headersObject(10_000, "v"), want: headersObject(64, "v"), dropped: envelope.Dropped{Count: 9936}},
		{
			rule: "bytes count without escapes", text: `{"a":"\u00e9\n","b":"2","c":"3"}`, o: envelope.ForwardOptions{MaxHeaderBytes: 6},
			want: `{"a":"\u00e9\n","b":"2"}`, dropped: envelope.Dropped{Bytes: 1},
		},
		{
			rule: "a value of 1 MiB goes whole, a smaller one after it stays", text: `{"a":"1","big":"` + mib + `","b":"2"}`,
			want: `{"a":"1","b":"2"}`, dropped: envelope.Dropped{Bytes: 1},
		},
		{
			rule: "when 64 are kept the reason is count, also for a large one", text: headersObject(64, "v")[:len(headersObject(64, "v"))-1] + `,"big":"` + mib + `"}`,
			want: headersObject(64, "v"), dropped: envelope.Dropped{Count: 1},
		},
		{
			rule: "both reasons", text: `{"a":"1","b":"too large","c":"3","d":"4"}`, o: envelope.ForwardOptions{MaxHeaders: 2, MaxHeaderBytes: 4},
			want: `{"a":"1","c":"3"}`, dropped: envelope.Dropped{Count: 1, Bytes: 1},
		},
	}
}

var badHeaderTexts = []string{
	` `, `null`, `[]`, `"a"`, `{`, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":"`, `{"a":"1"`, `{"a":"1",`, `{"a":"1",}`, `{,}`, `{"a":1}`, `{"a":null}`,
	`{"a":"1"}}`, `{"a":"1"}{}`, `{"a":"1";"b":"2"}`, `{"a" "1"}`, "{\"a\":\"\xff\"}", "{\"\xff\":\"a\"}", `{"a":"\ud800"}`, "{\"a\":\"\n\"}",
	`{"a":"1","id":"2"},"v":3`, `{"te":"1"`, `{"te":"1",1}`, `{"A":"1"`, `{"a":"1","a":"2"`, "\ufeff{}", `{}x`,
}

func TestForwardHeadersText(t *testing.T) {
	for _, tt := range textCases() {
		t.Run(tt.rule, func(t *testing.T) {
			got, dropped, err := envelope.ForwardHeadersText(tt.text, tt.o)
			if got != tt.want || dropped != tt.dropped || err != nil {
				t.Errorf("got %.500s, %+v, %v\nwant %.500s, %+v", got, dropped, err, tt.want, tt.dropped)
			}
			checkForwarded(t, tt.text, tt.o)
		})
	}
}

func TestForwardHeadersTextRefuses(t *testing.T) {
	for _, text := range badHeaderTexts {
		for _, mode := range []envelope.ForwardMode{envelope.ForwardAll, envelope.ForwardAllowList, envelope.ForwardNone} {
			got, dropped, err := envelope.ForwardHeadersText(text, envelope.ForwardOptions{Mode: mode})
			var e *envelope.Error
			if !errors.As(err, &e) || e.Code != envelope.CodeInvalidField || e.Field != envelope.MetadataHeaders {
				t.Errorf("%q, mode %d: error %v", text, mode, err)
			}
			if got != text || dropped != (envelope.Dropped{}) {
				t.Errorf("%q, mode %d: changed to %q, %+v", text, mode, got, dropped)
			}
		}
	}
}

// What is as it should be costs no memory, and what is dropped one allocation.
func TestForwardHeadersTextAllocates(t *testing.T) {
	for _, tt := range []struct {
		rule string
		text string
		want float64
	}{
		{"nothing to do", headersObject(64, "v"), 0},
		{"some to drop", `{"cookie":"s",` + headersObject(63, "v")[1:], 1},
	} {
		got := testing.AllocsPerRun(100, func() { _, _, _ = envelope.ForwardHeadersText(tt.text, envelope.ForwardOptions{}) })
		if got != tt.want {
			t.Errorf("%s: %v allocations, want %v", tt.rule, got, tt.want)
		}
	}
}

// secondOpinion does the same with encoding/json and ForwardHeaders. It reports false for a text
// that the two may disagree on: encoding/json mends what is not UTF-8, and half surrogate pairs.
func secondOpinion(text string, o envelope.ForwardOptions) (kept []envelope.Header, dropped envelope.Dropped, valid, ok bool) {
	if !utf8.ValidString(text) || strings.Contains(strings.ToLower(text), `\ud`) {
		return nil, dropped, false, false
	}
	d := json.NewDecoder(strings.NewReader(text))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, dropped, false, true
	}
	var headers []envelope.Header
	index := make(map[string]int)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, dropped, false, true
		}
		value, err := d.Token()
		if err != nil {
			return nil, dropped, false, true
		}
		v, isString := value.(string)
		if !isString {
			return nil, dropped, false, true
		}
		if at, found := index[name.(string)]; found {
			headers[at].Value = v
			continue
		}
		index[name.(string)] = len(headers)
		headers = append(headers, envelope.Header{Name: name.(string), Value: v})
	}
	if !json.Valid([]byte(text)) {
		return nil, dropped, false, true
	}
	kept, dropped = envelope.ForwardHeaders(headers, o)
	return kept, dropped, true, true
}

// checkForwarded compares the two.
func checkForwarded(t *testing.T, text string, o envelope.ForwardOptions) {
	t.Helper()
	if text == "" {
		return
	}
	want, wantDropped, valid, ok := secondOpinion(text, o)
	if !ok {
		return
	}
	got, dropped, err := envelope.ForwardHeadersText(text, o)
	if (err == nil) != valid {
		t.Fatalf("%.500q: error %v, but encoding/json finds it valid: %v", text, err, valid)
	}
	if err != nil {
		return
	}
	if dropped != wantDropped {
		t.Errorf("%.500q: dropped %+v, want %+v", text, dropped, wantDropped)
	}
	headers, err := envelope.HeadersOf(newMessage("id", md{envelope.MetadataHeaders: got}, ""))
	if err != nil || !slices.Equal(headers, want) {
		t.Errorf("%.500q: kept %.500v, %v\nwant %.500v", text, headers, err, want)
	}
	if got == "{}" && text != got {
		t.Errorf("%.500q: no headers are %q", text, got)
	}
	again, more, err := envelope.ForwardHeadersText(got, o)
	if again != got || more != (envelope.Dropped{}) || err != nil {
		t.Errorf("%.500q: forwarded again it is %.500q, %+v, %v", got, again, more, err)
	}
}

func FuzzForwardHeadersText(f *testing.F) {
	for _, tt := range textCases() {
		if len(tt.text) > 1<<12 {
			continue // minimizing what mutates from it would take all the time there is
		}
		f.Add(tt.text, int(tt.o.Mode), strings.Join(tt.o.Allow, ","), strings.Join(tt.o.Never, ","), tt.o.MaxHeaders, tt.o.MaxHeaderBytes)
	}
	for _, text := range badHeaderTexts {
		f.Add(text, 0, "", "", 0, 0)
	}
	f.Fuzz(func(t *testing.T, text string, mode int, allow, never string, most, bytes int) {
		o := envelope.ForwardOptions{
			Mode: envelope.ForwardMode(mode), MaxHeaders: most, MaxHeaderBytes: bytes,
			Allow: strings.Split(allow, ","), Never: strings.Split(never, ","),
		}
		checkForwarded(t, text, o)
	})
}

func BenchmarkForwardHeadersText(b *testing.B) {
	e := benchEnvelope(64, 1)
	o := envelope.ForwardOptions{MaxHeaders: 56, Never: []string{"x-secret"}}
	text := e.Message().Metadata[envelope.MetadataHeaders]
	naive := func() error {
		var m map[string]string // loses the order
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			return err
		}
		var headers []envelope.Header
		for name, value := range m {
			headers = append(headers, envelope.Header{Name: name, Value: value})
		}
		kept, _ := envelope.ForwardHeaders(headers, o)
		clear(m)
		for _, h := range kept {
			m[h.Name] = h.Value
		}
		out, err := json.Marshal(m)
		sinkBytes = bytes.Clone(out)
		return err
	}
	sidebyside.Run(b, []sidebyside.Way{
		{Name: "naive", F: naive},
		{Name: "ours", F: func() error { _, _, err := envelope.ForwardHeadersText(text, o); return err }},
		{Name: "floor", F: func() error { sinkBytes = append([]byte(nil), text...); return nil }},
	}, 100)
}
