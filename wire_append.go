package envelope

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
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
		dst = append(make([]byte, 0, len(dst)+f.sizeHint()), dst...)
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
		return &Error{Code: CodeTenantMismatch, Err: errOtherTenant}
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
