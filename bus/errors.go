package bus

import (
	"errors"
	"fmt"
	"strconv"
)

// A Code says what went wrong. Codes are stable: they appear in metrics, logs and dead-letter
// queues.
type Code string

// The codes, each with its class: whether trying the same message again can help.
const (
	// CodeSerialization: a payload could not be written as JSON or read from it. Permanent.
	CodeSerialization Code = "serialization"
	// CodeTypeMismatch: another type of message was asked for. Permanent.
	CodeTypeMismatch Code = "type_mismatch"
	// CodePayloadTooLarge: a payload is over the limit of the consumer. Permanent.
	CodePayloadTooLarge Code = "payload_too_large"
	// CodeMissingHandler: nothing handles messages of this type. Permanent.
	CodeMissingHandler Code = "missing_handler"
	// CodeInvalidTopology: a name or a property that AMQP or a Rust consumer cannot take, or a
	// message without a type. Permanent.
	CodeInvalidTopology Code = "invalid_topology"
	// CodeUnroutable: the broker returned a mandatory message, because no queue is bound to its
	// routing key. It has no class: a missing queue may be declared by now, but is nothing to
	// wait for without end.
	CodeUnroutable Code = "unroutable"
	// CodeTransport: the broker did not take the message, or answered with an error. Transient.
	CodeTransport Code = "transport"
	// CodeConnection: there is no connection to the broker. Transient, unless it was refused.
	CodeConnection Code = "connection"
	// CodeInternal: a rule of the library itself is broken, or a handler panicked. No class.
	CodeInternal Code = "internal"
)

// An Error is every error of this package and of those that carry its messages. Which fields
// are set depends on Code.
//
// The text of Error() is for people and may change. It shows no payload and no header value,
// and at most 128 characters of a name.
type Error struct {
	Code Code
	// Field is what an InvalidTopology is about: "message type", "reply_to", "header key",
	// "header value", "routing key", "content header", ...
	Field string
	// Reason says what is wrong with it, in words that quote nothing.
	Reason string
	// Expected and Actual are the types of a TypeMismatch. Actual is the type of a
	// MissingHandler.
	Expected, Actual string
	// Size and Max are the bytes of a PayloadTooLarge, and of a content header.
	Size, Max int64
	// RoutingKey, ReplyText and ReplyCode say what was returned as Unroutable, and why.
	RoutingKey, ReplyText string
	ReplyCode             uint16
	// Refused: the server refused the credentials or the protocol, so that connecting again
	// cannot help.
	Refused bool
	// Err is the cause, or nil. That of a Serialization may quote the payload: errors.Is and
	// errors.As find it, but what prints or encodes it sees the Reason.
	Err error
}

func (e *Error) Error() string {
	s := "bus: " + string(e.Code)
	switch e.Code {
	case CodeTypeMismatch:
		s += fmt.Sprintf(": expected type %.128q, the message has %.128q", e.Expected, e.Actual)
	case CodeMissingHandler:
		s += fmt.Sprintf(": nothing handles type %.128q", e.Actual)
	case CodeUnroutable:
		s += fmt.Sprintf(": routing key %.128q was returned: %d %.128q", e.RoutingKey, e.ReplyCode, e.ReplyText)
	}
	if e.Field != "" {
		s += ": " + e.Field
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.Max != 0 {
		s += ": " + strconv.FormatInt(e.Size, 10) + " bytes, at most " + strconv.FormatInt(e.Max, 10)
	}
	if e.Err != nil && e.Code != CodeSerialization {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// The sentinels, found by errors.Is in every [Error] of that code.
var (
	ErrSerialization   = errors.New("bus: serialization")
	ErrTypeMismatch    = errors.New("bus: type mismatch")
	ErrPayloadTooLarge = errors.New("bus: payload too large")
	ErrMissingHandler  = errors.New("bus: missing handler")
	ErrInvalidTopology = errors.New("bus: invalid topology")
	ErrUnroutable      = errors.New("bus: unroutable")
	ErrTransport       = errors.New("bus: transport")
	ErrConnection      = errors.New("bus: connection")
	ErrInternal        = errors.New("bus: internal")
)

// Is reports whether target is the sentinel of e's code.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrSerialization:
		return e.Code == CodeSerialization
	case ErrTypeMismatch:
		return e.Code == CodeTypeMismatch
	case ErrPayloadTooLarge:
		return e.Code == CodePayloadTooLarge
	case ErrMissingHandler:
		return e.Code == CodeMissingHandler
	case ErrInvalidTopology:
		return e.Code == CodeInvalidTopology
	case ErrUnroutable:
		return e.Code == CodeUnroutable
	case ErrTransport:
		return e.Code == CodeTransport
	case ErrConnection:
		return e.Code == CodeConnection
	case ErrInternal:
		return e.Code == CodeInternal
	}
	return false
}

// Permanent reports whether the same message will fail again.
func (e *Error) Permanent() bool {
	switch e.Code {
	case CodeSerialization, CodeTypeMismatch, CodePayloadTooLarge, CodeMissingHandler, CodeInvalidTopology:
		return true
	case CodeConnection:
		return e.Refused
	}
	return false
}

// Transient reports whether the failure is an outage that ends without a change to the message.
func (e *Error) Transient() bool {
	return e.Code == CodeTransport || e.Code == CodeConnection && !e.Refused
}

// invalid is the InvalidTopology of this field.
func invalid(field, reason string) *Error {
	return &Error{Code: CodeInvalidTopology, Field: field, Reason: reason}
}
