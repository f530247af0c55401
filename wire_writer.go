package envelope

import "strconv"

// A writer appends members to dst. The first string that is not UTF-8 is remembered as the
// member that has it.
type writer struct {
	dst                 []byte
	escapeNoncharacters bool
	invalid             string
}

func (w *writer) raw(s string) { w.dst = append(w.dst, s...) }

func (w *writer) name(member int) {
	w.dst = append(w.dst, `,"`...)
	w.dst = append(w.dst, memberNames[member]...)
	w.dst = append(w.dst, `":`...)
}

func (w *writer) text(member int, s string) {
	w.name(member)
	w.string(member, s)
}

func (w *writer) nullable(member int, s string) {
	w.name(member)
	if s == "" {
		w.raw(`null`)
		return
	}
	w.string(member, s)
}

func (w *writer) integer(member int, n int64) {
	w.name(member)
	w.dst = strconv.AppendInt(w.dst, n, 10)
}

func (w *writer) string(member int, s string) {
	w.raw(`"`)
	w.part(member, s)
	w.raw(`"`)
}

func (w *writer) part(member int, s string) {
	var ok bool
	w.dst, ok = appendStringPart(w.dst, s, w.escapeNoncharacters)
	w.fail(ok, member)
}

func (w *writer) fail(ok bool, member int) {
	if !ok && w.invalid == "" {
		w.invalid = memberNames[member]
	}
}

func (w *writer) headers(f *fields) {
	w.name(memberHeaders)
	switch {
	case f.headerList != nil:
		var ok bool
		w.dst, ok = appendHeaders(w.dst, f.headerList, w.escapeNoncharacters)
		w.fail(ok, memberHeaders)
	case f.headers != "":
		w.dst = appendText(w.dst, f.headers, w.escapeNoncharacters)
	default:
		w.raw(`{}`)
	}
}

func (w *writer) metadata(f *fields) {
	switch {
	case f.metadataMap != nil:
		start := len(w.dst)
		w.name(memberMetadata)
		from := len(w.dst)
		var ok bool
		traceparent, tracestate := f.traceContext()
		w.dst, ok = appendMetadata(w.dst, f.metadataMap, traceparent, tracestate, w.escapeNoncharacters)
		w.fail(ok, memberMetadata)
		if len(w.dst)-from == len(`{}`) {
			w.dst = w.dst[:start]
		}
	case f.metadata != "":
		w.name(memberMetadata)
		w.dst = appendText(w.dst, f.metadata, w.escapeNoncharacters)
	}
}
