package envelope

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The seams below the two Go forms: fields, and the walk over JSON objects of strings.

func goldenTexts(t testing.TB) [][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/wire/v0.1/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d golden files, error %v", len(files), err)
	}
	var texts [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	return texts
}

// parse fills f from data, the wire form of one message, with all checks of reading, in
// their order. The body is not nil in the inline form, and nil in the claim form. Nothing in f
// refers to data.
//
// headers, metadata and unknown are the texts that were read, "" when they have no members.
// In headers and metadata there are no values but strings: others, which count for nothing
// when a later string replaces them, are left out. metadata may hold reserved names. The
// members in unknown are as they were read, a repeated one as often as it was, without the
// space between members.
//
// The error is an [*Error].
func (f *fields) parse(data []byte) error {
	var p parser
	body, err := p.read(nil, data)
	if err != nil {
		return err
	}
	headers, metadata := p.objectText(memberHeaders), p.objectText(memberMetadata)
	a := arena(make([]byte, 0, p.stringsLen()+len(headers)+len(metadata)+p.unknownTextLen()))
	*f = fields{
		id: p.string(&a, memberID), sourceID: p.string(&a, memberSourceID), tenantID: p.string(&a, memberTenantID),
		receivedAt:  p.receivedAt,
		contentType: p.string(&a, memberContentType),
		dedupeKey:   p.string(&a, memberDedupeKey), replayID: p.string(&a, memberReplayID),
		idempotencyKey: p.string(&a, memberIdempotencyKey),
		verification:   Verification{VerificationStatus(a.string(p.status)), p.flagged},
		headers:        a.object(headers, p.headers.others),
		traceparent:    p.string(&a, memberTraceparent), tracestate: p.string(&a, memberTracestate),
		instance: p.string(&a, memberInstance), region: p.string(&a, memberRegion),
		orderingKey: p.string(&a, memberOrderingKey),
		metadata:    a.object(metadata, p.metadata.others),
		size:        p.size,
		sha256:      p.string(&a, memberSHA256),
		claim:       p.string(&a, memberClaim),
		body:        body,
	}
	if p.unknownRuns > 0 {
		start := len(a)
		a = p.appendUnknown(a)
		f.unknown = view(a[start:])
	}
	return nil
}

// checkFields parses data and writes it again in all ways: the length is what wireSize says,
// and what is written parses to the same fields.
func checkFields(t *testing.T, data []byte) {
	t.Helper()
	var f fields
	if f.parse(data) != nil {
		return
	}
	want := f
	want.idempotencyKey = strings.Clone(f.idempotencyKey)
	if want.idempotencyKey == "" {
		tenant, source, key := f.idempotencyParts()
		if want.idempotencyKey = key; source {
			want.idempotencyKey = tenant + ":" + f.sourceID + ":" + key
		}
	}
	want.verification.Status = VerificationStatus(f.verificationStatus())
	want.traceparent, want.tracestate = f.traceContext()
	for _, escape := range []bool{false, true} {
		text, err := f.appendWire([]byte("x"), escape)
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		text = text[1:]
		if size := f.wireSize(escape); size != int64(len(text)) {
			t.Fatalf("wireSize(%v) is %d, want %d: %s", escape, size, len(text), text)
		}
		if escape && strings.ContainsAny(string(text), "\ufffe\uffff") {
			t.Fatalf("a noncharacter is left in %q", text)
		}
		var again fields
		if err := again.parse(text); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if escape { // these are texts, in which the escapes stay
			for _, text := range []*string{&want.headers, &want.metadata, &want.unknown} {
				*text = strings.NewReplacer("\ufffe", `\ufffe`, "\uffff", `\uffff`).Replace(*text)
			}
		}
		if f.claim == "" {
			again.sha256 = f.sha256 // computed
		}
		if !reflect.DeepEqual(again, want) {
			t.Fatalf("escaped: %v, %q\ngot  %+v\nwant %+v", escape, text, again, want)
		}
	}
	sizes := f // the size as a claim is known without making the claim
	sizes.claim, sizes.sha256, sizes.size = "urn:ankusa:claim:v1:"+strings.Repeat("t", 7)+":01M39VMD8RA3C5HR4RBV67Y002", strings.Repeat("0", 64), int64(len(f.body))
	sizes.tenantID = "ttttttt"
	claim, err := sizes.appendWire(nil, false)
	if err != nil || sizes.wireSize(false) != int64(len(claim)) {
		t.Fatalf("wireSize of a claim is %d, want %d, error %v", sizes.wireSize(false), len(claim), err)
	}
}

func FuzzFields(f *testing.F) {
	for _, text := range goldenTexts(f) {
		f.Add(text)
	}
	f.Add([]byte("{\"v\":2,\"id\":\"\ufffe\ufffd\",\"source_id\":\"\\uffff\",\"received_at\":-5,\"size\":0,\"headers\":{\"\uffff\":\"\ufff0\ufffe\"},\"x\":[\"\ufffe\"],\"body_base64\":\"\"}"))
	f.Fuzz(checkFields)
}

func TestFieldsKeepGoldenBytes(t *testing.T) {
	for _, text := range goldenTexts(t) {
		checkFields(t, text)
		var f fields
		if err := f.parse(text); err != nil {
			t.Fatal(err)
		}
		again, err := f.appendWire(nil, false)
		if err != nil || string(again) != string(text) {
			t.Errorf("got  %s\nwant %s\nerror %v", again, text, err)
		}
		if n := testing.AllocsPerRun(10, func() { f.wireSize(true) }); n != 0 {
			t.Errorf("wireSize allocates %v times", n)
		}
	}
}

func TestEscapeNoncharacters(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"\ufffe", `\ufffe`},
		{"\uffff", `\uffff`},
		{"a\ufffe\uffffb", `a\ufffe\uffffb`},
		{"\ufffd\uffbf\uf000\uff7e", "\ufffd\uffbf\uf000\uff7e"}, // their neighbours
		{"\U0001fffe\U0010ffff", "\U0001fffe\U0010ffff"},         // XML takes those of other planes
		{"\ufffe\n\uffff\"", `\ufffe\n\uffff\"`},
	} {
		if got, ok := appendStringPart(nil, tt.in, true); !ok || string(got) != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.in, got, tt.want)
		}
		if n := stringPartLen(tt.in, true); n != len(tt.want) {
			t.Errorf("%q has length %d, want %d", tt.in, n, len(tt.want))
		}
	}
}

func TestValidStrings(t *testing.T) {
	for text, want := range map[string]bool{
		"{}": true, " {\n} ": true, `{"a":"b"}`: true, ` { "a" : "" , "\u0061":"\n" } `: true,
		"": false, " ": false, "{": false, "}": false, "[]": false, `"a"`: false, "null": false, "{}}": false, "{},": false, `{"a":"b"},"c":"d"`: false,
		`{"a":"b"}{}`: false, `{"a"}`: false, `{"a":"b",}`: false, `{"a":1}`: false, `{"a":1,"a":"b"}`: false, `{"a":{}}`: false, `{"a":"\ud800"}`: false,
		"{\"a\":\"\xff\"}": false, "\ufeff{}": false, "{}\x00": false,
	} {
		if got := validStrings(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestIterate(t *testing.T) {
	for _, text := range []string{"", "{}", " { } "} {
		for m := iterate(text); m.next(); {
			t.Errorf("%q has member %q", text, m.name.text)
		}
	}
	const text = " { \"a\" : \"1\\n\" ,\"\\u0062\":[ \"x\" ] , \"\":{\"y\":\"}\"},\"a\":\"\"} "
	var got []string
	for m := iterate(text); m.next(); {
		got = append(got, m.name.String(), m.value, m.str.String())
	}
	want := []string{"a", `"1\n"`, "1\n", "b", `[ "x" ]`, "", "", `{"y":"}"}`, "", "a", `""`, ""}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := testing.AllocsPerRun(10, func() {
		for m := iterate(text); m.next(); {
			_ = m.name.len() + m.str.len()
		}
	}); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
}

// Names that have the same hash, or differ where the hash does not look, are still told apart.
func TestNameSet(t *testing.T) {
	var headers []Header
	for i := range indexFrom {
		name := "12345678" + strings.Repeat("x", i/2) + string(rune('a'+i%2)) + strings.Repeat("y", i/2) + "87654321"
		headers = append(headers, Header{Name: name})
	}
	var names nameSet
	for i, h := range headers {
		if first := names.add(headers[:i], h.Name); first >= 0 {
			t.Errorf("%q is taken for %q", h.Name, headers[first].Name)
		}
	}
	for i, h := range headers[:indexFrom-1] {
		var names nameSet
		for j := range headers[:indexFrom-1] {
			names.add(headers[:j], headers[j].Name)
		}
		if first := names.add(headers[:indexFrom-1], h.Name); first != i {
			t.Errorf("%q is found at %d, want %d", h.Name, first, i)
		}
	}
}
