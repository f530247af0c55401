package envelope

import "strconv"

// parseInteger returns the number that s, a JSON number, writes as a plain integer: without
// fraction and exponent, not -0, of 64 bits.
func parseInteger(s string) (n int64, ok bool) {
	if len(s) > len("-9223372036854775808") || s == "-0" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
