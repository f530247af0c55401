package envelope

import (
	"slices"
	"strings"

	"github.com/watermill-envelope/envelope/internal/jsonscan"
)

// appendHeaders appends the headers as a JSON object, by the rules for headers that we
// write: names become lower case, never-forwarded ones and ours are left out, values of a
// repeated name are joined (see [ForwardHeaders]; there are no caps here). It reports false
// when a name or a value is not UTF-8. It allocates only when there is something to change,
// or there are many.
func appendHeaders(dst []byte, headers []Header, escapeNoncharacters bool) ([]byte, bool) {
	valid := true
	dst = append(dst, '{')
	if cleanHeaders(headers) {
		for i, h := range headers {
			var validName, validValue bool
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, '"')
			dst, validName = appendStringPart(dst, h.Name, escapeNoncharacters)
			dst = append(dst, `":"`...)
			dst, validValue = appendStringPart(dst, h.Value, escapeNoncharacters)
			dst = append(dst, '"')
			valid = valid && validName && validValue
		}
		return append(dst, '}'), valid
	}
	groups, next := groupHeaders(headers, ForwardOptions{})
	for i, g := range groups {
		if i > 0 {
			dst = append(dst, ',')
		}
		var ok bool
		dst, ok = appendString(dst, g.name, escapeNoncharacters)
		valid = valid && ok
		dst = append(dst, `:"`...)
		for j := g.first; ; j = next[j] {
			dst, ok = appendStringPart(dst, headers[j].Value, escapeNoncharacters)
			valid = valid && ok
			if j == g.last {
				break
			}
			dst = append(dst, ", "...)
		}
		dst = append(dst, '"')
	}
	return append(dst, '}'), valid
}

// cleanHeaders reports whether the headers are what ForwardHeaders makes of them, so that
// there is nothing to do. Of many headers it does not find out.
func cleanHeaders(headers []Header) bool {
	if len(headers) > indexFrom {
		return false
	}
	var names nameSet
	for i, h := range headers {
		if anyUpper(h.Name) || neverForwarded(h.Name) || names.add(headers[:i], h.Name) >= 0 {
			return false
		}
	}
	return true
}

// anyUpper reports whether s has upper-case ASCII letters.
func anyUpper(s string) bool {
	if len(s) < 8 {
		return hasUpper(s)
	}
	var found uint64
	for i := 0; i <= len(s)-8; i += 8 {
		found |= uppers(jsonscan.Load64(s, i))
	}
	return found|uppers(jsonscan.Load64(s, len(s)-8)) != 0
}

// uppers returns a number that has the high bit of each byte of x that is A to Z.
func uppers(x uint64) uint64 {
	low := x &^ jsonscan.Highs
	return (low + (0x80-'A')*jsonscan.Ones) &^ (low + (0x80-'Z'-1)*jsonscan.Ones) &^ x & jsonscan.Highs
}

// A nameSet finds repeated names among up to indexFrom headers, by hashes that are compared
// first. Names that share one cost no more than a comparison.
type nameSet struct {
	hashes [indexFrom]uint64
	seen   uint64 // bit h/2^58 of every hash h
}

// add adds the name that follows headers, all of which were added, unless one of them has
// it: then it returns the index of that one. Otherwise it returns -1.
func (n *nameSet) add(headers []Header, name string) int {
	hash := hashName(name)
	bit := uint64(1) << (hash >> 58)
	if n.seen&bit != 0 {
		for i, h := range n.hashes[:len(headers)] {
			if h == hash && headers[i].Name == name {
				return i
			}
		}
	}
	n.seen |= bit
	n.hashes[len(headers)] = hash
	return -1
}

// hashName returns a number that is seldom the same for two names of headers.
func hashName(s string) uint64 {
	const k = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	var first, last uint64
	if n := len(s); n >= 8 {
		first, last = jsonscan.Load64(s, 0), jsonscan.Load64(s, n-8)
	} else {
		for i := range n {
			first = first<<8 | uint64(s[i])
		}
	}
	return ((first^uint64(len(s)))*k ^ last) * k
}

// lastValues leaves one header of each name: the first, with the value of the last.
func lastValues(headers []Header) []Header {
	if len(headers) <= indexFrom {
		var names nameSet
		kept := 0
		for i, h := range headers {
			if first := names.add(headers[:kept], h.Name); first >= 0 {
				headers[first].Value = h.Value
				continue
			}
			if kept < i {
				headers[kept] = h
			}
			kept++
		}
		return headers[:kept]
	}
	// The headers by name, those of one name in their order: a walk over the names would be
	// quadratic, and a map would take more memory than the headers.
	order := make([]int32, len(headers))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return strings.Compare(headers[a].Name, headers[b].Name)
	})
	repeats := order[:0] // written behind where order is read
	for i := 0; i < len(order); {
		first := &headers[order[i]]
		for i++; i < len(order) && headers[order[i]].Name == first.Name; i++ {
			first.Value = headers[order[i]].Value
			repeats = append(repeats, order[i])
		}
	}
	slices.Sort(repeats)
	kept := headers[:0]
	for i, h := range headers {
		if len(repeats) > 0 && repeats[0] == int32(i) {
			repeats = repeats[1:]
			continue
		}
		kept = append(kept, h)
	}
	return kept
}

// appendMetadata appends the entries that are user metadata beside that trace context as a
// JSON object, sorted by name. It reports false when a name or a value is not UTF-8.
func appendMetadata(dst []byte, metadata map[string]string, traceparent, tracestate string, escapeNoncharacters bool) ([]byte, bool) {
	var room [16]string
	names := room[:0]
	for name, value := range metadata {
		if isUserMetadata(traceparent, tracestate, name, value) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	valid := true
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		var ok bool
		dst, ok = appendString(dst, name, escapeNoncharacters)
		valid = valid && ok
		dst = append(dst, ':')
		dst, ok = appendString(dst, metadata[name], escapeNoncharacters)
		valid = valid && ok
	}
	return append(dst, '}'), valid
}

// isUserMetadata reports whether an entry of watermill_metadata is metadata, beside the
// message's own traceparent and tracestate. Of the reserved names only a traceparent or a
// tracestate is that is no trace context, where the field of the same name is null: user
// metadata of that name is carried so. A valid one would be a trace context that the message
// does not have.
func isUserMetadata(traceparent, tracestate, name, value string) bool {
	switch name {
	case MetadataTraceparent:
		return traceparent == "" && value != "" && !ValidTraceparent(value)
	case MetadataTracestate:
		return tracestate == "" && value != "" && !ValidTraceparent(traceparent)
	}
	return !IsReserved(name)
}
