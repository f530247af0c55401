package envelope_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope"
)

// allocated returns how many bytes f allocates, at least and in all.
func allocated(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	least := ^uint64(0)
	for range 3 { // what others allocate meanwhile is not in the least
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// What a text can make the reader allocate is bounded: its decoded content once, 64 KiB, and
// 40 bytes for each unknown member. These texts try.
func TestParseWireMemory(t *testing.T) {
	const slack = 64 << 10
	const many = 100_000
	big := strings.Repeat("x", 4<<20)
	members := func(format string) string {
		var b strings.Builder
		for i := range many {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	with := func(members string) string { good := wireText(); return good[:len(good)-1] + "," + members + "}" }
	tests := []struct {
		reason  string
		text    string
		content int // bytes of decoded content
		refused bool
	}{
		{"a big body", wireText("size", "4194304", "body_base64", quoted(strings.Repeat("QUJD", 4<<20/3)+"QQ==")), 4 << 20, false},
		{"a big body with one escape", wireText("size", "4194304", "body_base64", quoted(`\u0051`+strings.Repeat("QUJD", 4<<20/3)[1:]+"QQ==")), 4 << 20, false},
		{"a big body of escapes", wireText("size", "1048576", "body_base64", quoted(strings.Repeat(`\u0051`, 1048576/3*4)+"QQ==")), 1 << 20, false},
		{"a big body that is not base64", wireText("body_base64", quoted(big)), 4 << 20 / 4 * 3, true},
		{"a big body that ends badly", wireText("body_base64", quoted(strings.Repeat("QUJD", 1<<20)+"Q===")), 3 << 20, true},
		{"a big body with bits behind its end", wireText("body_base64", quoted(strings.Repeat("QUJD", 1<<20)+"QR==")), 3 << 20, true},
		{"many bodies", strings.Replace(wireText(), `"id"`, strings.Repeat(`"body_base64":"QUJD",`, many)+`"id"`, 1), 5, false},
		{"a size that lies", wireText("size", "9000000000000000000"), 5, true},
		{"a big id", wireText("id", quoted(big)), 4 << 20, false},
		{"a big id of escapes", wireText("id", quoted(strings.Repeat(`\u0041`, 1<<20))), 1 << 20, false},
		{"a big version", wireText("v", strings.Repeat("9", 4<<20)), 0, true},
		{"a big size", wireText("size", strings.Repeat("9", 4<<20)), 0, true},
		{"a big unknown number", with(`"x":1` + strings.Repeat("0", 10<<20) + "e-10485760"), 10 << 20, false},
		{"a big exponent", with(`"x":0e` + strings.Repeat("9", 4<<20)), 4 << 20, false},
		{"a big number out of range", with(`"x":` + strings.Repeat("9", 4<<20)), 0, true},
		{"a big unknown string", with(`"x":` + quoted(big)), 4 << 20, false},
		{"a big unknown name", with(quoted(big) + `:1`), 4 << 20, false},
		{"a big unknown name of escapes", with(quoted(strings.Repeat(`\u0041`, 1<<20)) + `:1`), 6 << 20, false},
		{"many unknown members", with(members(`"m%d":0`)), many * 40, false},
		{"many unknown members with space", with(members(" \"m%d\"\n:  0\t")), many * 40, false},
		{"many unknown members of one name", with(members(`"x":%d`)), many * 40, false},
		{"many unknown values in one", with(`"x":[` + members("%d") + "]"), many * 10, false},
		{"deep nesting", with(`"x":` + nested(126)), 1000, false},
		{"deeper nesting", with(`"x":` + strings.Repeat("[", 4<<20)), 0, true},
		{"deeper nesting of objects", with(`"x":` + strings.Repeat(`{"":`, 1<<20)), 0, true},
		{"many headers", wireText("headers", "{"+members(`"h%d":""`)+"}"), many * (32 + 8 + 4), false},
		{"many headers of one name", wireText("headers", "{"+strings.TrimSuffix(strings.Repeat(`"":"",`, many), ",")+"}"), many * (32 + 4), false},
		{"many headers, one of them no string", wireText("headers", "{"+members(`"h%d":""`)+`,"x":1}`), 0, true},
		// The names of replaced values that are no strings are kept until their strings come:
		// 40 bytes each, and as much for what held them while they were fewer.
		{"many headers that are replaced", wireText("headers", "{"+members(`"h%d":0`)+","+members(`"h%d":""`)+"}"), many * (32 + 8 + 4 + 80), false},
		{"a big claim", claimText("claim", quoted(big)), 0, true},
		{"a big claim of escapes", claimText("claim", quoted(strings.Repeat(`\u0041`, 1<<20))), 0, true},
		{"a big tenant beside a claim", claimText("tenant_id", quoted(strings.Repeat(`\u0041`, 1<<20))), 0, true},
		{"a big digest", wireText("sha256", quoted(strings.Repeat(`\u0041`, 1<<20))), 0, true},
		{"a big status", wireText("verification", `{"status":`+quoted(big)+`,"flagged":true}`), 4 << 20, false},
		{"a big name in verification", wireText("verification", `{"status":"ok","flagged":true,`+quoted(strings.Repeat(`\u0041`, 1<<20))+`:1}`), 0, false},
		{"many flags", wireText("verification", `{"status":"ok",`+strings.Repeat(`"flagged":false,`, many)+`"flagged":true}`), 0, false},
	}
	for _, tt := range tests {
		data := []byte(tt.text)
		var err error
		got := allocated(func() { sinkEnvelope, err = envelope.ParseWire(data) })
		if (err != nil) != tt.refused {
			t.Errorf("%s: error %v", tt.reason, err)
		}
		// A large allocation is rounded up to whole pages, and a small one by an eighth.
		if limit := uint64(tt.content + tt.content/8 + slack); got > limit {
			t.Errorf("%s: %d bytes of input made it allocate %d, want at most %d", tt.reason, len(data), got, limit)
		}
	}
}

func TestAllocations(t *testing.T) {
	for _, size := range []int{0, 1, 1 << 10, 64 << 10, 3 << 20} {
		for _, headers := range []int{0, 1, 16} {
			e := benchEnvelope(headers, size)
			text, err := e.AppendWire(nil)
			if err != nil {
				t.Fatal(err)
			}
			count := func(what string, most float64, f func() error) {
				if n := testing.AllocsPerRun(10, func() {
					if err := f(); err != nil {
						t.Error(err)
					}
				}); n > most {
					t.Errorf("%s of %d headers and %d bytes: %v allocations, want at most %v", what, headers, size, n, most)
				}
			}
			buf, body := make([]byte, 0, len(text)+2000), make([]byte, 0, size)
			count("AppendWire into a buffer", 0, func() (err error) { sinkBytes, err = e.AppendWire(buf); return err })
			// One, and one more with the race detector.
			grow := testing.AllocsPerRun(10, func() { sinkBytes = slices.Grow([]byte(nil), len(text)) })
			count("AppendWire", grow, func() (err error) { sinkBytes, err = e.AppendWire(nil); return err })
			count("ParseWire", 3, func() (err error) { sinkEnvelope, err = envelope.ParseWire(text); return err })
			count("ParseWireInto a buffer", 2, func() (err error) { sinkEnvelope, err = envelope.ParseWireInto(body, text); return err })
		}
	}
}

// The body goes into the spare room of the buffer when it fits, and nowhere else in it.
func TestParseWireInto(t *testing.T) {
	text := []byte(wireText())
	for _, tt := range []struct {
		length, capacity int
		fits             bool
	}{{0, 0, false}, {0, 4, false}, {0, 5, true}, {3, 7, false}, {3, 8, true}, {3, 100, true}} {
		room := make([]byte, tt.capacity)
		copy(room, strings.Repeat("-", tt.capacity))
		dst := room[:tt.length:tt.capacity]
		e, err := envelope.ParseWireInto(dst, text)
		if err != nil || string(e.Body) != "hello" {
			t.Fatalf("%+v: %q, error %v", tt, e.Body, err)
		}
		want := strings.Repeat("-", tt.capacity)
		if tt.fits {
			want = want[:tt.length] + "hello" + want[tt.length+5:]
		}
		if string(room) != want {
			t.Errorf("%+v: the buffer is %q, want %q", tt, room, want)
		}
		if tt.fits && cap(e.Body) != tt.capacity-tt.length {
			t.Errorf("%+v: the body has room for %d bytes", tt, cap(e.Body))
		}
	}
	e, err := envelope.ParseWireInto(make([]byte, 0, 10), []byte(claimText()))
	if err != nil || e.Body != nil {
		t.Errorf("a claim has body %v, error %v", e.Body, err)
	}
}
