package envelope

import (
	"strings"
	"unicode/utf8"
	"unsafe"
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
		n, ascii := plainPrefix(s)
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
		n, ascii := plainPrefix(s)
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

// nonEscape is the first byte of U+FFFE and U+FFFF in UTF-8; noncharacter tells them from
// the other characters that start with it.
const nonEscape = 0xef

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
		i := strings.IndexByte(text, nonEscape)
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:i]...)
		if noncharacter(text, i) {
			dst = append(dst, `\uff`...)
			dst = append(dst, 'f', "ef"[text[i+2]-0xbe])
			text = text[i+3:]
		} else {
			dst = append(dst, nonEscape)
			text = text[i+1:]
		}
	}
}

// textLen returns the length that appendText appends.
func textLen(text string, escapeNoncharacters bool) int {
	size := len(text)
	if escapeNoncharacters {
		for {
			i := strings.IndexByte(text, nonEscape)
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
		c = hex4(s, 2)
		if c < 0xd800 || 0xe000 <= c {
			return c, 6
		}
		return (c-0xd800)<<10 | (hex4(s, 8) - 0xdc00) + 0x10000, 12
	}
	return rune(s[1]), 2 // '"', '\' and '/' stand for themselves
}

// A members iterates over the members of a JSON object without allocating:
//
//	for m := iterate(text); m.next(); {
//		use(m.name, m.value)
//	}
//
// The text must be a well-formed JSON object, one that validObject, validStrings or parse
// has passed (see there), or the empty string, which has no members. Repeated names come as
// often as they are there.
type members struct {
	text string
	i    int

	name     rawString
	value    string    // the text of the value, with its quotes where it is a string
	str      rawString // the value, where it is a string
	isString bool
	start    int // where the member begins in the text; it ends before i
}

func iterate(text string) members {
	i := skipSpace(text, 0)
	return members{text: text, i: i + 1}
}

func (m *members) next() bool {
	s := m.text
	i := skipSpace(s, m.i)
	if i < len(s) && s[i] == ',' {
		i = skipSpace(s, i+1)
	}
	if i >= len(s) || s[i] != '"' {
		return false
	}
	m.start = i
	i, escaped := scanString(s, i)
	m.name = rawString{s[m.start+1 : i-1], escaped}
	from := scanColon(s, i)
	if m.isString = s[from] == '"'; m.isString {
		i, escaped = scanString(s, from)
		m.str = rawString{s[from+1 : i-1], escaped}
	} else {
		i = scanValue(s, from, 1)
		m.str = rawString{}
	}
	m.value, m.i = s[from:i], i
	return true
}

// validObject reports whether text is exactly one JSON object, well formed as section
// "reading" of the wire format says: UTF-8, no half surrogate pairs, no number beyond a
// double, at most maxDepth levels. There may be space around it.
func validObject(text string) bool {
	i := skipSpace(text, 0)
	return i < len(text) && text[i] == '{' && scanText(text) >= 0
}

// validStrings reports whether text is exactly one JSON object all of whose values are
// strings: the text of headers, or of watermill_metadata. It is one pass over the text.
func validStrings(text string) bool {
	i := skipSpace(text, 0)
	if i == len(text) || text[i] != '{' {
		return false
	}
	i = skipSpace(text, i+1)
	if i < len(text) && text[i] == '}' {
		return scanEnd(text, i+1) >= 0
	}
	for {
		if i = scanName(text, i); i < 0 || i == len(text) || text[i] != '"' {
			return false
		}
		if i, _ = scanString(text, i); i < 0 {
			return false
		}
		if i = skipSpace(text, i); i == len(text) {
			return false
		}
		if text[i] == '}' {
			return scanEnd(text, i+1) >= 0
		}
		if text[i] != ',' {
			return false
		}
		i = skipSpace(text, i+1)
	}
}

// lastStrings reports whether the last value of each name in an object is a string.
func lastStrings(text string) bool {
	var others map[string]struct{} // the names whose last value so far is no string
	for m := iterate(text); m.next(); {
		if m.isString && len(others) == 0 {
			continue
		}
		name := m.name.text
		if m.name.escaped {
			name = string(m.name.append(nil))
		}
		if m.isString {
			delete(others, name)
			continue
		}
		if others == nil {
			others = make(map[string]struct{})
		}
		others[name] = struct{}{}
	}
	return len(others) == 0
}

// validUnknown reports whether text is exactly one JSON object that has no member which is
// known: the text of unknown members, which cannot replace a known one.
func validUnknown(text string) bool {
	if !validObject(text) {
		return false
	}
	for m := iterate(text); m.next(); {
		if m.name.member() != memberUnknown {
			return false
		}
	}
	return true
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

// objectInside returns what is between the braces of a JSON object, without space at its
// ends: "" when it has no members, or text is "".
func objectInside(text string) string {
	const space = " \n\r\t"
	text = strings.Trim(text, space)
	if text == "" {
		return ""
	}
	return strings.Trim(text[1:len(text)-1], space)
}
