package webhook

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/watermill-envelope/envelope"
)

// A Code says why a request was refused. Codes are stable: a [Receiver] answers with them
// and logs them.
type Code string

// What a verifier found; answered with 401.
const (
	CodeInvalidSecret           Code = "invalid_secret"             // no secret, an empty one, or one that is not what its prefix says
	CodeMissingHeader           Code = "missing_header"             // a header of the signature is not there or empty
	CodeMalformedHeader         Code = "malformed_header"           // the signature header has not the form of the scheme
	CodeInvalidTimestamp        Code = "invalid_timestamp"          // not decimal digits, or over 64 bits
	CodeTimestampOutOfTolerance Code = "timestamp_out_of_tolerance" // too old, or too far ahead
	CodeNoMatchingSignature     Code = "no_matching_signature"      // no signature is that of any secret
	CodeVerificationFailed      Code = "verification_failed"        // an error of a Verifier of your own
)

// What is wrong with the request otherwise.
const (
	CodeMissingID       Code = "missing_id"         // 400: a delivery without x-ankusa-id
	CodeInvalidHeader   Code = "invalid_header"     // 400: refused by envelope.ValidHeader
	CodeIntegrity       Code = "integrity"          // 400: x-ankusa-body-sha256 is not the digest of the body
	CodeIncompleteBody  Code = "incomplete_body"    // 400: the body ended early, or is not framed as announced
	CodeBodyTimeout     Code = "body_timeout"       // 408: the body did not come in time
	CodeBodyTooLarge    Code = "body_too_large"     // 413: see BodyTooLargeError
	CodeMessageTooLarge Code = "message_too_large"  // 413: see envelope.ErrMessageTooLarge
	CodeNotFound        Code = "not_found"          // 404: for Route to say that there is no such source
	CodeNotAllowed      Code = "method_not_allowed" // 405: not a POST
	CodeRefused         Code = "refused"            // 400: a permanent error that has no code of this package
)

// What the request cannot help.
const (
	CodeOverloaded     Code = "overloaded"      // 503: a bound of the Receiver is reached
	CodePublishFailed  Code = "publish_failed"  // 503: not stored, or not known to be
	CodeUnavailable    Code = "unavailable"     // 503: a transient error of a Verifier, DedupeFunc or Route
	CodeInvalidOptions Code = "invalid_options" // 500: options that do not validate
	CodeInternal       Code = "internal"        // 500: a panic, or an error that is marked neither permanent nor transient
)

// An Error says why a request was refused. Its text is for people, may change, and has no
// header value, body or secret in it; match on Code and Field.
type Error struct {
	Code  Code
	Field string // the header or option at fault, in lower case, where there is one
	Err   error  // the cause, or nil
}

func (e *Error) Error() string {
	s := "webhook: " + string(e.Code)
	if e.Field != "" {
		s += " " + strconv.Quote(e.Field)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Permanent reports whether the same request will fail again.
func (e *Error) Permanent() bool { return !e.Transient() }

// Transient reports whether the request may be good and only this attempt failed: its body
// did not arrive, or the receiver could not take it.
func (e *Error) Transient() bool {
	switch e.Code {
	case CodeIncompleteBody, CodeBodyTimeout, CodeOverloaded, CodePublishFailed, CodeUnavailable:
		return true
	}
	return false
}

// A BodyTooLargeError is the permanent error of a request whose body is over the cap. At
// most Max bytes of it were read.
type BodyTooLargeError struct{ Max int64 }

func (e *BodyTooLargeError) Error() string {
	return "webhook: request body over " + strconv.FormatInt(e.Max, 10) + " bytes"
}

// Permanent reports true.
func (e *BodyTooLargeError) Permanent() bool { return true }

// StatusCode returns the HTTP status that a handler answers with when [FromRequest],
// [FromDelivery] or a [Verifier] returned err, which is not nil. An error from elsewhere is
// 503 when it is transient, 400 when it is permanent and 500 when it is neither.
func StatusCode(err error) int {
	switch codeOf(err) {
	case CodeInvalidSecret, CodeMissingHeader, CodeMalformedHeader, CodeInvalidTimestamp,
		CodeTimestampOutOfTolerance, CodeNoMatchingSignature, CodeVerificationFailed:
		return http.StatusUnauthorized
	case CodeMissingID, CodeInvalidHeader, CodeIntegrity, CodeIncompleteBody, CodeRefused:
		return http.StatusBadRequest
	case CodeNotFound:
		return http.StatusNotFound
	case CodeNotAllowed:
		return http.StatusMethodNotAllowed
	case CodeBodyTimeout:
		return http.StatusRequestTimeout
	case CodeBodyTooLarge, CodeMessageTooLarge:
		return http.StatusRequestEntityTooLarge
	case CodeOverloaded, CodePublishFailed, CodeUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// codeOf returns the code of err, which may have passed through other hands.
func codeOf(err error) Code {
	var e *Error
	var body *BodyTooLargeError
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &body):
		return CodeBodyTooLarge
	case errors.Is(err, envelope.ErrMessageTooLarge):
		return CodeMessageTooLarge
	case envelope.IsTransient(err):
		return CodeUnavailable
	case envelope.IsPermanent(err):
		return CodeRefused
	}
	return CodeInternal
}
