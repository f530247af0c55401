package envelope

import (
	"crypto/sha256"
	"strings"

	"github.com/watermill-envelope/envelope/internal/jsonscan"
)

// A parser walks over a wire form once and knows where its members are.
type parser struct {
	text    string
	members [memberCount]value // the last one of each name

	// The runs of unknown members: text that can be copied as it is. When there are more
	// than fit, the text is walked over again.
	unknown     [4]span
	unknownRuns int
	unknownLen  int // of the runs, with a comma behind each

	// trusted is set while the end of the text of body_base64 is a guess: the next quote.
	// The guess was right if the text is base64, which has no '\' before a quote.
	trusted bool
	spare   []byte // memory for a body, of an attempt that failed

	// What is in headers and watermill_metadata, where those are objects.
	headers, metadata object
	pairs             [inlineHeaders]pair // the headers, when there are not more

	// What the checks have found.
	receivedAt, size int64
	status           rawString
	flagged          bool
	digest           [2 * sha256.Size]byte // as text
}

// A span is a part of the text.
type span struct{ start, end int }

// A value is a member's value. The span of a string is what is between the quotes.
type value struct {
	span
	kind    byte // the first byte of its text, or 0 when there is none
	escaped bool
}

// raw returns the text of a member: of a string what is between the quotes.
func (p *parser) raw(member int) rawString {
	v := p.members[member]
	return rawString{p.text[v.start:v.end], v.escaped}
}

// read walks over data, does all the checks, and returns the body: in the spare room of dst
// or in new memory, nil for a claim.
func (p *parser) read(dst, data []byte) ([]byte, error) {
	p.text = view(data)
	body, err := p.check(dst, data, true)
	if err != nil && p.trusted {
		*p = parser{text: p.text, spare: p.spare}
		body, err = p.check(dst, data, false)
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

// maxGuess is the length of the text of 64 KiB in base64. For a longer one, memory for the
// body is not got on a guess that a '\' in it shows to be wrong.
const maxGuess = 64<<10/3*4 + 4

// scan walks over the text and finds its members. With trust it takes the next quote for
// the end of a body; a caller that finds anything wrong with the message scans again
// without.
func (p *parser) scan(trust bool) int {
	s := p.text
	i := jsonscan.SkipSpace(s, 0)
	if i == len(s) || s[i] != '{' {
		return jsonscan.Text(s)
	}
	i = jsonscan.SkipSpace(s, i+1)
	if i < len(s) && s[i] == '}' {
		return jsonscan.End(s, i+1)
	}
	next := 0 // the member that probably comes next, as we write them
	for {
		start, member := i, next
		if strings.HasPrefix(s[i:], quotedNames[member]) {
			i = jsonscan.SkipSpace(s, i+len(quotedNames[member]))
		} else {
			if i == len(s) || s[i] != '"' {
				return ^i
			}
			var escaped bool
			if i, escaped = jsonscan.String(s, i); i < 0 {
				return i
			}
			member = rawString{s[start+1 : i-1], escaped}.member()
			if i = jsonscan.Colon(s, i); i < 0 {
				return i
			}
		}
		if i == len(s) {
			return ^i
		}
		v := value{span: span{i, i}, kind: s[i]}
		switch {
		case v.kind == '{' && member == memberHeaders:
			i, p.headers = scanStrings(s, i, p.pairs[:])
			v.end = i
		case v.kind == '{' && member == memberMetadata:
			i, p.metadata = scanStrings(s, i, nil)
			v.end = i
		case v.kind != '"':
			i = jsonscan.Value(s, i, 1)
			v.end = i
		case member == memberBody && trust:
			n := strings.IndexByte(s[i+1:], '"')
			if n < 0 || p.trusted || n > maxGuess && strings.IndexByte(s[i+1:i+1+n], '\\') >= 0 {
				p.trusted = true
				return ^len(s)
			}
			p.trusted = true
			v.start, v.end = i+1, i+1+n
			i = v.end + 1
		default:
			i, v.escaped = jsonscan.String(s, i)
			v.start, v.end = v.start+1, i-1
		}
		if i < 0 {
			return i
		}
		if member == memberUnknown {
			p.addUnknown(span{start, i})
		} else {
			p.members[member] = v
			next = (member + 1) % memberCount
		}
		i = jsonscan.SkipSpace(s, i)
		switch {
		case i < len(s) && s[i] == ',':
			i = jsonscan.SkipSpace(s, i+1)
		case i < len(s) && s[i] == '}':
			return jsonscan.End(s, i+1)
		default:
			return ^i
		}
	}
}

// addUnknown notes an unknown member, as a part of the run before it when there is nothing
// but a comma between them.
func (p *parser) addUnknown(s span) {
	if n := p.unknownRuns; 0 < n && n <= len(p.unknown) && p.unknown[n-1].end+1 == s.start {
		p.unknown[n-1].end = s.end
		p.unknownLen += len(`,`) + s.end - s.start
		return
	}
	if p.unknownRuns < len(p.unknown) {
		p.unknown[p.unknownRuns] = s
	}
	p.unknownRuns++
	p.unknownLen += s.end - s.start + len(`,`)
}

// unknownTextLen is the length of what appendUnknown appends.
func (p *parser) unknownTextLen() int {
	if p.unknownRuns == 0 {
		return 0
	}
	return p.unknownLen + len(`{}`) - len(`,`)
}

// appendUnknown appends the unknown members as a JSON object.
func (p *parser) appendUnknown(dst []byte) []byte {
	dst = append(dst, '{')
	if p.unknownRuns <= len(p.unknown) {
		for _, run := range p.unknown[:p.unknownRuns] {
			dst = append(dst, p.text[run.start:run.end]...)
			dst = append(dst, ',')
		}
	} else {
		for it := iterate(p.text); it.next(); {
			if it.name.member() == memberUnknown {
				dst = append(dst, p.text[it.start:it.i]...)
				dst = append(dst, ',')
			}
		}
	}
	dst[len(dst)-1] = '}'
	return dst
}

// stringsLen is the length of the members that are copied as strings, with verification's
// status.
func (p *parser) stringsLen() int {
	n := p.status.len()
	for _, member := range [...]int{
		memberID, memberSourceID, memberTenantID, memberContentType, memberDedupeKey, memberReplayID,
		memberIdempotencyKey, memberTraceparent, memberTracestate, memberInstance, memberRegion,
		memberOrderingKey, memberSHA256, memberClaim,
	} {
		if p.members[member].kind == '"' {
			n += p.raw(member).len()
		}
	}
	return n
}

// string returns a copy of a member that is a string, "" of one that is not.
func (p *parser) string(a *arena, member int) string {
	if p.members[member].kind != '"' {
		return ""
	}
	return a.string(p.raw(member))
}

// objectText returns the text of headers or watermill_metadata: "" when there are no strings
// in it. Other values in it are replaced by later ones, and count as if they were not there.
func (p *parser) objectText(member int) string {
	o := &p.headers
	if member == memberMetadata {
		o = &p.metadata
	}
	if p.members[member].kind != '{' || o.count == 0 {
		return ""
	}
	return p.raw(member).text
}

// An arena is memory for strings that are made together. It must not grow: its capacity is
// all that it will hold.
type arena []byte

func (a *arena) text(s string) string {
	start := len(*a)
	*a = append(*a, s...)
	return view((*a)[start:])
}

func (a *arena) string(r rawString) string {
	start := len(*a)
	*a = r.append(*a)
	return view((*a)[start:])
}

// object is the text of an object, without the members that are no strings when there are others.
func (a *arena) object(text string, others bool) string {
	if !others || text == "" {
		return a.text(text)
	}
	start := len(*a)
	*a = append(*a, '{')
	for m := iterate(text); m.next(); {
		if !m.isString {
			continue
		}
		if len(*a) > start+1 {
			*a = append(*a, ',')
		}
		*a = append(*a, text[m.start:m.i]...)
	}
	*a = append(*a, '}')
	return view((*a)[start:])
}
