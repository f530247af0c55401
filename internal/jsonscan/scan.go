// Package jsonscan walks over JSON text (RFC 8259), stricter than encoding/json: text that is
// not UTF-8, half a surrogate pair, a number beyond the range of a double and nesting deeper
// than [MaxDepth] are malformed. Nothing allocates.
//
// The functions that walk return the index behind what they walked over. When that is malformed
// they return the complement of the index at fault, which is negative.
package jsonscan

import (
	"math/bits"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep objects and arrays may nest, the outermost being the first.
const MaxDepth = 127

// SkipSpace returns the index of the first byte from s[i] on that is no space.
func SkipSpace(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\r' || s[i] == '\t') {
		i++
	}
	return i
}

// Text walks over one JSON text with the space around it.
func Text(s string) int {
	end := Value(s, SkipSpace(s, 0), 0)
	if end < 0 {
		return end
	}
	if end = SkipSpace(s, end); end < len(s) {
		return ^end
	}
	return end
}

// End checks that only space is left.
func End(s string, i int) int {
	if i = SkipSpace(s, i); i < len(s) {
		return ^i
	}
	return i
}

// Value walks over the value that starts at s[i], inside depth objects and arrays.
func Value(s string, i, depth int) int {
	var objects [MaxDepth/64 + 1]uint64 // bit d is set: what is open at depth d is an object
	open := depth
	for {
		if i >= len(s) {
			return ^len(s)
		}
		switch c := s[i]; c {
		case '{', '[':
			if open == MaxDepth {
				return ^i
			}
			open++
			i = SkipSpace(s, i+1)
			isObject := c == '{'
			if i < len(s) && s[i] == c+2 { // the closing bracket
				i++
				open--
				break
			}
			if isObject {
				objects[open/64] |= 1 << (open % 64)
				if i = name(s, i); i < 0 {
					return i
				}
			} else {
				objects[open/64] &^= 1 << (open % 64)
			}
			continue
		case '"':
			if i, _ = String(s, i); i < 0 {
				return i
			}
		case 't':
			i = literal(s, i, "true")
		case 'f':
			i = literal(s, i, "false")
		case 'n':
			i = literal(s, i, "null")
		default:
			i = number(s, i)
		}
		if i < 0 {
			return i
		}

		// A value has ended. What is around it goes on or ends as well.
		for {
			if open == depth {
				return i
			}
			if i = SkipSpace(s, i); i == len(s) {
				return ^i
			}
			isObject := objects[open/64]>>(open%64)&1 == 1
			if s[i] == ',' {
				i = SkipSpace(s, i+1)
				if isObject {
					if i = name(s, i); i < 0 {
						return i
					}
				}
				break
			}
			if isObject && s[i] != '}' || !isObject && s[i] != ']' {
				return ^i
			}
			i++
			open--
		}
	}
}

// name walks over a member name, the colon and the space behind it.
func name(s string, i int) int {
	if i >= len(s) || s[i] != '"' {
		return ^min(i, len(s))
	}
	if i, _ = String(s, i); i < 0 {
		return i
	}
	return Colon(s, i)
}

// Colon walks over the space from s[i] on, a colon, and the space behind it.
func Colon(s string, i int) int {
	if i = SkipSpace(s, i); i == len(s) || s[i] != ':' {
		return ^i
	}
	return SkipSpace(s, i+1)
}

func literal(s string, i int, literal string) int {
	if !strings.HasPrefix(s[i:], literal) {
		return ^i
	}
	return i + len(literal)
}

// String walks over the string whose opening quote is s[i]. It reports whether there are escape
// sequences in it.
func String(s string, i int) (end int, escaped bool) {
	i++
	start := i
	var seen uint64 // all bytes of the string, ored
	for {
		for len(s)-i >= 8 {
			x := Load64(s, i)
			stop := specials(x)
			if stop == 0 {
				seen |= x
				i += 8
				continue
			}
			k := bits.TrailingZeros64(stop) / 8
			seen |= x & (1<<(8*k) - 1)
			i += k
			break
		}
		for i < len(s) && s[i] >= 0x20 && s[i] != '"' && s[i] != '\\' {
			seen |= uint64(s[i])
			i++
		}
		switch {
		case i == len(s):
			return ^i, false
		case s[i] == '"':
			if seen&Highs != 0 && !utf8.ValidString(s[start:i]) {
				return ^(start + invalidUTF8(s[start:i])), false
			}
			return i + 1, escaped
		case s[i] == '\\':
			escaped = true
			if i = escape(s, i); i < 0 {
				return i, false
			}
		default: // a control character
			return ^i, false
		}
	}
}

// escape walks over the escape sequence that starts at s[i], both halves of a
// surrogate pair.
func escape(s string, i int) int {
	if i+1 == len(s) {
		return ^len(s)
	}
	switch s[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		r := Hex4(s, i+2)
		switch {
		case r < 0 || 0xdc00 <= r && r < 0xe000:
			return ^i
		case r < 0xd800 || 0xe000 <= r:
			return i + 6
		}
		if !strings.HasPrefix(s[i+6:], `\u`) {
			return ^i
		}
		if low := Hex4(s, i+8); low < 0xdc00 || 0xe000 <= low {
			return ^i
		}
		return i + 12
	}
	return ^i
}

// Hex4 is the number that the four hex digits at s[i] write, or -1.
func Hex4(s string, i int) rune {
	if len(s)-i < 4 {
		return -1
	}
	var r rune
	for _, c := range []byte(s[i : i+4]) {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return -1
		}
	}
	return r
}

// For work on eight bytes at once.
const (
	Ones  = 0x0101010101010101 // the low bit of each byte
	Highs = 0x80 * Ones        // the high bit of each byte
)

// Load64 returns the eight bytes at s[i], the first as the lowest.
func Load64(s string, i int) uint64 {
	b := s[i : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// specials returns a number that is zero when x has no control character (below 0x20), '"'
// and '\', and whose lowest bit otherwise is the high bit of the first one. (Bits above it say
// nothing: a subtraction borrows from the bytes above.)
func specials(x uint64) uint64 {
	// With its second bit turned over '"' is 0x20, and a control character is still below.
	return ((x ^ 0x02*Ones - 0x21*Ones) | (x ^ '\\'*Ones - Ones)) &^ x & Highs
}

// PlainPrefix returns the length of the longest prefix of s without control characters
// (below 0x20), '"' and '\', and whether that prefix is ASCII.
func PlainPrefix(s string) (n int, ascii bool) {
	var seen uint64 // all bytes of the prefix, ored
	i := 0
	for ; len(s)-i >= 8; i += 8 {
		x := Load64(s, i)
		if stop := specials(x); stop != 0 {
			k := bits.TrailingZeros64(stop) / 8
			seen |= x & (1<<(8*k) - 1)
			return i + k, seen&Highs == 0
		}
		seen |= x
	}
	if i < len(s) && i > 0 {
		// The rest, with some of what is known to be plain before it.
		x := Load64(s, len(s)-8)
		if specials(x) == 0 {
			return len(s), (seen|x)&Highs == 0
		}
	}
	for ; i < len(s); i++ {
		c := s[i]
		if c < 0x20 || c == '"' || c == '\\' {
			break
		}
		seen |= uint64(c)
	}
	return i, seen&Highs == 0
}

// invalidUTF8 returns the index of the first byte of s that is not UTF-8.
func invalidUTF8(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return i
			}
		}
	}
	return len(s)
}
