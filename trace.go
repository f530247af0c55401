package envelope

import "strings"

// The longest tracestate that is carried, and the length from which a member gives way
// first when it is longer (W3C Trace Context, section 3.3.1.5).
const (
	maxTracestate       = 512
	maxTracestateMember = 128
)

// ValidTraceparent reports whether s is a W3C traceparent that a span context can be taken
// from: version, trace id, parent id and flags in lower-case hex, neither id all zero, a
// version that is not ff. Version 00 has nothing after the flags; a higher one, which is
// yet to be defined, may have more after a dash.
func ValidTraceparent(s string) bool {
	const length = len("00-00000000000000000000000000000000-0000000000000000-00")
	if len(s) < length || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	version, trace, parent, flags := s[:2], s[3:35], s[36:52], s[53:55]
	if !lowerHex(version) || !lowerHex(trace) || !lowerHex(parent) || !lowerHex(flags) {
		return false
	}
	const zeros = "00000000000000000000000000000000"
	if version == "ff" || trace == zeros || parent == zeros[:len("0000000000000000")] {
		return false
	}
	return len(s) == length || version != "00" && s[length] == '-'
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; c-'0' > '9'-'0' && c-'a' > 'f'-'a' {
			return false
		}
	}
	return true
}

// TruncateTracestate returns s when it has at most 512 bytes. A longer one loses whole
// members, as W3C Trace Context says: first those over 128 bytes, then from the end until
// the rest fits. Blanks around members and empty members go as well. A tracestate has a
// meaning only beside a valid traceparent.
func TruncateTracestate(s string) string {
	if len(s) <= maxTracestate {
		return s
	}
	var b strings.Builder
	for member := range strings.SplitSeq(s, ",") {
		member = strings.Trim(member, " \t")
		if member == "" || len(member) > maxTracestateMember {
			continue
		}
		size := len(member)
		if b.Len() > 0 {
			size++
		}
		if b.Len()+size > maxTracestate {
			break // this one and all after it
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(member)
	}
	return b.String()
}
