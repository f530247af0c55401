package inbox

import (
	"errors"
)

// A Code says why a [Seen] failed. Codes are stable: they appear in metrics and logs.
type Code string

// The codes. All of them are transient.
const (
	// CodeBusy: the key is being handled elsewhere, and the wait for that ended first.
	CodeBusy Code = "busy"
	// CodeUnavailable: what remembers the keys did not do its work: it is down, it is slow, a
	// connection broke, it is full, the context ended.
	CodeUnavailable Code = "unavailable"
	// CodeConflict: the transaction stood in the way of another one: a deadlock, a
	// serialization failure, a lock that was not granted in time.
	CodeConflict Code = "conflict"
	// CodeLost: the function returned after its claim on the key had run out, so that another
	// one may have run beside it.
	CodeLost Code = "lost"
)

// What errors.Is finds in an [Error]: the one with its code.
var (
	ErrBusy        = errors.New("inbox: busy")
	ErrUnavailable = errors.New("inbox: unavailable")
	ErrConflict    = errors.New("inbox: conflict")
	ErrLost        = errors.New("inbox: lost")
)

// An Error is a failure of a [Seen]. Its text does not hold the key, which may have come with a
// message; it is for people and may change: match on Code, or with [errors.Is] on the variables
// of this package.
type Error struct {
	Code Code
	Op   string // what was to be done: "claim", "keep", ...
	Key  string
	Err  error // the cause, or nil
}

func (e *Error) Error() string {
	s := "inbox: "
	if e.Op != "" {
		s += e.Op + ": "
	}
	s += string(e.Code)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the variable of e's code.
func (e *Error) Is(target error) bool {
	switch e.Code {
	case CodeBusy:
		return target == ErrBusy
	case CodeUnavailable:
		return target == ErrUnavailable
	case CodeConflict:
		return target == ErrConflict
	case CodeLost:
		return target == ErrLost
	}
	return false
}

// Transient reports true: nothing is wrong with the message.
func (e *Error) Transient() bool { return true }
