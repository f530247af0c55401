package claimcheck

import (
	"cmp"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/watermill-envelope/envelope"
)

// A Ref is a reference to a body in an object store, the claim of a message:
//
//	urn:ankusa:claim:v1:<tenant>:<claim id>
//	urn:ankusa:claim:v2:<tenant>:<claim id>:<expiry>:<signature>
//
// The tenant is 1 to 64 characters of A-Z a-z 0-9 _ and -. The claim id is a ULID: 26
// characters of upper-case Crockford base32 for 128 bits, which are 48 bits of Unix
// milliseconds, 64 random bits, and 16 bits for the claim's position in its pack.
//
// The second form is signed by a gateway, which alone can check it: the expiry is in Unix
// seconds, 1 to 12 digits of which the first is not 0, the signature 43 characters of
// A-Z a-z 0-9 _ and -. It is read, never made. Whoever has one can fetch the body until it
// expires, so it is a credential: log [Ref.Masked]. A Ref as a value of package slog is
// masked; [Ref.String], and so package fmt, shows it whole.
//
// A Ref says nothing about where the store is: that comes from the reader's configuration
// only. Refs can be compared with == and be the keys of maps. The zero Ref is no reference.
type Ref struct {
	tenant, claimID, signature string
	expires                    int64
}

const (
	urnV1 = "urn:ankusa:claim:v1:"
	urnV2 = "urn:ankusa:claim:v2:"

	claimIDLen   = 26
	signatureLen = 43
	maxTenantLen = 64
	maxExpiryLen = 12

	// maxTime is the last millisecond of the year 9999, in Unix milliseconds: what comes
	// after has no folder that a date could be read from.
	maxTime = 253402300799999
)

// The causes of CodeInvalidRef and CodeInvalidTenant. They say what is wrong, never what was
// given.
var (
	errNotRef    = errors.New("not a claim reference")
	errNotID     = errors.New("not a claim id: 26 characters of upper-case Crockford base32, the first at most 7")
	errNotTenant = errors.New("not 1 to 64 characters of A-Z a-z 0-9 _ and -")
	errNotKey    = errors.New("not the key of a pack")
	errNotDigest = errors.New("not 64 lower-case hex digits")
	errTime      = errors.New("its time is not in the years 1970 to 9999")
)

// ParseRef parses a reference of either form. It takes the text whole: no other case, no
// percent-encoding, no space around it. The error is an [ErrInvalidRef].
func ParseRef(s string) (Ref, error) {
	rest, signed := strings.CutPrefix(s, urnV2)
	if !signed {
		var ok bool
		if rest, ok = strings.CutPrefix(s, urnV1); !ok {
			return Ref{}, &Error{Code: CodeInvalidRef, Err: errNotRef}
		}
	}
	var r Ref
	r.tenant, rest, _ = strings.Cut(rest, ":")
	id, rest, more := strings.Cut(rest, ":")
	r.claimID = id
	if !ValidTenant(r.tenant) || !validClaimID(id) || more != signed {
		return Ref{}, &Error{Code: CodeInvalidRef, Err: errNotRef}
	}
	if signed {
		expiry, signature, _ := strings.Cut(rest, ":")
		n, ok := parseExpiry(expiry)
		if !ok || len(signature) != signatureLen || !isWord(signature) {
			return Ref{}, &Error{Code: CodeInvalidRef, Err: errNotRef}
		}
		r.expires, r.signature = n, signature
	}
	return r, nil
}

// NewRef returns the reference to a claim of a tenant. The error is an [ErrInvalidTenant], or
// an [ErrInvalidRef] for a claim id that is none or whose time is after the year 9999.
func NewRef(tenant, claimID string) (Ref, error) {
	if !ValidTenant(tenant) {
		return Ref{}, &Error{Code: CodeInvalidTenant, Err: errNotTenant}
	}
	r := Ref{tenant: tenant, claimID: claimID}
	if !validClaimID(claimID) {
		return Ref{}, &Error{Code: CodeInvalidRef, Tenant: tenant, Err: errNotID}
	}
	if r.millis() > maxTime {
		return Ref{}, &Error{Code: CodeInvalidRef, Ref: r.Masked(), Err: errTime}
	}
	return r, nil
}

// ValidTenant reports whether s can be the tenant of a reference: 1 to 64 characters of
// A-Z a-z 0-9 _ and -.
func ValidTenant(s string) bool { return len(s) <= maxTenantLen && isWord(s) }

// String returns the reference as ParseRef takes it, the signature included, and "" for the
// zero Ref. See [Ref.Masked].
func (r Ref) String() string {
	switch {
	case r == Ref{}:
		return ""
	case r.Signed():
		return urnV2 + r.tenant + ":" + r.claimID + ":" + strconv.FormatInt(r.expires, 10) + ":" + r.signature
	}
	return urnV1 + r.tenant + ":" + r.claimID
}

// Masked returns the reference as it may be logged: [envelope.MaskClaim] of r.String().
func (r Ref) Masked() string { return envelope.MaskClaim(r.String()) }

// LogValue implements [slog.LogValuer]: r.Masked().
func (r Ref) LogValue() slog.Value { return slog.StringValue(r.Masked()) }

// Path returns the path, and for a signed reference the query, of the body at a gateway. It
// is a credential where r is signed.
func (r Ref) Path() string {
	p := "/v1/claims/" + r.tenant + "/" + r.claimID
	if r.Signed() {
		p += "?exp=" + strconv.FormatInt(r.expires, 10) + "&sig=" + r.signature
	}
	return p
}

// Tenant returns the tenant that the body belongs to.
func (r Ref) Tenant() string { return r.tenant }

// ClaimID returns the claim's id, 26 characters.
func (r Ref) ClaimID() string { return r.claimID }

// PackID returns the id of the pack that the claim is in, which is the id of the pack's first
// claim.
func (r Ref) PackID() string {
	if r.claimID == "" {
		return ""
	}
	return parseID(r.claimID).at(0).String()
}

// Index returns the claim's position in its pack, from 0.
func (r Ref) Index() int {
	if r.claimID == "" {
		return 0
	}
	return parseID(r.claimID).index()
}

// Time returns when the pack was made, in UTC, to the millisecond.
func (r Ref) Time() time.Time { return time.UnixMilli(r.millis()).UTC() }

// Key returns the key of the pack in its store:
//
//	claims/tenant=<tenant>/dt=<YYYY-MM-DD, the day in UTC>/<pack id>
//
// It returns "" when there is none: for the zero Ref, and for a time after the year 9999.
func (r Ref) Key() string {
	if r.claimID == "" || r.millis() > maxTime {
		return ""
	}
	return "claims/tenant=" + r.tenant + "/dt=" + r.Time().Format(time.DateOnly) + "/" + r.PackID()
}

// Signed reports whether r is of the second form.
func (r Ref) Signed() bool { return r.signature != "" }

// Expires returns when a signed reference ends, in UTC. The zero time means never.
func (r Ref) Expires() time.Time {
	if !r.Signed() {
		return time.Time{}
	}
	return time.Unix(r.expires, 0).UTC()
}

// Compare returns -1, 0 or +1. References are in order by tenant, then by time, pack and
// position, then by expiry and signature.
func (r Ref) Compare(other Ref) int {
	return cmp.Or(
		strings.Compare(r.tenant, other.tenant),
		strings.Compare(r.claimID, other.claimID),
		cmp.Compare(r.expires, other.expires),
		strings.Compare(r.signature, other.signature),
	)
}

func (r Ref) millis() int64 {
	if r.claimID == "" {
		return 0
	}
	return parseID(r.claimID).millis()
}

// parseExpiry returns the value of 1 to 12 digits of which the first is not 0.
func parseExpiry(s string) (n int64, ok bool) {
	if s == "" || len(s) > maxExpiryLen || s[0] == '0' {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = 10*n + int64(s[i]-'0')
	}
	return n, true
}

// isWord reports whether s is not empty and made of A-Z a-z 0-9 _ and - only.
func isWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}

// validDigest reports whether s is a sha256 digest as it is written: 64 lower-case hex digits.
func validDigest(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 64
}
