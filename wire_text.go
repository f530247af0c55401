package envelope

import (
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/watermill-envelope/envelope/internal/jsonscan"
)

// view returns the bytes of b as a string without a copy. It must not be used after b is
// written to; what outlives the caller's b is copied.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// appendString appends s as a JSON string, escaping '"', '\', control characters, and
// U+FFFE and U+FFFF when asked to. It reports false, having appended nothing of use, when s
// is not UTF-8.
func appendString(dst []byte, s string, escapeNoncharacters bool) ([]byte, bool) {
	dst = append(dst, '"')
	dst, ok := appendStringPart(dst, s, escapeNoncharacters)
	return append(dst, '"'), ok
}

// appendStringPart is appendString without the quotes.
func appendStringPart(dst []byte, s string, escapeNoncharacters bool) ([]byte, bool) {
	const hex = "0123456789abcdef"
	for {
		n, ascii := jsonscan.PlainPrefix(s)
		if !ascii && !utf8.ValidString(s[:n]) {
			return dst, false
		}
		if ascii || !escapeNoncharacters {
			dst = append(dst, s[:n]...)
		} else {
			dst = appendText(dst, s[:n], true)
		}
		if n == len(s) {
			return dst, true
		}
		switch c := s[n]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		s = s[n+1:]
	}
}

// stringLen returns the length that appendString appends for a UTF-8 string.
func stringLen(s string, escapeNoncharacters bool) int {
	return len(`""`) + stringPartLen(s, escapeNoncharacters)
}

// stringPartLen is stringLen without the quotes.
func stringPartLen(s string, escapeNoncharacters bool) int {
	size := 0
	for {
		n, ascii := jsonscan.PlainPrefix(s)
		if ascii || !escapeNoncharacters {
			size += n
		} else {
			size += textLen(s[:n], true)
		}
		if n == len(s) {
			return size
		}
		switch s[n] {
		case '"', '\\', '\b', '\f', '\n', '\r', '\t':
			size += len(`\n`)
		default:
			size += len(`\u0000`)
		}
		s = s[n+1:]
	}
}

// noncharacterByte is the first byte of U+FFFE and U+FFFF in UTF-8.
const noncharacterByte = 0xef

// noncharacter reports whether the character at s[i], which begins with that byte, is one of
// the two.
func noncharacter(s string, i int) bool {
	return len(s)-i >= 3 && s[i+1] == 0xbf && s[i+2] >= 0xbe
}

// appendText appends JSON text, escaping U+FFFE and U+FFFF when asked to: they can only be
// inside strings. Everything else stays as it is.
func appendText(dst []byte, text string, escapeNoncharacters bool) []byte {
	if !escapeNoncharacters {
		return append(dst, text...)
	}
	for {
		i := strings.IndexByte(text, noncharacterByte)
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:i]...)
		if noncharacter(text, i) {
			dst = append(dst, `\uff`...)
			dst = append(dst, 'f', "ef"[text[i+2]-0xbe])
			text = text[i+3:]
		} else {
			dst = append(dst, noncharacterByte)
			text = text[i+1:]
		}
	}
}

// textLen returns the length that appendText appends.
func textLen(text string, escapeNoncharacters bool) int {
	size := len(text)
	if escapeNoncharacters {
		for {
			i := strings.IndexByte(text, noncharacterByte)
			if i < 0 {
				break
			}
			if noncharacter(text, i) {
				size += len(`\uffff`) - len("\uffff")
			}
			text = text[i+1:]
		}
	}
	return size
}

// A rawString is what stands between the quotes of a well-formed JSON string.
type rawString struct {
	text    string
	escaped bool // there is a '\' in text
}

// String returns the text without escapes. It allocates only where there are any; otherwise
// the result is part of the text that was iterated over.
func (r rawString) String() string {
	if !r.escaped {
		return r.text
	}
	return view(r.append(make([]byte, 0, r.len())))
}

// append appends the text without escapes.
func (r rawString) append(dst []byte) []byte {
	s := r.text
	if !r.escaped {
		return append(dst, s...)
	}
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		c, size := unescape(s[i:])
		dst = utf8.AppendRune(dst, c)
		s = s[i+size:]
	}
}

// len is the length of String.
func (r rawString) len() int {
	n := len(r.text)
	if !r.escaped {
		return n
	}
	s := r.text
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			return n
		}
		c, size := unescape(s[i:])
		n += utf8.RuneLen(c) - size
		s = s[i+size:]
	}
}

// unescape returns the character of the well-formed escape sequence at the start of s, and
// the length of the sequence.
func unescape(s string) (c rune, size int) {
	switch s[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		c = jsonscan.Hex4(s, 2)
		if c < 0xd800 || 0xe000 <= c {
			return c, 6
		}
		return (c-0xd800)<<10 | (jsonscan.Hex4(s, 8) - 0xdc00) + 0x10000, 12
	}
	return rune(s[1]), 2 // '"', '\' and '/' stand for themselves
}

// longestName is the length of the longest name that an escaped name is compared with.
const longestName = len("watermill_metadata")

// is reports whether r is name, which has at most longestName bytes.
func (r rawString) is(name string) bool {
	var room [longestName * len(`\u0000`)]byte
	return !r.escaped && r.text == name ||
		r.escaped && len(r.text) <= len(room) && string(r.append(room[:0])) == name
}

// member returns the member with that name.
func (r rawString) member() int {
	if !r.escaped {
		return memberOf(r.text)
	}
	var room [longestName * len(`\u0000`)]byte
	if len(r.text) > len(room) {
		return memberUnknown
	}
	return memberOf(string(r.append(room[:0])))
}
