package envelope_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope"
)

// pairs makes headers of "name: value" texts.
func pairs(texts ...string) []envelope.Header {
	var hs []envelope.Header
	for _, t := range texts {
		name, value, _ := strings.Cut(t, ": ")
		hs = append(hs, envelope.Header{Name: name, Value: value})
	}
	return hs
}

// numbered makes n headers h0, h1, ... that all have the same value.
func numbered(n int, value string) []envelope.Header {
	hs := make([]envelope.Header, n)
	for i := range hs {
		hs[i] = envelope.Header{Name: fmt.Sprintf("h%d", i), Value: value}
	}
	return hs
}

func TestForwardHeaders(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct {
		name    string
		in      []envelope.Header
		o       envelope.ForwardOptions
		want    []envelope.Header
		dropped envelope.Dropped
	}{
		{name: "nothing"},
		{
			name: "names are lowered, values and order kept",
			in:   pairs("X-GitHub-Event: Push", "accept: */*", "A: 1"),
			want: pairs("x-github-event: Push", "accept: */*", "a: 1"),
		},
		{
			name: "never forwarded, in any case",
			in: pairs("Authorization: a", "PROXY-AUTHORIZATION: a", "cookie: a", "X-Api-Key: a", "Host: a", "Content-Length: 1",
				"Content-Type: a", "Connection: a", "Keep-Alive: a", "Transfer-Encoding: a", "TE: a", "Trailer: a", "Upgrade: a",
				"Expect: a", "x-ankusa-id: a", "X-Ankusa-Anything: a", "X-ANKUSA-: a", "kept: 1"),
			want: pairs("kept: 1"),
		},
		{
			name: "only near the never forwarded",
			in:   pairs("set-cookie: a", "x-ankusa: a", "ankusa-id: a", "content-encoding: a", "authorization2: a", "trailers: a", "proxy-connection: a"),
			want: pairs("set-cookie: a", "x-ankusa: a", "ankusa-id: a", "content-encoding: a", "authorization2: a", "trailers: a", "proxy-connection: a"),
		},
		{
			name: "additions to the never forwarded, in any case",
			in:   pairs("X-Secret: a", "B: b"),
			o:    envelope.ForwardOptions{Never: []string{"x-sEcret"}},
			want: pairs("b: b"),
		},
		{
			name: "an allow-list, in any case",
			in:   pairs("A: a", "B: b", "C: c"),
			o:    envelope.ForwardOptions{Mode: envelope.ForwardAllowList, Allow: []string{"c", "A"}},
			want: pairs("a: a", "c: c"),
		},
		{
			name: "an allow-list does not overrule the never forwarded",
			in:   pairs("Cookie: a", "x-ankusa-id: a", "B: b", "C: c"),
			o:    envelope.ForwardOptions{Mode: envelope.ForwardAllowList, Allow: []string{"cookie", "x-ankusa-id", "b", "c"}, Never: []string{"C"}},
			want: pairs("b: b"),
		},
		{
			name: "an empty allow-list allows none",
			in:   pairs("A: a"),
			o:    envelope.ForwardOptions{Mode: envelope.ForwardAllowList},
		},
		{
			name: "none",
			in:   pairs("A: a"),
			o:    envelope.ForwardOptions{Mode: envelope.ForwardNone},
		},
		{
			name: "an unknown mode is closed",
			in:   pairs("A: a"),
			o:    envelope.ForwardOptions{Mode: 9},
		},
		{
			name: "repeated names are joined where the first one came",
			in:   pairs("Via: 1", "B: b", "via: 2", "VIA: ", "c: c", "b: ", "via: 3"),
			want: pairs("via: 1, 2, , 3", "b: b, ", "c: c"),
		},
		{
			name: "an empty value and an empty name are headers",
			in:   []envelope.Header{{Name: "A"}, {Value: "v"}},
			want: []envelope.Header{{Name: "a"}, {Value: "v"}},
		},
		{
			name: "only ASCII is lowered: U+212A is no k",
			in:   pairs("Coo\u212aie: a", "\u00c4: a"),
			want: pairs("coo\u212aie: a", "\u00c4: a"),
		},
		{
			name: "64 headers fit",
			in:   numbered(64, "v"),
			want: numbered(64, "v"),
		},
		{
			name:    "the 65th does not",
			in:      numbered(67, "v"),
			want:    numbered(64, "v"),
			dropped: envelope.Dropped{Count: 3},
		},
		{
			name: "a repeated name counts once",
			in:   append(numbered(64, "v"), pairs("h63: w")...),
			want: append(numbered(63, "v"), pairs("h63: v, w")...),
		},
		{
			name: "never forwarded ones do not count",
			in:   append(pairs("cookie: a"), numbered(64, "v")...),
			want: numbered(64, "v"),
		},
		{
			name: "16,384 bytes of names and values fit",
			in:   pairs("ab: "+x(16380), "c: d"),
			want: pairs("ab: "+x(16380), "c: d"),
		},
		{
			name:    "one byte more: dropped whole, a smaller one after it is kept",
			in:      pairs("ab: "+x(16380), "c: dd", "e: f"),
			want:    pairs("ab: "+x(16380), "e: f"),
			dropped: envelope.Dropped{Bytes: 1},
		},
		{
			name:    "a header larger than all",
			in:      pairs("a: "+x(16384), "b: b"),
			want:    pairs("b: b"),
			dropped: envelope.Dropped{Bytes: 1},
		},
		{
			name:    "it is the joined value that must fit, separators too",
			in:      pairs("a: 12", "b: b", "a: 3"),
			o:       envelope.ForwardOptions{MaxHeaderBytes: 5},
			want:    pairs("b: b"),
			dropped: envelope.Dropped{Bytes: 1},
		},
		{
			name: "and fits exactly",
			in:   pairs("a: 12", "b: b", "a: 3"),
			o:    envelope.ForwardOptions{MaxHeaderBytes: 8},
			want: pairs("a: 12, 3", "b: b"),
		},
		{
			name:    "when enough are kept the reason is count, whatever the size",
			in:      pairs("a: 1", "b: 2", "c: "+x(99), "d: 4"),
			o:       envelope.ForwardOptions{MaxHeaders: 2, MaxHeaderBytes: 10},
			want:    pairs("a: 1", "b: 2"),
			dropped: envelope.Dropped{Count: 2},
		},
		{
			name:    "one dropped for its bytes leaves its place to another",
			in:      pairs("a: 1", "c: "+x(99), "b: 2", "d: 4"),
			o:       envelope.ForwardOptions{MaxHeaders: 2, MaxHeaderBytes: 10},
			want:    pairs("a: 1", "b: 2"),
			dropped: envelope.Dropped{Count: 1, Bytes: 1},
		},
		{
			name: "negative caps are the default ones",
			in:   numbered(64, "v"),
			o:    envelope.ForwardOptions{MaxHeaders: -1, MaxHeaderBytes: -1},
			want: numbered(64, "v"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.in)
			kept, dropped := envelope.ForwardHeaders(tt.in, tt.o)
			if !slices.Equal(kept, tt.want) {
				t.Errorf("kept %q, want %q", kept, tt.want)
			}
			if dropped != tt.dropped {
				t.Errorf("dropped %+v, want %+v", dropped, tt.dropped)
			}
			if !slices.Equal(tt.in, before) {
				t.Errorf("the input was changed to %q", tt.in)
			}
		})
	}
}

// forwardNaively is the rules of ForwardHeaders word by word, with no thought of speed.
func forwardNaively(in []envelope.Header, o envelope.ForwardOptions) (kept []envelope.Header, dropped envelope.Dropped) {
	const never = " authorization proxy-authorization cookie x-api-key host content-length content-type connection" +
		" keep-alive transfer-encoding te trailer upgrade expect "
	has := func(names []string, name string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.ToLower(n) == name })
	}
	values := map[string][]string{}
	var order []string
	for _, h := range in {
		name := strings.ToLower(h.Name)
		if strings.HasPrefix(name, "x-ankusa-") || strings.Contains(never, " "+name+" ") || has(o.Never, name) {
			continue
		}
		if o.Mode == envelope.ForwardNone || o.Mode == envelope.ForwardAllowList && !has(o.Allow, name) {
			continue
		}
		if values[name] == nil {
			order = append(order, name)
		}
		values[name] = append(values[name], h.Value)
	}
	used := 0
	for _, name := range order {
		value := strings.Join(values[name], ", ")
		switch {
		case len(kept) == o.MaxHeaders:
			dropped.Count++
		case used+len(name)+len(value) > o.MaxHeaderBytes:
			dropped.Bytes++
		default:
			used += len(name) + len(value)
			kept = append(kept, envelope.Header{Name: name, Value: value})
		}
	}
	return kept, dropped
}

func TestForwardHeadersAgainstNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"Cookie", "HOST", "x-ankusa-id", "X-Ankusa-Foo", "Accept", "accept", "VIA", "via", "X-A", "x-a", "X-B", "x-never", "TE"}
	for i := range 60 {
		names = append(names, fmt.Sprintf("X-%d", i)) // enough for the index to be used
	}
	for range 3000 {
		var in []envelope.Header
		for range r.IntN(120) {
			in = append(in, envelope.Header{Name: names[r.IntN(len(names))], Value: strings.Repeat("v", r.IntN(30))})
		}
		o := envelope.ForwardOptions{
			Mode:           envelope.ForwardMode(r.IntN(3)),
			Allow:          []string{"ACCEPT", "x-a", "X-3", "cookie"},
			Never:          []string{"X-Never"},
			MaxHeaders:     1 + r.IntN(70),
			MaxHeaderBytes: 1 + r.IntN(1200),
		}
		kept, dropped := envelope.ForwardHeaders(in, o)
		wantKept, wantDropped := forwardNaively(in, o)
		if !slices.Equal(kept, wantKept) || dropped != wantDropped {
			t.Fatalf("ForwardHeaders(%q, %+v)\n got %q, %+v\nwant %q, %+v", in, o, kept, dropped, wantKept, wantDropped)
		}
	}
}

func TestForwardOptionsValidate(t *testing.T) {
	for _, o := range []envelope.ForwardOptions{
		{},
		{Mode: envelope.ForwardAllowList, Allow: []string{"a"}, MaxHeaders: 1, MaxHeaderBytes: 1},
		{Mode: envelope.ForwardNone},
	} {
		if err := o.Validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	bad := envelope.ForwardOptions{Mode: 3, Allow: []string{"a"}, MaxHeaders: -1, MaxHeaderBytes: -1}
	err := bad.Validate()
	for _, want := range []string{"unknown ForwardMode 3", "Allow is set", "MaxHeaders -1", "MaxHeaderBytes -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, want all mistakes, %q among them", err, want)
		}
	}
	if err := (envelope.ForwardOptions{Mode: -1}).Validate(); err == nil {
		t.Error("Mode -1 is valid")
	}
}

func TestValidHeader(t *testing.T) {
	for c := range 256 {
		b := string([]byte{byte(c)})
		if got, want := envelope.ValidHeader("a"+b, "") == nil, c > 0x20 && c < 0x7f; got != want {
			t.Errorf("name with byte %#x: valid %v, want %v", c, got, want)
		}
		if got, want := envelope.ValidHeader("a", "v"+b) == nil, c >= 0x20 && c < 0x7f || c == '\t'; got != want {
			t.Errorf("value with byte %#x: valid %v, want %v", c, got, want)
		}
	}
	if envelope.ValidHeader("", "v") == nil {
		t.Error("an empty name is valid")
	}

	err := envelope.ValidHeader("X-Token", "s3cret\x00")
	if e := (*envelope.Error)(nil); !errors.As(err, &e) || e.Code != envelope.CodeInvalidField || e.Field != "headers" {
		t.Errorf("got %#v, want an Error with code and field", err)
	}
	if !envelope.IsPermanent(err) {
		t.Error("not permanent")
	}
	if s := err.Error(); !strings.Contains(s, "X-Token") || strings.Contains(s, "s3cret") {
		t.Errorf("%q: want the name and not the value", s)
	}
	if s := envelope.ValidHeader(strings.Repeat("n", 1<<20)+"\n", "").Error(); len(s) > 300 {
		t.Errorf("a long name makes an error text of %d bytes", len(s))
	}
}

func TestForwardHeadersAllocations(t *testing.T) {
	in := pairs("User-Agent: a", "Accept: */*", "X-Github-Event: push", "X-Github-Delivery: 72d3162e", "Content-Type: application/json")
	// The names in lower case, the groups, the result.
	if n := testing.AllocsPerRun(100, func() { envelope.ForwardHeaders(in, envelope.ForwardOptions{}) }); n > 3 {
		t.Errorf("%v allocations, want at most 3", n)
	}
}

func BenchmarkForwardHeaders(b *testing.B) {
	typical := pairs("Accept: */*", "Accept-Encoding: gzip", "Content-Length: 7324", "Content-Type: application/json", "User-Agent: GitHub-Hookshot/044aadd",
		"X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "X-Github-Delivery: 72d3162e-cc78-11e3-81ab-4c9367dc0958", "X-Github-Event: push",
		"X-Github-Hook-Id: 292430182", "X-Github-Hook-Installation-Target-Id: 79929171", "X-Github-Hook-Installation-Target-Type: repository",
		"X-Hub-Signature: sha1=7d38cdd689735b008b3c702edd92eea23791c5f6", "X-Hub-Signature-256: sha256=d57c68ca6f92289e6987922ff26938930f6e66a2d161ef06abdf1859230aa23c")
	for _, bb := range []struct {
		name string
		in   []envelope.Header
	}{
		{"typical", typical},
		{"hostile 20,000 names", numbered(20000, "v")},
		{"hostile 20,000 of one name", slices.Repeat(pairs("a: v"), 20000)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				envelope.ForwardHeaders(bb.in, envelope.ForwardOptions{})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(bb.in)), "ns/header")
		})
	}
}

func ExampleForwardHeaders() {
	kept, dropped := envelope.ForwardHeaders([]envelope.Header{
		{Name: "X-GitHub-Event", Value: "push"},
		{Name: "Authorization", Value: "Bearer secret"},
		{Name: "Via", Value: "1.1 a"},
		{Name: "via", Value: "1.1 b"},
		{Name: "X-Huge", Value: strings.Repeat("x", 20000)},
	}, envelope.ForwardOptions{})
	fmt.Println(kept, dropped)
	// Output: [{x-github-event push} {via 1.1 a, 1.1 b}] {0 1}
}
