package middleware

import (
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// A FailureObserver counts the attempts to handle a message that fail. Its method is called by
// several goroutines at once and must not block.
type FailureObserver interface {
	// HandlerFailed is called for each attempt. handler is the handler's name; class is
	// "permanent", "transient" or "unknown", for the handler's own errors; code is a
	// [claimcheck.Code] or an [envelope.Code] where the error has one, "panic" for a panic, or
	// "unknown".
	HandlerFailed(handler, class, code string)
}

var errPanic = errors.New("the handler panicked")

const codePanic = "panic"

// failures logs and counts what h fails with. A panic goes on, with its stack.
func (c *Chain) failures(h message.HandlerFunc) message.HandlerFunc {
	if c.config.Logger == nil && c.config.Observer == nil {
		return h
	}
	return func(msg *message.Message) ([]*message.Message, error) {
		returned := false
		defer func() {
			if !returned {
				c.failed(msg, errPanic)
			}
		}()
		produced, err := h(msg)
		returned = true
		if err != nil {
			c.failed(msg, err)
		}
		return produced, err
	}
}

func (c *Chain) failed(msg *message.Message, err error) {
	ctx := msg.Context()
	f := failure{text: "message to be retried", err: err}
	class := "unknown"
	switch {
	case envelope.IsPermanent(err):
		f.text, f.final, class = failedForGood, true, "permanent"
	case envelope.IsTransient(err):
		class = "transient"
	}
	if c.config.Observer != nil {
		c.config.Observer.HandlerFailed(message.HandlerNameFromCtx(ctx), class, outcome(err))
	}
	if !isLogged(msg, err) {
		f.log(ctx, c.config.Logger, msg)
	}
}

const failedForGood = "message failed for good"

// gaveUp logs a message that goes to the poison topic because of its handler's own error.
// Those that permanent errors send there were logged as that.
func (c *Chain) gaveUp(msg *message.Message, err error) {
	if ShouldPoison(err) && !envelope.IsPermanent(err) {
		failure{text: failedForGood, final: true, err: err}.log(msg.Context(), c.config.Logger, msg)
	}
}

// isLogged reports whether a claim check has logged err, which its OpenBody gave to a handler.
func isLogged(msg *message.Message, err error) bool {
	var e *MessageError
	return errors.As(err, &e) && e.logged && e.Index < 0 && e.ID == msg.UUID
}
