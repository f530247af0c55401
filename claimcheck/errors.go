package claimcheck

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/watermill-envelope/envelope"
)

// A Code says what went wrong with a body or its object. Codes are stable: they appear in
// metrics and logs.
type Code string

// The codes, with their class: a permanent failure stays when the same is tried again, a
// transient one ends without a change to the message.
const (
	// CodeNotFound: there is no such object, or it ends before the claim does. Permanent.
	CodeNotFound Code = "not_found"
	// CodeForbidden: the store or the gateway refuses us. Transient: it is a matter of
	// configuration, and no message is at fault.
	CodeForbidden Code = "forbidden"
	// CodeUnavailable: the store or the gateway did not do its work: it is down, it is slow,
	// a connection broke, the context ended. Transient.
	CodeUnavailable Code = "unavailable"
	// CodeExists: the key of a Put is taken. It has no class: it is said by a [Store] to a
	// [Checker], which tries another key.
	CodeExists Code = "exists"
	// CodeInvalidRef: what should be a reference, a digest or a key is none. Permanent.
	CodeInvalidRef Code = "invalid_ref"
	// CodeSignedRef: a signed reference, which only the gateway that made it can check, was
	// to be redeemed from a store. Permanent.
	CodeSignedRef Code = "signed_ref"
	// CodeInvalidTenant: a tenant that cannot be in a reference, or none. Permanent.
	CodeInvalidTenant Code = "invalid_tenant"
	// CodeIntegrity: the bytes are not those the message speaks of. Permanent.
	CodeIntegrity Code = "integrity"
	// CodeTooLarge: a body over a limit. Permanent.
	CodeTooLarge Code = "too_large"
	// CodeRejected: the gateway refuses this request. Permanent.
	CodeRejected Code = "rejected"
	// CodeRefExpired: the gateway refuses a signed reference after its time. Permanent.
	CodeRefExpired Code = "ref_expired"
)

// What errors.Is finds in an [Error]: the one with its code.
var (
	ErrNotFound      = errors.New("claimcheck: not found")
	ErrForbidden     = errors.New("claimcheck: forbidden")
	ErrUnavailable   = errors.New("claimcheck: unavailable")
	ErrExists        = errors.New("claimcheck: exists")
	ErrInvalidRef    = errors.New("claimcheck: invalid reference")
	ErrSignedRef     = errors.New("claimcheck: signed reference")
	ErrInvalidTenant = errors.New("claimcheck: invalid tenant")
	ErrIntegrity     = errors.New("claimcheck: other bytes than the message's")
	ErrTooLarge      = errors.New("claimcheck: too large")
	ErrRejected      = errors.New("claimcheck: rejected")
	ErrRefExpired    = errors.New("claimcheck: reference expired")
)

// An Error is the error of every operation on bodies and objects. Its fields say which one;
// those that do not apply are empty. It holds no byte of a body and no credential, and
// neither must Err. The text of Error() is for people and may change; match on Code, or with
// [errors.Is] on the variables of this package.
type Error struct {
	Code   Code
	Op     string // what was to be done: "put", "get", "check in", "redeem", ...
	Tenant string
	Key    string // the object's key in the store
	Ref    string // the reference, as [Ref.Masked] writes it
	Status int    // of the HTTP answer
	Err    error  // the cause, or nil
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("claimcheck: ")
	if e.Op != "" {
		b.WriteString(e.Op)
		b.WriteString(": ")
	}
	b.WriteString(string(e.Code))
	// Whoever made the error may have taken these from outside.
	for _, f := range [...]struct{ name, text string }{
		{"tenant", e.Tenant}, {"key", e.Key}, {"ref", envelope.MaskClaim(e.Ref)},
	} {
		if f.text != "" {
			fmt.Fprintf(&b, " %s %.200q", f.name, f.text)
		}
	}
	if e.Status != 0 {
		b.WriteString(" (HTTP status ")
		b.WriteString(strconv.Itoa(e.Status))
		b.WriteByte(')')
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the variable of e's code.
func (e *Error) Is(target error) bool {
	switch e.Code {
	case CodeNotFound:
		return target == ErrNotFound
	case CodeForbidden:
		return target == ErrForbidden
	case CodeUnavailable:
		return target == ErrUnavailable
	case CodeExists:
		return target == ErrExists
	case CodeInvalidRef:
		return target == ErrInvalidRef
	case CodeSignedRef:
		return target == ErrSignedRef
	case CodeInvalidTenant:
		return target == ErrInvalidTenant
	case CodeIntegrity:
		return target == ErrIntegrity
	case CodeTooLarge:
		return target == ErrTooLarge
	case CodeRejected:
		return target == ErrRejected
	case CodeRefExpired:
		return target == ErrRefExpired
	}
	return false
}

// Permanent reports whether the same will fail again, by the code; see
// [envelope.IsPermanent].
func (e *Error) Permanent() bool {
	switch e.Code {
	case CodeNotFound, CodeInvalidRef, CodeSignedRef, CodeInvalidTenant, CodeIntegrity, CodeTooLarge, CodeRejected, CodeRefExpired:
		return true
	}
	return false
}

// Transient reports whether the failure ends without a change to the message, by the code;
// see [envelope.IsTransient].
func (e *Error) Transient() bool {
	return e.Code == CodeForbidden || e.Code == CodeUnavailable
}
