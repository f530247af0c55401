package envelope

import "github.com/emmansun/base64"

// Bodies are standard base64 with padding, and only the canonical text of some bytes is
// read: no line breaks, no bits set behind the last byte. The package used here is
// encoding/base64 with vector instructions; the two have the same methods.

var strictBase64 = base64.StdEncoding.Strict()

// base64Len is the length of n bytes in base64.
func base64Len(n int64) int64 { return (n + 2) / 3 * 4 }

// appendBase64 appends src in base64.
func appendBase64(dst, src []byte) []byte { return base64.StdEncoding.AppendEncode(dst, src) }

// decodedLen returns how many bytes are in size characters of base64 that end in the given
// number of '=', when there are any such texts.
func decodedLen(size, padding int) (n int, ok bool) {
	return size/4*3 - padding, size%4 == 0 && padding <= 2 && (size > 0 || padding == 0)
}

// trailingPadding counts the '=' at the end of text.
func trailingPadding(text string) int {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '=' {
		n++
	}
	return n
}

// decodeBase64 fills dst with the bytes of src, when src is the canonical text of exactly
// len(dst) bytes. (The decoder skips line breaks, so that with one there are fewer.)
func decodeBase64(dst, src []byte) bool {
	n, err := strictBase64.Decode(dst, src)
	return err == nil && n == len(dst)
}

// decodedRawLen is decodedLen of the text of a JSON string.
func decodedRawLen(r rawString) (n int, ok bool) {
	if !r.escaped {
		return decodedLen(len(r.text), trailingPadding(r.text))
	}
	size, padding := 0, 0
	for s := r.text; s != ""; size++ {
		c, width := rune(s[0]), 1
		if c == '\\' {
			c, width = unescape(s)
		}
		if c == '=' {
			padding++
		} else {
			padding = 0
		}
		s = s[width:]
	}
	return decodedLen(size, padding)
}

// decodeRawBase64 is decodeBase64 of the text of a JSON string, src being its bytes. Text
// with escapes is unescaped piece by piece, never as a whole.
func decodeRawBase64(dst, src []byte, escaped bool) bool {
	if !escaped {
		return decodeBase64(dst, src)
	}
	var room [4096]byte
	piece := room[:0]
	for s := view(src); s != ""; {
		c, width := rune(s[0]), 1
		if c == '\\' {
			c, width = unescape(s)
		}
		if c >= 0x80 {
			return false
		}
		piece = append(piece, byte(c))
		s = s[width:]
		if len(piece) < len(room) && s != "" {
			continue
		}
		n := len(piece) / 4 * 3
		if s == "" {
			n = len(dst)
		}
		if n > len(dst) || !decodeBase64(dst[:n], piece) {
			return false
		}
		dst, piece = dst[n:], room[:0]
	}
	return len(dst) == 0
}
