package natswire

import (
	"strings"

	"github.com/nats-io/nats.go"
)

// How headers are written, and counted by client and server alike: the line, for each header
// its name, ": ", its value and a line end, and a line end.
const (
	headerLine     = "NATS/1.0\r\n"
	lineEnd        = "\r\n"
	headerOverhead = int64(len(": ") + len(lineEnd))
)

// serverPrefix begins the names of headers that are orders to a server, or its remarks.
const serverPrefix = "Nats-"

// native reports whether a header holds this entry as it is.
func native(name, value string) bool {
	return isToken(name) && !isServers(name) && !strings.Contains(name, nats.MsgIdHdr) && carries(name, value)
}

// carries reports whether a header holds this value as it is, and leaves Nats-Msg-Id to be
// found: servers before 2.10 look for the first place where that text is.
func carries(_, value string) bool { return holds(value) && !strings.Contains(value, nats.MsgIdHdr) }

// holds reports whether the client writes this value as it is.
func holds(value string) bool { return !hasLineEnd(value) && !startsBlank(value) && !endsBlank(value) }

func hasLineEnd(s string) bool {
	return strings.IndexByte(s, '\n') >= 0 || strings.IndexByte(s, '\r') >= 0
}

func startsBlank(s string) bool { return s != "" && isBlank(s[0]) }

func endsBlank(s string) bool { return s != "" && isBlank(s[len(s)-1]) }

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// isServers reports whether the name is the server's, in any letter case.
func isServers(name string) bool {
	return len(name) >= len(serverPrefix) && strings.EqualFold(name[:len(serverPrefix)], serverPrefix)
}

// isToken reports whether s is a token of HTTP (RFC 9110, 5.6.2), which is what the client
// takes as a name.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}
