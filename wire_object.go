package envelope

import (
	"strings"

	"github.com/watermill-envelope/envelope/internal/jsonscan"
)

// An object is what is known of an object that was walked over and should be of strings.
type object struct {
	others bool // some values are no strings; what follows is about those that are
	count  int  // of members
	size   int  // of names and values, without escapes
}

// A pair is a name and a string value, where they stand between their quotes.
type pair struct {
	name, value               span
	nameEscaped, valueEscaped bool
}

func (p pair) nameIn(s string) rawString { return rawString{s[p.name.start:p.name.end], p.nameEscaped} }

func (p pair) valueIn(s string) rawString {
	return rawString{s[p.value.start:p.value.end], p.valueEscaped}
}

// scanStrings walks over the object that starts at s[i], a member of the message. The first
// strings go to pairs, while there is room.
func scanStrings(s string, i int, pairs []pair) (end int, o object) {
	if i = jsonscan.SkipSpace(s, i+1); i < len(s) && s[i] == '}' {
		return i + 1, o
	}
	for {
		if i == len(s) || s[i] != '"' {
			return ^i, o
		}
		var p pair
		p.name.start = i + 1
		if i, p.nameEscaped = jsonscan.String(s, i); i < 0 {
			return i, o
		}
		p.name.end = i - 1
		if i = jsonscan.Colon(s, i); i < 0 {
			return i, o
		}
		if i < len(s) && s[i] == '"' {
			p.value.start = i + 1
			if i, p.valueEscaped = jsonscan.String(s, i); i < 0 {
				return i, o
			}
			p.value.end = i - 1
			if o.count < len(pairs) {
				pairs[o.count] = p
			}
			o.count++
			o.size += p.nameIn(s).len() + p.valueIn(s).len()
		} else {
			o.others = true
			if i = jsonscan.Value(s, i, 2); i < 0 {
				return i, o
			}
		}
		i = jsonscan.SkipSpace(s, i)
		switch {
		case i < len(s) && s[i] == ',':
			i = jsonscan.SkipSpace(s, i+1)
		case i < len(s) && s[i] == '}':
			return i + 1, o
		default:
			return ^i, o
		}
	}
}

// A members iterates over the members of a JSON object without allocating:
//
//	for m := iterate(text); m.next(); {
//		use(m.name, m.value)
//	}
//
// The text must be a well-formed JSON object, which validObject, validStrings or parse has
// passed, or the empty string, which has no members. A repeated name comes as often as it is
// there. What it returns is part of the text.
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
	i := jsonscan.SkipSpace(text, 0)
	return members{text: text, i: i + 1}
}

func (m *members) next() bool {
	s := m.text
	i := jsonscan.SkipSpace(s, m.i)
	if i < len(s) && s[i] == ',' {
		i = jsonscan.SkipSpace(s, i+1)
	}
	if i >= len(s) || s[i] != '"' {
		return false
	}
	m.start = i
	i, escaped := jsonscan.String(s, i)
	m.name = rawString{s[m.start+1 : i-1], escaped}
	from := jsonscan.Colon(s, i)
	if m.isString = s[from] == '"'; m.isString {
		i, escaped = jsonscan.String(s, from)
		m.str = rawString{s[from+1 : i-1], escaped}
	} else {
		i = jsonscan.Value(s, from, 1)
		m.str = rawString{}
	}
	m.value, m.i = s[from:i], i
	return true
}

// validObject reports whether text is exactly one JSON object, well formed as a message has
// to be: UTF-8, no half surrogate pairs, no number beyond a double, at most jsonscan.MaxDepth
// levels. There may be space around it.
func validObject(text string) bool {
	i := jsonscan.SkipSpace(text, 0)
	return i < len(text) && text[i] == '{' && jsonscan.Text(text) >= 0
}

// validStrings reports whether text is exactly one JSON object, as validObject has it, all of
// whose values are strings: the text of headers, or of watermill_metadata.
func validStrings(text string) bool {
	i := jsonscan.SkipSpace(text, 0)
	if i == len(text) || text[i] != '{' {
		return false
	}
	if i = jsonscan.SkipSpace(text, i+1); i < len(text) && text[i] == '}' {
		return jsonscan.End(text, i+1) >= 0
	}
	for {
		if i == len(text) || text[i] != '"' {
			return false
		}
		if i, _ = jsonscan.String(text, i); i < 0 {
			return false
		}
		if i = jsonscan.Colon(text, i); i < 0 || i == len(text) || text[i] != '"' {
			return false
		}
		if i, _ = jsonscan.String(text, i); i < 0 {
			return false
		}
		if i = jsonscan.SkipSpace(text, i); i == len(text) {
			return false
		}
		switch text[i] {
		case ',':
			i = jsonscan.SkipSpace(text, i+1)
		case '}':
			return jsonscan.End(text, i+1) >= 0
		default:
			return false
		}
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

// measure counts the strings in an object, and the length of their names and values.
func measure(text string) (count, size int) {
	for it := iterate(text); it.next(); {
		if it.isString {
			count++
			size += it.name.len() + it.str.len()
		}
	}
	return count, size
}
