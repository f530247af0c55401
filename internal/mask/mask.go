// Package mask prints structs without what they hold: the one line that every verb of package
// fmt shows, in two manners.
package mask

import (
	"fmt"
	"strconv"
	"strings"
)

// An Attribute is one field as it is printed.
type Attribute struct {
	Name  string // in a line, and in logs
	Field string // in Go syntax
	Text  string
	Bare  bool // not quoted
}

// Count stands for n things that are not shown: "<6 bytes>".
func Count(name, field string, n int, what string) Attribute {
	return Attribute{name, field, "<" + strconv.Itoa(n) + " " + what + ">", true}
}

// Line is what, and the attributes as name=text.
func Line(what string, attributes []Attribute) string {
	var b strings.Builder
	b.WriteString(what)
	for _, a := range attributes {
		b.WriteByte(' ')
		b.WriteString(a.Name)
		b.WriteByte('=')
		if a.Bare {
			b.WriteString(a.Text)
		} else {
			b.WriteString(quoteIfNeeded(a.Text))
		}
	}
	return b.String()
}

// quoteIfNeeded quotes what would not be one word of a line.
func quoteIfNeeded(s string) string {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '=' || c == '\\' {
			return strconv.Quote(s)
		}
	}
	if s == "" {
		return `""`
	}
	return s
}

// GoLine is a struct of this type with the attributes as its fields.
func GoLine(typeName string, attributes []Attribute) string {
	var b strings.Builder
	b.WriteString(typeName)
	b.WriteByte('{')
	for i, a := range attributes {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(a.Field)
		b.WriteByte(':')
		if a.Bare {
			b.WriteString(a.Text)
		} else {
			b.WriteString(strconv.Quote(a.Text))
		}
	}
	b.WriteByte('}')
	return b.String()
}

// Format prints goString for %#v, text in quotes for %q, and text for every other verb. Width
// and flags other than '#' apply to that text.
func Format(s fmt.State, verb rune, text, goString func() string) {
	switch {
	case verb == 'v' && s.Flag('#'):
		_, _ = fmt.Fprint(s, goString())
	case verb == 'q':
		_, _ = fmt.Fprintf(s, fmt.FormatString(s, 'q'), text())
	default:
		format := fmt.FormatString(s, 's')
		_, _ = fmt.Fprintf(s, format, text())
	}
}
