package envelope

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/watermill-envelope/envelope/internal/jsonscan"
)

// The causes in an [Error]. They say what is wrong, never what was sent.
var (
	errMissing     = errors.New("missing")
	errNotString   = errors.New("not a string")
	errNotInteger  = errors.New("not an integer of 64 bits")
	errNotStrings  = errors.New("not an object of strings")
	errNotBase64   = errors.New("not canonical base64 with padding")
	errNoBody      = errors.New("neither body_base64 nor claim")
	errBothBodies  = errors.New("both body_base64 and claim")
	errOtherDigest = errors.New("the body has another sha256")
	errVersion     = errors.New("not an integer, or not a version that is read (1 to 2)")
	errVerified    = errors.New("not an object with a non-empty status and a boolean flagged")
	errOtherTenant = errors.New("the claim is another tenant's")
)

// check does all the checks in their order, and returns the body.
func (p *parser) check(dst, data []byte, trust bool) ([]byte, error) {
	end := p.scan(trust)
	if end < 0 {
		return nil, &Error{Code: CodeInvalidJSON, Err: fmt.Errorf("at byte %d of %d", ^end, len(data))}
	}
	if p.text[jsonscan.SkipSpace(p.text, 0)] != '{' {
		return nil, &Error{Code: CodeNotAnObject}
	}
	version, ok := p.integer(memberV)
	if !ok || version < MinVersion || version > MaxVersion {
		return nil, &Error{Code: CodeUnsupportedVersion, Err: errVersion}
	}
	if field, err := p.checkFields(); err != nil {
		return nil, invalidField(memberNames[field], err)
	}
	return p.readBody(dst, data)
}

// integer returns the value of a member that is a plain integer.
func (p *parser) integer(member int) (int64, bool) {
	v := p.members[member]
	if c := v.kind; c != '-' && (c < '0' || c > '9') {
		return 0, false
	}
	return parseInteger(p.text[v.start:v.end])
}

// checkFields does the checks from id to verification, and returns the member at fault.
func (p *parser) checkFields() (int, error) {
	var ok bool
	if err := p.checkString(memberID); err != nil {
		return memberID, err
	}
	if p.raw(memberID).text == "" {
		return memberID, errEmpty
	}
	if err := p.checkString(memberSourceID); err != nil {
		return memberSourceID, err
	}
	if p.receivedAt, ok = p.integer(memberReceivedAt); !ok {
		return memberReceivedAt, errNotInteger
	}
	if p.size, ok = p.integer(memberSize); !ok {
		return memberSize, errNotInteger
	}
	if p.size < 0 {
		return memberSize, errNegative
	}
	for _, member := range [...]int{
		memberTenantID, memberContentType, memberDedupeKey, memberReplayID, memberIdempotencyKey,
		memberTraceparent, memberTracestate, memberInstance, memberRegion,
	} {
		if c := p.members[member].kind; c != '"' && !absent(c) {
			return member, errNotString
		}
	}
	if c := p.members[memberHeaders].kind; !absent(c) && (c != '{' || p.headers.others && !lastStrings(p.raw(memberHeaders).text)) {
		return memberHeaders, errNotStrings
	}
	if c := p.members[memberSHA256].kind; !absent(c) && !p.readDigest() {
		return memberSHA256, errDigest
	}
	if c := p.members[memberVerification].kind; !absent(c) && (c != '{' || !p.readVerification()) {
		return memberVerification, errVerified
	}
	if p.members[memberMetadata].kind == '{' && p.metadata.others && !lastStrings(p.raw(memberMetadata).text) {
		p.members[memberMetadata] = value{} // ignored
	}
	return 0, nil
}

func (p *parser) checkString(member int) error {
	switch p.members[member].kind {
	case '"':
		return nil
	case 0:
		return errMissing
	}
	return errNotString
}

// absent reports whether a member is not there or null.
func absent(kind byte) bool { return kind == 0 || kind == 'n' }

// readDigest reports whether sha256 is a digest, and keeps it.
func (p *parser) readDigest() bool {
	r := p.raw(memberSHA256)
	if p.members[memberSHA256].kind != '"' || r.len() != len(p.digest) {
		return false
	}
	r.append(p.digest[:0])
	return lowerHex(view(p.digest[:]))
}

// readVerification reports whether the object verification has what it needs, and keeps it.
func (p *parser) readVerification() bool {
	status, flagged := false, false
	for it := iterate(p.raw(memberVerification).text); it.next(); {
		switch {
		case it.name.is("status"):
			status = it.isString && it.str.text != ""
			p.status = it.str
		case it.name.is("flagged"):
			flagged = it.value == "true" || it.value == "false"
			p.flagged = it.value == "true"
		}
	}
	return status && flagged
}

// readBody does the checks from body_base64 on.
func (p *parser) readBody(dst, data []byte) ([]byte, error) {
	inline, claim := p.members[memberBody], p.members[memberClaim]
	switch {
	case absent(inline.kind) && absent(claim.kind):
		return nil, &Error{Code: CodeMissingBody, Err: errNoBody}
	case absent(inline.kind):
		return nil, p.checkClaim()
	case !absent(claim.kind):
		return nil, &Error{Code: CodeAmbiguousBody, Err: errBothBodies}
	case inline.kind != '"':
		return nil, &Error{Code: CodeInvalidBodyBase64, Err: errNotString}
	}
	n, ok := decodedRawLen(p.raw(memberBody))
	if !ok {
		return nil, &Error{Code: CodeInvalidBodyBase64, Err: errNotBase64}
	}
	body := dst[len(dst):]
	if cap(body) < n || body == nil {
		if cap(p.spare) < n || p.spare == nil {
			p.spare = make([]byte, n)
		}
		body = p.spare
	}
	body = body[:n]
	if !decodeRawBase64(body, data[inline.start:inline.end], inline.escaped) {
		return nil, &Error{Code: CodeInvalidBodyBase64, Err: errNotBase64}
	}
	p.trusted = false // it is base64, so its end was where it seemed to be
	if int64(n) != p.size {
		return nil, &Error{Code: CodeSizeMismatch, Err: fmt.Errorf("size is %d, the body has %d bytes", p.size, n)}
	}
	if !absent(p.members[memberSHA256].kind) {
		sum := sha256.Sum256(body)
		var text [2 * sha256.Size]byte
		if hex.Encode(text[:], sum[:]); text != p.digest {
			return nil, &Error{Code: CodeIntegrity, Err: errOtherDigest}
		}
	}
	return body, nil
}

// checkClaim does the checks of the claim form.
func (p *parser) checkClaim() error {
	r := p.raw(memberClaim)
	var room [maxRef]byte
	if p.members[memberClaim].kind != '"' || r.len() > len(room) {
		return invalidField("claim", errNotRef)
	}
	tenant, ok := refTenant(view(r.append(room[:0])))
	if !ok {
		return invalidField("claim", errNotRef)
	}
	if absent(p.members[memberSHA256].kind) {
		return invalidField("sha256", errMissing)
	}
	if p.members[memberTenantID].kind == '"' {
		r := p.raw(memberTenantID)
		var room [64]byte
		if r.len() > len(room) || view(r.append(room[:0])) != tenant {
			return &Error{Code: CodeTenantMismatch, Err: errOtherTenant}
		}
	}
	return nil
}
