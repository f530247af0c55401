package middleware

import (
	"fmt"
	"strconv"

	"github.com/watermill-envelope/envelope"
)

// A MessageError says which message a [ClaimCheck] failed with. It is permanent or transient
// as Err is. Its text holds nothing of the body, its headers or a credential.
type MessageError struct {
	// ID is the message's UUID.
	ID string
	// Index is its place in the call of Publish, from 0, and -1 for a message that was
	// received.
	Index int
	// Claim is its reference, as [envelope.MaskClaim] returns it; "" where it has none.
	Claim string
	// Err is the cause: mostly a [claimcheck.Error], an [envelope.Error] or an
	// [envelope.TooLargeError].
	Err error

	logged bool
}

func (e *MessageError) Error() string {
	place := ""
	if e.Index >= 0 {
		place = " at index " + strconv.Itoa(e.Index)
	}
	return fmt.Sprintf("claim check: message %.128q%s: %v", e.ID, place, e.Err)
}

// Unwrap returns the cause.
func (e *MessageError) Unwrap() error { return e.Err }

// A CheckInError is the error of a call of Publish in which bodies could not be stored. Nothing
// of the call was published; what was stored of it is left to retention. It is permanent when
// all its messages are at fault, else transient, so that no outage dead-letters a message.
type CheckInError struct {
	// Messages are the messages that failed, at least one, in the order of the call.
	Messages []*MessageError
}

func (e *CheckInError) Error() string {
	if len(e.Messages) == 0 {
		return "claim check: no message failed"
	}
	// The text may become metadata, which has no room for all of them.
	text := e.Messages[0].Error()
	if more := len(e.Messages) - 1; more > 0 {
		text += " (and " + strconv.Itoa(more) + " more)"
	}
	return text
}

// Unwrap returns the errors of the messages.
func (e *CheckInError) Unwrap() []error {
	errs := make([]error, len(e.Messages))
	for i, m := range e.Messages {
		errs[i] = m
	}
	return errs
}

// Permanent reports whether trying again cannot help any of the messages.
func (e *CheckInError) Permanent() bool {
	for _, m := range e.Messages {
		if !envelope.IsPermanent(m) {
			return false
		}
	}
	return true
}

// Transient reports whether trying again may help one of the messages.
func (e *CheckInError) Transient() bool { return !e.Permanent() }
