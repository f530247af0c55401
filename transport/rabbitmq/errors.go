package rabbitmq

import (
	"errors"
	"fmt"
	"net"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
)

var (
	// ErrClosed is the error of using what was closed.
	ErrClosed = errors.New("rabbitmq: closed")
	// ErrUnconfirmed is found in the transient error of a message that was sent, perhaps,
	// and not confirmed in time. Publishing it again may store it twice.
	ErrUnconfirmed = errors.New("not confirmed, and perhaps stored")
)

// A BatchError says which messages of one Publish call were not published; all others were,
// and were confirmed. To publish all of them again stores those a second time.
type BatchError struct {
	Messages int // of the call
	Failed   []Failure
}

// A Failure is a message of a batch that was not published.
type Failure struct {
	Index int // in the call
	Err   error
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("rabbitmq: %d of %d messages not published, message %d first: %v",
		len(e.Failed), e.Messages, e.Failed[0].Index, e.Failed[0].Err)
}

// Unwrap returns the error of each failed message.
func (e *BatchError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i, f := range e.Failed {
		errs[i] = f.Err
	}
	return errs
}

// MessageError returns the error of the message at that index of the call, and nil for one that
// was published.
func (e *BatchError) MessageError(index int) error {
	for _, f := range e.Failed {
		if f.Index == index {
			return f.Err
		}
	}
	return nil
}

// unroutable is the error of a returned message.
func unroutable(r *amqp.Return) error {
	return &bus.Error{
		Code: bus.CodeUnroutable, RoutingKey: r.RoutingKey, ReplyCode: r.ReplyCode, ReplyText: r.ReplyText,
	}
}

func transport(err error) error { return &bus.Error{Code: bus.CodeTransport, Err: err} }

// rejected is the error of a message that the broker closed a channel or a connection over.
// It is permanent, but for a missing exchange and missing rights, which somebody may mend.
func rejected(err *amqp.Error) error {
	if err.Code == amqp.NotFound || err.Code == amqp.AccessRefused {
		return transport(err)
	}
	return envelope.Permanent(transport(err))
}

// said returns err as it may be shown: what the broker said without the user's name.
func said(err error) error {
	var broker *amqp.Error
	if errors.As(err, &broker) {
		return scrub(broker)
	}
	return err
}

// refused reports whether the broker closed a channel or a connection over what it was sent,
// and not because of itself or of the network.
func refused(err *amqp.Error) bool {
	return err != nil && err.Server && err.Code != amqp.ConnectionForced && err.Code != amqp.InternalError
}

// isRefusal reports whether the broker ended the handshake at the login or the virtual host.
func isRefusal(err error) bool {
	var broker *amqp.Error
	if errors.As(err, &broker) && broker.Server {
		return broker.Code == amqp.AccessRefused || broker.Code == amqp.NotAllowed
	}
	return errors.Is(err, amqp.ErrCredentials) || errors.Is(err, amqp.ErrVhost) || errors.Is(err, amqp.ErrSASL)
}

// dialing returns the error of a failed attempt to connect, in words that are true: the
// client names every end of the handshake after the step that it was in.
func dialing(err error) error {
	var broker *amqp.Error
	switch {
	case errors.Is(err, amqp.ErrCredentials):
		return errors.New("the broker ended the handshake at the login: wrong user or password, or it is going down")
	case errors.Is(err, amqp.ErrVhost):
		return errors.New("the broker ended the handshake at the virtual host: no such host, no access, or it is going down")
	case errors.As(err, &broker):
		return scrub(broker)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errors.New("no answer in time")
	}
	return err
}
