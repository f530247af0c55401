package envelope

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// appendWire appends the wire form of f to dst: version 1, the members in the order of the
// wire format's table, the body last. On an error it returns dst as it was.
//
// It escapes U+FFFE and U+FFFF when asked to, computes an empty idempotency key, the size
// and the digest of an inline body, writes an empty verification status as skipped, and both
// members of a trace context that is not valid as null.
//
// The error is an [*Error] with [CodeInvalidField] and the member's name: a string that is
// not UTF-8, an empty id, a negative size, a claim that is no reference or has no digest;
// or [CodeTenantMismatch] for a claim of another tenant. The texts of headers, metadata and
// unknown are written as they are: who made f has checked them with validStrings and
// validUnknown, or copied them from what parse has read.
func (f *fields) appendWire(dst []byte, escapeNoncharacters bool) ([]byte, error) {
	if err := f.check(); err != nil {
		return dst, err
	}
	start := len(dst)
	if int64(cap(dst)-len(dst)) <= base64Len(int64(len(f.body))) { // else it has been measured
		dst = slices.Grow(dst, f.sizeHint())
	}
	w := writer{dst, escapeNoncharacters, ""}
	w.raw(`{"v":1`)
	w.text(memberID, f.id)
	w.text(memberSourceID, f.sourceID)
	w.nullable(memberTenantID, f.tenantID)
	w.integer(memberReceivedAt, f.receivedAt)
	w.nullable(memberContentType, f.contentType)
	size := int64(len(f.body))
	if f.claim != "" {
		size = f.size
	}
	w.integer(memberSize, size)
	w.nullable(memberDedupeKey, f.dedupeKey)
	w.nullable(memberReplayID, f.replayID)
	w.name(memberIdempotencyKey)
	w.raw(`"`)
	tenant, source, key := f.idempotencyParts()
	if source {
		w.part(memberTenantID, tenant)
		w.raw(`:`)
		w.part(memberSourceID, f.sourceID)
		w.raw(`:`)
	}
	w.part(memberIdempotencyKey, key)
	w.raw(`"`)
	w.name(memberVerification)
	w.raw(`{"status":`)
	w.string(memberVerification, f.verificationStatus())
	if f.verification.Flagged {
		w.raw(`,"flagged":true}`)
	} else {
		w.raw(`,"flagged":false}`)
	}
	w.headers(f)
	traceparent, tracestate := f.traceContext()
	w.fail(utf8.ValidString(f.traceparent), memberTraceparent) // of what is not written, too
	w.fail(utf8.ValidString(f.tracestate), memberTracestate)
	w.nullable(memberTraceparent, traceparent)
	w.nullable(memberTracestate, tracestate)
	w.nullable(memberInstance, f.instance)
	w.nullable(memberRegion, f.region)
	if f.orderingKey != "" {
		w.text(memberOrderingKey, f.orderingKey)
	}
	w.metadata(f)
	if unknown := objectInside(f.unknown); unknown != "" {
		w.raw(`,`)
		w.dst = appendText(w.dst, unknown, escapeNoncharacters)
	}
	w.name(memberSHA256)
	w.raw(`"`)
	if f.claim != "" {
		w.raw(f.sha256)
		w.raw(`"`)
		w.text(memberClaim, f.claim)
	} else {
		digest := sha256.Sum256(f.body)
		w.dst = hex.AppendEncode(w.dst, digest[:])
		w.raw(`","body_base64":"`)
		w.dst = appendBase64(w.dst, f.body)
		w.raw(`"`)
	}
	w.raw(`}`)
	if w.invalid != "" {
		return w.dst[:start], invalidField(w.invalid, errNotUTF8)
	}
	return w.dst, nil
}

var (
	errNotUTF8  = errors.New("not UTF-8")
	errEmpty    = errors.New("empty")
	errNegative = errors.New("negative")
	errNotRef   = errors.New("not a claim reference")
	errDigest   = errors.New("not 64 lower-case hex digits")
)

func invalidField(field string, cause error) *Error {
	return &Error{Code: CodeInvalidField, Field: field, Err: cause}
}

// check finds what appendWire refuses, but for strings that are not UTF-8.
func (f *fields) check() error {
	if f.id == "" {
		return invalidField("id", errEmpty)
	}
	if f.claim == "" {
		return nil
	}
	if f.size < 0 {
		return invalidField("size", errNegative)
	}
	tenant, ok := refTenant(f.claim)
	switch {
	case !ok:
		return invalidField("claim", errNotRef)
	case !validDigest(f.sha256):
		return invalidField("sha256", errDigest)
	case f.tenantID != "" && f.tenantID != tenant:
		return &Error{Code: CodeTenantMismatch}
	}
	return nil
}

// idempotencyParts returns the key that is written, or (source is true) what is written
// before and behind the source id.
func (f *fields) idempotencyParts() (tenant string, source bool, key string) {
	switch {
	case f.idempotencyKey != "":
		return "", false, f.idempotencyKey
	case f.dedupeKey == "":
		return "", false, f.id
	case f.tenantID == "":
		return "default", true, f.dedupeKey
	}
	return f.tenantID, true, f.dedupeKey
}

func (f *fields) verificationStatus() string {
	if f.verification.Status == "" {
		return string(VerificationSkipped)
	}
	return string(f.verification.Status)
}

func (f *fields) traceContext() (traceparent, tracestate string) {
	if !ValidTraceparent(f.traceparent) {
		return "", ""
	}
	return f.traceparent, TruncateTracestate(f.tracestate)
}

// wireSize is the exact length that appendWire appends, for the claim when it is set, else
// with the body inline. It does not allocate. Of an f that appendWire refuses it is some
// length.
func (f *fields) wireSize(escapeNoncharacters bool) int64 {
	esc := escapeNoncharacters
	text := func(s string) int64 { return int64(stringLen(s, esc)) }
	nullable := func(s string) int64 {
		if s == "" {
			return int64(len(`null`))
		}
		return text(s)
	}
	const fixed = len(`{"v":1,"id":,"source_id":,"tenant_id":,"received_at":,"content_type":,"size":,` +
		`"dedupe_key":,"replay_id":,"idempotency_key":"","verification":{"status":,"flagged":true},` +
		`"headers":,"traceparent":,"tracestate":,"instance":,"region":,"sha256":""}`)
	n := int64(fixed) + text(f.id) + text(f.sourceID) + nullable(f.tenantID) + integerLen(f.receivedAt) +
		nullable(f.contentType) + nullable(f.dedupeKey) + nullable(f.replayID) +
		text(f.verificationStatus()) + nullable(f.instance) + nullable(f.region) +
		int64(sha256.Size*2)
	tenant, source, key := f.idempotencyParts()
	if source {
		n += int64(stringPartLen(tenant, esc) + len(`:`) + stringPartLen(f.sourceID, esc) + len(`:`))
	}
	n += int64(stringPartLen(key, esc))
	if !f.verification.Flagged {
		n += int64(len(`false`) - len(`true`))
	}
	n += int64(max(textLen(f.headers, esc), len(`{}`)))
	traceparent, tracestate := f.traceContext()
	n += nullable(traceparent) + nullable(tracestate)
	if f.orderingKey != "" {
		n += int64(len(`,"ordering_key":`)) + text(f.orderingKey)
	}
	if f.metadata != "" {
		n += int64(len(`,"watermill_metadata":`) + textLen(f.metadata, esc))
	}
	if unknown := objectInside(f.unknown); unknown != "" {
		n += int64(len(`,`) + textLen(unknown, esc))
	}
	if f.claim != "" {
		return n + integerLen(f.size) + int64(len(`,"claim":`)) + text(f.claim)
	}
	size := int64(len(f.body))
	return n + integerLen(size) + int64(len(`,"body_base64":""`)) + base64Len(size)
}

func integerLen(n int64) int64 {
	var room [20]byte
	return int64(len(strconv.AppendInt(room[:0], n, 10)))
}

// sizeHint is about the length of the wire form, so that it is made in one allocation.
func (f *fields) sizeHint() int {
	n := 512 + len(f.id)*2 + len(f.sourceID)*2 + len(f.tenantID)*2 + len(f.contentType) + len(f.dedupeKey)*2 +
		len(f.replayID) + len(f.idempotencyKey) + len(f.headers) + len(f.traceparent) + len(f.tracestate) +
		len(f.instance) + len(f.region) + len(f.orderingKey) + len(f.metadata) + len(f.unknown) + len(f.claim)
	for _, h := range f.headerList {
		n += len(h.Name) + len(h.Value) + len(`"":"",`)
	}
	if f.claim == "" {
		n += int(base64Len(int64(len(f.body))))
	}
	return n
}

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
		found |= uppers(load64(s, i))
	}
	return found|uppers(load64(s, len(s)-8)) != 0
}

// uppers returns a number that has the high bit of each byte of x that is A to Z.
func uppers(x uint64) uint64 {
	low := x &^ highs
	return (low + (0x80-'A')*ones) &^ (low + (0x80-'Z'-1)*ones) &^ x & highs
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
		first, last = load64(s, 0), load64(s, n-8)
	} else {
		for i := range n {
			first = first<<8 | uint64(s[i])
		}
	}
	return ((first^uint64(len(s)))*k ^ last) * k
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
