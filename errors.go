package envelope

import (
	"errors"
	"fmt"
	"strconv"
)

// A Code says which check a message failed. Codes are stable: they appear in metrics, logs
// and poison topics.
type Code string

// The codes of reading (in the order of the checks) and of writing.
const (
	CodeInvalidJSON        Code = "invalid_json"
	CodeNotAnObject        Code = "not_an_object"
	CodeUnsupportedVersion Code = "unsupported_version"
	CodeInvalidField       Code = "invalid_field"
	CodeAmbiguousBody      Code = "ambiguous_body"
	CodeMissingBody        Code = "missing_body"
	CodeInvalidBodyBase64  Code = "invalid_body_base64"
	CodeSizeMismatch       Code = "size_mismatch"
	CodeIntegrity          Code = "integrity"
	CodeTenantMismatch     Code = "tenant_mismatch"

	// CodeClaimNotEnabled: a claim reached a place where nothing redeems it.
	CodeClaimNotEnabled Code = "claim_not_enabled"
)

// An Error says why a message could not be read or written. It is permanent. The text of
// Error() is for people and may change, and shows at most 128 characters of Field; match on
// Code and Field.
type Error struct {
	Code  Code
	Field string // the wire or metadata name at fault, where there is one
	Err   error  // the cause, or nil
}

func (e *Error) Error() string {
	s := "envelope: " + string(e.Code)
	if e.Field != "" {
		// A field may be the name of somebody's metadata, and the text may become metadata.
		s += " " + fmt.Sprintf("%.128q", e.Field)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports that every Error is [ErrMalformed].
func (e *Error) Is(target error) bool { return target == ErrMalformed }

// Permanent reports true: the same bytes will fail again.
func (e *Error) Permanent() bool { return true }

var (
	// ErrMalformed is found by errors.Is in every [Error].
	ErrMalformed = errors.New("envelope: malformed message")
	// ErrMessageTooLarge is found by errors.Is in every [TooLargeError].
	ErrMessageTooLarge = errors.New("envelope: message too large")
)

// A TooLargeError is the permanent error of a message that no transport call was made for,
// because it is over the transport's limit. Sizes are bytes as the transport counts them.
type TooLargeError struct {
	Size, Max int64
	What      string // which limit, when it is not the whole message: "content header", ...
}

func (e *TooLargeError) Error() string {
	what, remedy := e.What, ""
	if what == "" {
		what, remedy = "message", " (a claim check carries bodies of any size)"
	}
	return "envelope: " + what + " too large: " + strconv.FormatInt(e.Size, 10) + " bytes, at most " +
		strconv.FormatInt(e.Max, 10) + remedy
}

// Is reports that every TooLargeError is [ErrMessageTooLarge].
func (e *TooLargeError) Is(target error) bool { return target == ErrMessageTooLarge }

// Permanent reports true: the same message will be refused again.
func (e *TooLargeError) Permanent() bool { return true }

// IsPermanent reports whether trying again cannot help: an error in err's tree is marked
// permanent, by [Permanent] or by a method `Permanent() bool` that reports true. The
// outermost mark wins; see [IsTransient].
func IsPermanent(err error) bool { return class(err) == permanent }

// IsTransient reports whether the failure is an outage that ends without a change to the
// message: an error in err's tree is marked so by [Transient] or by a method
// `Transient() bool` that reports true. An error with neither mark is unknown, the
// handler's own: neither function reports true.
//
// Of several marks in one chain the outermost wins; of joined errors ([errors.Join])
// transient only when all marked ones are.
func IsTransient(err error) bool { return class(err) == transient }

// Permanent marks err as permanent. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &classified{err, permanent}
}

// Transient marks err as transient. It returns nil for nil.
func Transient(err error) error {
	if err == nil {
		return nil
	}
	return &classified{err, transient}
}

type errorClass int

const (
	unknown errorClass = iota
	transient
	permanent
)

type classified struct {
	error
	class errorClass
}

func (e *classified) Unwrap() error   { return e.error }
func (e *classified) Permanent() bool { return e.class == permanent }
func (e *classified) Transient() bool { return e.class == transient }

func class(err error) errorClass {
	for err != nil {
		if p, ok := err.(interface{ Permanent() bool }); ok && p.Permanent() {
			return permanent
		}
		if t, ok := err.(interface{ Transient() bool }); ok && t.Transient() {
			return transient
		}
		switch x := err.(type) {
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			worst := unknown
			for _, e := range x.Unwrap() {
				worst = max(worst, class(e))
			}
			return worst
		default:
			return unknown
		}
	}
	return unknown
}
