package sqswire

import (
	"strings"
	"unicode/utf8"
)

// isAttribute reports whether SQS takes this name and value as an attribute of the type String.
func isAttribute(name, value string) bool {
	return value != "" && isName(name) && isText(value)
}

// isBody reports whether SQS takes these bytes as a body.
func isBody(raw []byte) bool { return len(raw) > 0 && isText(string(raw)) }

// isText reports whether all characters are among those that SQS takes, which are those of XML
// 1.0: #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF.
func isText(s string) bool {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
				return false
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || r == '\ufffe' || r == '\uffff' {
			return false
		}
		i += n
	}
	return true
}

// isName reports whether SQS takes s as the name of an attribute: up to 256 letters, digits and
// "_", "-" and ".", with no period at its ends or beside another, and no prefix of Amazon's in
// any letter case.
func isName(s string) bool {
	const longest = 256
	if s == "" || len(s) > longest || s[0] == '.' || s[len(s)-1] == '.' || strings.Contains(s, "..") {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
		default:
			return false
		}
	}
	return !hasPrefixFold(s, "aws.") && !hasPrefixFold(s, "amazon.")
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
