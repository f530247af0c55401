package middleware

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
)

// ShouldRetry is the ShouldRetry of Watermill's Retry: everything is tried again but a
// permanent error ([envelope.IsPermanent]), which no attempt can mend.
//
// Watermill takes a step of its backoff to fill in p.Delay, so that with a Multiplier the
// interval grows by two steps for each retry.
func ShouldRetry(p middleware.RetryParams) bool { return !envelope.IsPermanent(p.Err) }

// ShouldPoison is the filter of Watermill's PoisonQueueWithFilter: everything that Retry
// gave up on goes to the poison topic but
//
//   - a transient error ([envelope.IsTransient]): an outage says nothing against the
//     message, which is nacked and waits for its end;
//   - [context.Canceled], unless marked permanent. A message's context is cancelled when its
//     subscriber closes, and Retry then returns this error instead of the handler's:
//     without the exception each shutdown would poison what is just being retried.
func ShouldPoison(err error) bool {
	switch {
	case envelope.IsTransient(err):
		return false
	case envelope.IsPermanent(err):
		return true
	}
	return !errors.Is(err, context.Canceled)
}
