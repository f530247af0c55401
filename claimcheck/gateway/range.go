package gateway

import (
	"cmp"
	"strings"
)

// parseRange returns the part of a body of size bytes that the values of a Range header ask
// for. Whole is true where there is no header that counts: none, several, another unit,
// several ranges, or one that is not well-formed (RFC 9110, section 14.2). Without whole, n
// is 0 where the range cannot be satisfied.
func parseRange(values []string, size int64) (off, n int64, whole bool) {
	if len(values) != 1 {
		return 0, size, true
	}
	unit, spec, ok := strings.Cut(values[0], "=")
	spec = strings.Trim(spec, " \t")
	first, last, dash := strings.Cut(spec, "-")
	if !ok || !strings.EqualFold(unit, "bytes") || !dash || first == "" && last == "" {
		return 0, size, true
	}
	a, okA := parseDigits(first)
	b, okB := parseDigits(last)
	switch {
	case !okA || !okB || first != "" && last != "" && lessDigits(last, first):
		return 0, size, true
	case first == "": // the last b bytes
		b = min(b, size)
		return size - b, b, false
	case a >= size:
		return 0, 0, false
	case last == "" || b >= size:
		b = size - 1
	}
	return a, b - a + 1, false
}

// parseDigits returns the value of a string of digits, at most maxDigits, which is more than
// any body has bytes. No digits are 0.
func parseDigits(s string) (n int64, ok bool) {
	const maxDigits = 1 << 40
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = min(10*n+int64(s[i]-'0'), maxDigits)
	}
	return n, true
}

// lessDigits reports whether the value of a is less than that of b, which are digits.
func lessDigits(a, b string) bool {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) < 0
}
