package outbox

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// A Code says what went wrong. Codes are stable: they appear in metrics, logs and last_error.
type Code string

// The codes, each with its class: whether trying the same event again can help.
const (
	// CodeSerialization: a payload could not be written as JSON or read from it. Permanent.
	CodeSerialization Code = "serialization"
	// CodeTypeMismatch: another type of event was asked for. Permanent.
	CodeTypeMismatch Code = "type_mismatch"
	// CodeInvalidEvent: an event that the table cannot hold, or an open message that is no event.
	// Nothing was asked of the database. Permanent.
	CodeInvalidEvent Code = "invalid_event"
	// CodeRefused: the database does not take these values: its rules for a column, or an event id
	// that is there already. Permanent.
	CodeRefused Code = "refused"
	// CodeInvalidRow: a row in an encoding that cannot be read. Permanent.
	CodeInvalidRow Code = "invalid_row"
	// CodeMissingHandler: nothing handles events of this type. Permanent.
	CodeMissingHandler Code = "missing_handler"
	// CodeConflict: the transaction stood in the way of another one: a deadlock, a serialization
	// failure, a lock that was not granted in time. It may be run again from its begin. Transient.
	CodeConflict Code = "conflict"
	// CodeDatabase: the database did not do its work: it is down, it is slow, a connection broke,
	// the pool is exhausted, the context ended, a table is missing. Transient.
	CodeDatabase Code = "database"
	// CodeSchema: a table is not as it has to be. No class.
	CodeSchema Code = "schema"
	// CodeDispatchTimeout: a handler took longer than its lease. No class.
	CodeDispatchTimeout Code = "dispatch_timeout"
	// CodeInternal: a rule of the library itself is broken, or a handler panicked. No class.
	CodeInternal Code = "internal"
)

// An Error is every error about an event. Which fields are set depends on Code.
//
// The text of Error() is for people and may change. It shows no payload, and at most 128
// characters of a name. What a database says of values that it refuses is cut off from it.
type Error struct {
	Code Code
	// Op is what was to be done: "publish", "enqueue", "claim", "purge", ...
	Op string
	// Table is the name of the table.
	Table string
	// EventID is the event's, where one is known, or the nil UUID.
	EventID uuid.UUID
	// EventType is the event's, where one is known.
	EventType string
	// Field is what an InvalidEvent, an InvalidRow or a Schema is about: "event type", "payload",
	// "column payload", ...
	Field string
	// Reason says what is wrong with it, in words that quote nothing.
	Reason string
	// Expected and Actual are the types of a TypeMismatch.
	Expected, Actual string
	// Size and Max are the bytes of what is too long.
	Size, Max int64
	// Timeout is that of a DispatchTimeout.
	Timeout time.Duration
	// Err is the cause, or nil. That of a Serialization or Refused may quote the payload:
	// errors.Is and errors.As find it, but what prints or encodes it sees the Reason.
	Err error
}

func (e *Error) Error() string {
	s := "outbox: "
	if e.Op != "" {
		s += e.Op + " "
		if e.Table != "" {
			s += e.Table + " "
		}
		s = s[:len(s)-1] + ": "
	}
	s += string(e.Code)
	if e.Code == CodeTypeMismatch {
		s += fmt.Sprintf(": expected type %.128q, the event has %.128q", e.Expected, e.Actual)
	}
	if e.EventID != uuid.Nil {
		s += ": event " + e.EventID.String()
	}
	if e.EventType != "" {
		s += fmt.Sprintf(": type %.128q", e.EventType)
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
	if e.Timeout != 0 {
		s += ": after " + e.Timeout.String()
	}
	if e.Err != nil && e.Code != CodeSerialization && e.Code != CodeRefused {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// The sentinels, found by errors.Is in every [Error] of that code.
var (
	ErrSerialization   = errors.New("outbox: serialization")
	ErrTypeMismatch    = errors.New("outbox: type mismatch")
	ErrInvalidEvent    = errors.New("outbox: invalid event")
	ErrRefused         = errors.New("outbox: refused")
	ErrInvalidRow      = errors.New("outbox: invalid row")
	ErrMissingHandler  = errors.New("outbox: missing handler")
	ErrConflict        = errors.New("outbox: conflict")
	ErrDatabase        = errors.New("outbox: database")
	ErrSchema          = errors.New("outbox: schema")
	ErrDispatchTimeout = errors.New("outbox: dispatch timeout")
	ErrInternal        = errors.New("outbox: internal")
)

// Is reports whether target is the sentinel of e's code.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrSerialization:
		return e.Code == CodeSerialization
	case ErrTypeMismatch:
		return e.Code == CodeTypeMismatch
	case ErrInvalidEvent:
		return e.Code == CodeInvalidEvent
	case ErrRefused:
		return e.Code == CodeRefused
	case ErrInvalidRow:
		return e.Code == CodeInvalidRow
	case ErrMissingHandler:
		return e.Code == CodeMissingHandler
	case ErrConflict:
		return e.Code == CodeConflict
	case ErrDatabase:
		return e.Code == CodeDatabase
	case ErrSchema:
		return e.Code == CodeSchema
	case ErrDispatchTimeout:
		return e.Code == CodeDispatchTimeout
	case ErrInternal:
		return e.Code == CodeInternal
	}
	return false
}

// Permanent reports whether the same event will fail again.
func (e *Error) Permanent() bool {
	switch e.Code {
	case CodeSerialization, CodeTypeMismatch, CodeInvalidEvent, CodeRefused, CodeInvalidRow, CodeMissingHandler:
		return true
	}
	return false
}

// Transient reports whether the failure is an outage that ends without a change to the event.
func (e *Error) Transient() bool { return e.Code == CodeConflict || e.Code == CodeDatabase }

// invalid is the InvalidEvent of this field.
func invalid(field, reason string) *Error {
	return &Error{Code: CodeInvalidEvent, Field: field, Reason: reason}
}
