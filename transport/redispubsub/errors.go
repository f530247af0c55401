package redispubsub

import (
	"errors"
	"fmt"
	"strings"

	"github.com/watermill-envelope/envelope"
)

// What is found in an [Error], and otherwise.
var (
	// ErrClosed is the error of using what was closed.
	ErrClosed = errors.New("redispubsub: closed")
	// ErrNoSubscribers is an [Error] of a message that nobody was subscribed to.
	ErrNoSubscribers = errors.New("no subscribers")
	// ErrUnconfirmed is found in the error of a message that was sent, perhaps. Publishing it
	// again may bring it twice.
	ErrUnconfirmed = errors.New("no answer, and perhaps published")
)

// A Code says what an [Error] is about.
type Code string

// The codes.
const (
	CodeNoSubscribers Code = "no_subscribers"
	CodeUnavailable   Code = "unavailable" // Redis, its answer or the way to it
)

// An Error is one of a channel. It is transient: a subscriber may come, and so may Redis. Its
// text is not part of its compatibility.
type Error struct {
	Code    Code
	Channel string
	Err     error // nil for CodeNoSubscribers
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("redispubsub: channel %q: %v", e.Channel, ErrNoSubscribers)
	}
	return fmt.Sprintf("redispubsub: channel %q: %v", e.Channel, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is [ErrNoSubscribers] and e has its code.
func (e *Error) Is(target error) bool {
	return target == ErrNoSubscribers && e.Code == CodeNoSubscribers
}

// Transient reports true.
func (e *Error) Transient() bool { return true }

func unavailable(channel string, err error) error {
	return &Error{Code: CodeUnavailable, Channel: channel, Err: err}
}

// publishing is the error of a failed PUBLISH. A payload over proto-max-bulk-len is permanent:
// MaxMessageBytes of the marshaler is larger.
func publishing(channel string, err error) error {
	if strings.Contains(err.Error(), "invalid bulk length") {
		return envelope.Permanent(fmt.Errorf("redispubsub: channel %q: %w: %w", channel, envelope.ErrMessageTooLarge, err))
	}
	return unavailable(channel, err)
}

var errNoChannel = errors.New("redispubsub: the name of a channel is empty")
