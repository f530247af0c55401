package envelope_test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope"
)

const validTraceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// traceparents is a table of texts and whether each is valid; it seeds the property test.
var traceparents = []struct {
	text  string
	valid bool
	why   string
}{
	{validTraceparent, true, "the example of W3C"},
	{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", true, "not sampled"},
	{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff", true, "flags that are yet to be defined"},
	{"00-00000000000000000000000000000001-0000000000000001-01", true, "ids that are all but zero"},
	{"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true, "a higher version of the same length"},
	{"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-will-be-like", true, "a higher version with more"},
	{"fe-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-", true, "a higher version that ends with the dash"},
	{"", false, "empty"},
	{"00", false, "a version alone"},
	{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0", false, "one too short"},
	{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-011", false, "one too long"},
	{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-", false, "version 00 has nothing after the flags"},
	{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x", false, "nor this"},
	{"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what", false, "a higher version goes on with a dash"},
	{"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false, "version ff"},
	{"0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false, "a version that is not hex"},
	{"00-00000000000000000000000000000000-00f067aa0ba902b7-01", false, "trace id all zero"},
	{"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false, "parent id all zero"},
	{"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false, "upper case"},
	{"00-4bf92f3577b34da6a3ce929d0e0e4736-00F067aa0ba902b7-01", false, "upper case in the parent id"},
	{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0A", false, "upper case in the flags"},
	{"AA-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false, "upper case in the version"},
	{"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01", false, "not hex"},
	{"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false, "first separator"},
	{"00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01", false, "second separator"},
	{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01", false, "third separator"},
	{" 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false, "a blank before"},
	{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ", false, "a blank after"},
	{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n", false, "a line break after"},
	{validTraceparent + ", " + validTraceparent, false, "two of them joined"},
}

func TestValidTraceparent(t *testing.T) {
	for _, tt := range traceparents {
		if got := envelope.ValidTraceparent(tt.text); got != tt.valid {
			t.Errorf("%s: ValidTraceparent(%q) = %v", tt.why, tt.text, got)
		}
	}
}

func TestValidTraceparentAgainstRegexp(t *testing.T) {
	shape := regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-(?s:.*))?$`)
	naive := func(s string) bool {
		return shape.MatchString(s) && s[:2] != "ff" && (s[:2] != "00" || len(s) == 55) &&
			s[3:35] != strings.Repeat("0", 32) && s[36:52] != strings.Repeat("0", 16)
	}
	r := rand.New(rand.NewPCG(3, 4))
	alphabet := "00--0123456789abcdefgF \n"
	for range 200000 {
		s := []byte(traceparents[r.IntN(len(traceparents))].text)
		for range r.IntN(3) {
			switch i := r.IntN(len(s) + 1); {
			case i < len(s):
				s[i] = alphabet[r.IntN(len(alphabet))]
			default:
				s = append(s, alphabet[r.IntN(len(alphabet))])
			}
		}
		if got, want := envelope.ValidTraceparent(string(s)), naive(string(s)); got != want {
			t.Fatalf("ValidTraceparent(%q) = %v, want %v", s, got, want)
		}
	}
}

func TestTruncateTracestate(t *testing.T) {
	// member returns a member of n bytes.
	member := func(key string, n int) string { return key + "=" + strings.Repeat("v", n-len(key)-1) }
	join := func(members ...string) string { return strings.Join(members, ",") }
	long, edge := member("l", 129), member("e", 128)
	tests := []struct{ name, in, want string }{
		{"empty", "", ""},
		{"short, kept as it is with its blanks", "a=1 , b=2,", "a=1 , b=2,"},
		{"512 fit, long members too", join(member("a", 382), long), join(member("a", 382), long)},
		{"513: long members go first, wherever they are", join(member("a", 129), "b=1", member("c", 378), "d=1"), "b=1,d=1"},
		{"128 is not long", join(edge, edge, edge, edge), join(edge, edge, edge)},
		{"all long ones go, not only as many as needed", join(long, "b=1", long, long, member("x", 125)), "b=1," + member("x", 125)},
		{"then from the end until it fits", join(edge, edge, edge, member("d", 120), "e=1234567"), join(edge, edge, edge, member("d", 120))},
		{"a small one after the first that does not fit goes too", join(edge, edge, edge, member("d", 127), "e=1"), join(edge, edge, edge)},
		{"exactly 512 after the long ones went", join(edge, edge, edge, member("d", 125), long), join(edge, edge, edge, member("d", 125))},
		{"one member that is too long leaves none", member("a", 513), ""},
		{"blanks and empty members go on the way", " a=1\t, ,," + long + "," + member("b", 400) + ", c=3 ", "a=1,c=3"},
	}
	for _, tt := range tests {
		if got := envelope.TruncateTracestate(tt.in); got != tt.want {
			t.Errorf("%s: %d bytes became %q, want %q", tt.name, len(tt.in), got, tt.want)
		}
	}
}

func TestTruncateTracestateProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 5000 {
		var members []string
		for range r.IntN(40) {
			members = append(members, "k="+strings.Repeat("v", r.IntN(150)))
		}
		in := strings.Join(members, ",")
		got := envelope.TruncateTracestate(in)
		if len(got) > 512 {
			t.Fatalf("%d bytes are left of %q", len(got), in)
		}
		// The oracle drops from the end literally.
		want := members
		if len(in) > 512 {
			want = slices.DeleteFunc(slices.Clone(members), func(m string) bool { return len(m) > 128 })
			for len(strings.Join(want, ",")) > 512 {
				want = want[:len(want)-1]
			}
		}
		if got != strings.Join(want, ",") {
			t.Fatalf("%q\nbecame %q\n  want %q", in, got, want)
		}
		if again := envelope.TruncateTracestate(got); again != got {
			t.Fatalf("%q is not stable: %q", got, again)
		}
	}
}
