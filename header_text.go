package envelope

import "github.com/watermill-envelope/envelope/internal/jsonscan"

// ForwardHeadersText is [ForwardHeaders] for the text of [MetadataHeaders], which it does not
// parse unless names have to be changed or joined: what is kept is copied as it is, escapes
// and all. Of a name that is there twice in one letter case the last value counts, at the
// first place, as for all who read the text; names that differ in letter case are joined.
//
// When nothing changes kept is text itself, and when no header is kept it is empty. The error
// is that of [HeadersOf]; kept is text then, and nothing counts as dropped.
func ForwardHeadersText(text string, o ForwardOptions) (kept string, dropped Dropped, err error) {
	if text == "" || text == "{}" {
		return text, Dropped{}, nil
	}
	f := textForwarder{text: text, o: o, most: o.MaxHeaders, left: o.MaxHeaderBytes}
	if f.most <= 0 {
		f.most = DefaultMaxHeaders
	}
	if f.left <= 0 {
		f.left = DefaultMaxHeaderBytes
	}
	if f.walk() {
		return f.result(), f.dropped, nil
	}
	if err := checkHeadersText(text); err != nil {
		return text, Dropped{}, err
	}
	headers, dropped := ForwardHeaders(parseHeaders(text), o)
	return headersText(headers), dropped, nil
}

// textNames is how many names a textForwarder tells apart.
const textNames = 128

// A textForwarder forwards headers in one pass over their text, where these are as nearly all
// are: no more than textNames, in lower case and without escapes, and none there twice.
type textForwarder struct {
	text       string
	o          ForwardOptions
	most, left int // what the caps leave
	dropped    Dropped

	// What is kept, from the first header on that is not: whole runs of the text.
	out     []byte
	changed bool
	run     span // the last run, which is not in out yet

	names [textNames]span
	count int
	slots [2 * textNames]uint8 // by hash: the index of a name, and one; 0 for none
}

// walk reports whether the headers are as nearly all are. If not, nothing is known of them, not
// even whether the text is well formed.
func (f *textForwarder) walk() bool {
	s := f.text
	i := jsonscan.SkipSpace(s, 0)
	if i == len(s) || s[i] != '{' {
		return false
	}
	if i = jsonscan.SkipSpace(s, i+1); i < len(s) && s[i] == '}' {
		return jsonscan.End(s, i+1) >= 0
	}
	for {
		var escaped bool
		start := i
		if i == len(s) || s[i] != '"' {
			return false
		}
		if i, escaped = jsonscan.String(s, i); i < 0 || escaped {
			return false
		}
		name := span{start + 1, i - 1}
		if i = jsonscan.Colon(s, i); i < 0 || i == len(s) || s[i] != '"' {
			return false
		}
		value := i + 1
		if i, escaped = jsonscan.String(s, i); i < 0 {
			return false
		}
		keep, usual := f.forwards(name, rawString{s[value : i-1], escaped})
		if !usual {
			return false
		}
		f.add(span{start, i}, keep)
		if i = jsonscan.SkipSpace(s, i); i == len(s) {
			return false
		}
		if s[i] == '}' {
			return jsonscan.End(s, i+1) >= 0
		}
		if s[i] != ',' {
			return false
		}
		i = jsonscan.SkipSpace(s, i+1)
	}
}

// forwards reports whether a header is forwarded, and whether its name is as nearly all are.
func (f *textForwarder) forwards(at span, value rawString) (keep, usual bool) {
	name := f.text[at.start:at.end]
	switch {
	case anyUpper(name):
		return false, false
	case f.o.Mode != ForwardAll && f.o.Mode != ForwardAllowList,
		neverForwarded(name),
		len(f.o.Never) > 0 && containsFold(f.o.Never, name),
		f.o.Mode == ForwardAllowList && !containsFold(f.o.Allow, name):
		return false, true
	case !f.isNew(at, name):
		return false, false
	}
	size := len(name) + value.len()
	switch {
	case f.most == 0:
		f.dropped.Count++
	case size > f.left:
		f.dropped.Bytes++
	default:
		f.most--
		f.left -= size
		return true, true
	}
	return false, true
}

// isNew adds a name, unless it was added before or there is no room.
func (f *textForwarder) isNew(at span, name string) bool {
	if f.count == textNames {
		return false
	}
	slot := hashName(name) >> 56
	for f.slots[slot] != 0 {
		if other := f.names[f.slots[slot]-1]; f.text[other.start:other.end] == name {
			return false
		}
		slot = (slot + 1) % uint64(len(f.slots))
	}
	f.names[f.count] = at
	f.count++
	f.slots[slot] = uint8(f.count)
	return true
}

// add adds a member to what is kept, or ends the run before it.
func (f *textForwarder) add(member span, keep bool) {
	switch {
	case !keep:
		if !f.changed {
			f.changed = true
			f.out = make([]byte, 0, len(f.text))
		}
		f.flush()
	case f.run == span{}:
		f.run = member
	default:
		f.run.end = member.end
	}
}

// flush puts the last run into out.
func (f *textForwarder) flush() {
	if (f.run == span{}) {
		return
	}
	separator := byte(',')
	if len(f.out) == 0 {
		separator = '{'
	}
	f.out = append(append(f.out, separator), f.text[f.run.start:f.run.end]...)
	f.run = span{}
}

// result is the text of what is kept.
func (f *textForwarder) result() string {
	if !f.changed {
		return f.text
	}
	f.flush()
	if len(f.out) == 0 {
		return ""
	}
	return view(append(f.out, '}'))
}
