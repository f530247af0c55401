package envelope

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The caps of ForwardOptions when it has none.
const (
	DefaultMaxHeaders     = 64
	DefaultMaxHeaderBytes = 16384
)

// ForwardMode says which provider headers are forwarded.
type ForwardMode int

// The modes of forwarding.
const (
	ForwardAll       ForwardMode = iota // all but the never-forwarded
	ForwardAllowList                    // those in ForwardOptions.Allow, but never the never-forwarded
	ForwardNone
)

// ForwardOptions are the rules of [ForwardHeaders]. The zero value forwards all headers
// within the default caps.
type ForwardOptions struct {
	Mode ForwardMode
	// Allow are the only names that are forwarded when Mode is ForwardAllowList, in any
	// letter case.
	Allow []string
	// Never are names, in any letter case, that are not forwarded either. The built-in
	// ones cannot be taken back: see [ForwardHeaders].
	Never []string
	// MaxHeaders is how many names are kept at most; 0 is [DefaultMaxHeaders].
	MaxHeaders int
	// MaxHeaderBytes bounds the kept names and values together, in bytes; 0 is
	// [DefaultMaxHeaderBytes].
	MaxHeaderBytes int
}

// Validate reports everything that is wrong with o: an unknown mode, a negative cap, an
// allow-list without the mode that reads it.
func (o ForwardOptions) Validate() error {
	var errs []error
	if o.Mode < ForwardAll || o.Mode > ForwardNone {
		errs = append(errs, fmt.Errorf("envelope: unknown ForwardMode %d", o.Mode))
	}
	if len(o.Allow) > 0 && o.Mode != ForwardAllowList {
		errs = append(errs, errors.New("envelope: ForwardOptions.Allow is set, but Mode is not ForwardAllowList"))
	}
	if o.MaxHeaders < 0 {
		errs = append(errs, fmt.Errorf("envelope: negative ForwardOptions.MaxHeaders %d", o.MaxHeaders))
	}
	if o.MaxHeaderBytes < 0 {
		errs = append(errs, fmt.Errorf("envelope: negative ForwardOptions.MaxHeaderBytes %d", o.MaxHeaderBytes))
	}
	return errors.Join(errs...)
}

// Dropped counts the headers that a cap dropped, each under the one reason that it was
// dropped for. Headers that are not forwarded by rule are in neither.
type Dropped struct {
	Count int // dropped because MaxHeaders were kept already
	Bytes int // dropped because name and value did not fit in what was left of MaxHeaderBytes
}

// neverForwarded reports whether a lower-case header name is ours or never leaves the
// process that received it: credentials, and what belongs to one connection or one body.
func neverForwarded(name string) bool {
	switch name {
	case "authorization", "proxy-authorization", "cookie", "x-api-key",
		"host", "content-length", "content-type",
		"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "expect":
		return true
	}
	return strings.HasPrefix(name, "x-ankusa-")
}

// A headerGroup is the headers of one name: a list by index, in order of arrival.
type headerGroup struct {
	name        string
	first, last int
	size        int // of the joined value
}

// indexFrom is the number of names from which they are looked up in a map: below it, a walk
// is faster, and above it a hostile request would make the walk quadratic.
const indexFrom = 32

// ForwardHeaders applies the rules of forwarding to headers in order of arrival:
//
//  1. Names become lower case (ASCII; other bytes stay as they are).
//  2. These are never forwarded: names that start with x-ankusa-, authorization,
//     proxy-authorization, cookie, x-api-key, host, content-length, content-type,
//     connection, keep-alive, transfer-encoding, te, trailer, upgrade, expect, and those
//     of o.Never. Then the mode decides.
//  3. Values of a repeated name are joined with ", " in order of arrival, at the place
//     where the name came first.
//  4. In that order, a name is kept while fewer than MaxHeaders are kept and its name and
//     joined value fit in what is left of MaxHeaderBytes. Otherwise it is dropped whole and
//     counted, and a later, smaller one may still be kept.
//
// It does not change headers, and takes time linear in their number and size. A negative
// cap is the default one, and an unknown mode forwards nothing.
func ForwardHeaders(headers []Header, o ForwardOptions) (kept []Header, dropped Dropped) {
	if o.Mode != ForwardAll && o.Mode != ForwardAllowList {
		return nil, Dropped{}
	}
	groups, next := groupHeaders(headers, o)
	if len(groups) == 0 {
		return nil, Dropped{}
	}
	most, left := o.MaxHeaders, o.MaxHeaderBytes
	if most <= 0 {
		most = DefaultMaxHeaders
	}
	if left <= 0 {
		left = DefaultMaxHeaderBytes
	}
	kept = make([]Header, 0, min(len(groups), most))
	for _, g := range groups {
		switch {
		case len(kept) == most:
			dropped.Count++
			continue
		case len(g.name)+g.size > left:
			dropped.Bytes++
			continue
		}
		left -= len(g.name) + g.size
		value := headers[g.first].Value
		if g.first != g.last {
			var b strings.Builder
			b.Grow(g.size)
			b.WriteString(value)
			for i := g.first; i != g.last; {
				i = next[i]
				b.WriteString(", ")
				b.WriteString(headers[i].Value)
			}
			value = b.String()
		}
		kept = append(kept, Header{g.name, value})
	}
	return kept, dropped
}

// groupHeaders returns the names that may be forwarded in order of first arrival. In next,
// which is nil when no name is repeated, next[i] is the index of the header that follows
// headers[i] in its group.
func groupHeaders(headers []Header, o ForwardOptions) (groups []headerGroup, next []int) {
	upper := 0
	for _, h := range headers {
		if hasUpper(h.Name) {
			upper += len(h.Name)
		}
	}
	var lower strings.Builder // all names that have upper case, in one allocation
	lower.Grow(upper)
	groups = make([]headerGroup, 0, len(headers))
	var index map[string]int
	for i, h := range headers {
		name := h.Name
		if hasUpper(name) {
			start := lower.Len()
			for j := range len(name) {
				lower.WriteByte(lowerByte(name[j]))
			}
			name = lower.String()[start:]
		}
		if neverForwarded(name) || containsFold(o.Never, name) ||
			o.Mode == ForwardAllowList && !containsFold(o.Allow, name) {
			continue
		}
		var at int
		var found bool
		if index != nil {
			at, found = index[name]
		} else {
			at = slices.IndexFunc(groups, func(g headerGroup) bool { return g.name == name })
			found = at >= 0
		}
		if found {
			if next == nil {
				next = make([]int, len(headers))
			}
			g := &groups[at]
			next[g.last] = i
			g.last = i
			g.size += len(", ") + len(h.Value)
			continue
		}
		if index != nil {
			index[name] = len(groups)
		}
		groups = append(groups, headerGroup{name, i, i, len(h.Value)})
		if index == nil && len(groups) == indexFrom {
			index = make(map[string]int, len(headers))
			for j, g := range groups {
				index[g.name] = j
			}
		}
	}
	return groups, next
}

func hasUpper(s string) bool {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return true
		}
	}
	return false
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// containsFold reports whether names has the lower-case name, in any ASCII letter case.
func containsFold(names []string, lower string) bool {
	for _, n := range names {
		if len(n) == len(lower) && hasPrefixFold(n, lower) {
			return true
		}
	}
	return false
}

// ValidHeader returns an [*Error] that names the header when it is to be refused where
// hooks come in: a name that is empty or has a byte outside 0x21 to 0x7E, or a value with a
// byte outside 0x20 to 0x7E and TAB. The error never has the value in it.
func ValidHeader(name, value string) error {
	for i := range len(name) {
		if name[i] < 0x21 || name[i] > 0x7e {
			return headerError("byte %d of the header name %s is not visible ASCII", i, name)
		}
	}
	if name == "" {
		return &Error{Code: CodeInvalidField, Field: "headers", Err: errors.New("empty header name")}
	}
	for i := range len(value) {
		if c := value[i]; (c < 0x20 || c > 0x7e) && c != '\t' {
			return headerError("byte %d of the value of header %s is not printable ASCII", i, name)
		}
	}
	return nil
}

// headerError quotes at most 64 bytes of a name that the sender chose.
func headerError(format string, at int, name string) error {
	quoted := fmt.Sprintf("%.64q", name)
	return &Error{Code: CodeInvalidField, Field: "headers", Err: fmt.Errorf(format, at, quoted)}
}
