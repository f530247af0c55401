package envelope

import (
	"strings"

	"github.com/watermill-envelope/envelope/internal/jsonscan"
)

// refTenant returns the tenant of a claim reference, when ref is one:
//
//	urn:ankusa:claim:v1:<tenant>:<claim id>
//	urn:ankusa:claim:v2:<tenant>:<claim id>:<expiry>:<signature>
//
// The tenant is 1 to 64 characters of A-Z a-z 0-9 _ and -. The claim id is a ULID, 26
// characters of upper-case Crockford base32 of which the first is at most 7. The expiry is 1
// to 12 digits, the first not 0. The signature is 43 characters of A-Z a-z 0-9 _ and -.
func refTenant(ref string) (tenant string, ok bool) {
	signed := false
	rest, ok := strings.CutPrefix(ref, "urn:ankusa:claim:v1:")
	if !ok {
		if rest, ok = strings.CutPrefix(ref, "urn:ankusa:claim:v2:"); !ok {
			return "", false
		}
		signed = true
	}
	tenant, rest, _ = strings.Cut(rest, ":")
	if len(tenant) > 64 || !refWord(tenant) {
		return "", false
	}
	id, rest, more := strings.Cut(rest, ":")
	if len(id) != 26 || id[0] > '7' || more != signed {
		return "", false
	}
	for i := range len(id) {
		if !crockford(id[i]) {
			return "", false
		}
	}
	if signed {
		expiry, signature, _ := strings.Cut(rest, ":")
		if len(expiry) == 0 || len(expiry) > 12 || expiry[0] == '0' || jsonscan.SkipDigits(expiry, 0) != len(expiry) ||
			len(signature) != 43 || !refWord(signature) {
			return "", false
		}
	}
	return tenant, true
}

// maxRef is the length of the longest reference.
const maxRef = len("urn:ankusa:claim:v2:") + 64 + 1 + 26 + 1 + 12 + 1 + 43

// refWord reports whether s is not empty and made of A-Z a-z 0-9 _ and - only.
func refWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}

// crockford reports whether c is a digit of upper-case Crockford base32, which has no I, L,
// O and U.
func crockford(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' && c != 'I' && c != 'L' && c != 'O' && c != 'U'
}

// validDigest reports whether s is a sha256 digest as it is written: 64 lower-case hex digits.
func validDigest(s string) bool { return len(s) == 64 && lowerHex(s) }
