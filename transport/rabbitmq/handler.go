package rabbitmq

import (
	"context"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// An attempt is in the context of each message that a Subscriber hands out.
type attempt struct {
	number int64

	mu  sync.Mutex
	err error
}

type attemptKey struct{}

// Attempt returns which attempt at handling a message this is, from the message's context: 1
// for the first. It is 0 for a context that is not of a [Subscriber]'s message.
func Attempt(ctx context.Context) int64 {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return 0
	}
	return a.number
}

func (a *attempt) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Nack nacks msg and says why, for those who read a Subscriber's Go channel without a router.
// A permanent error ([envelope.IsPermanent]) ends the attempts. It returns what msg.Nack does.
func Nack(msg *message.Message, err error) bool {
	note(msg.Context(), err)
	return msg.Nack()
}

func note(ctx context.Context, err error) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		a.mu.Lock()
		a.err = err
		a.mu.Unlock()
	}
}

// Middleware tells the [Subscriber] why a message was nacked, which a router knows and does
// not tell: an error that is permanent ([envelope.IsPermanent]), such as a type that nothing
// handles, then exhausts the message at once, without further attempts. Without it every
// error counts as one that another attempt may help. A panic becomes an error, whose attempt
// has failed.
//
// It goes first, outside of middlewares that retry or swallow errors:
//
//	router.AddMiddleware(rabbitmq.Middleware, ...)
func Middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) (produced []*message.Message, err error) {
		ctx := msg.Context() // a handler may set another
		defer func() {
			if p := recover(); p != nil {
				produced, err = nil, fmt.Errorf("rabbitmq: handler panicked: %v", p)
			}
			if err != nil {
				note(ctx, err)
			}
		}()
		return h(msg)
	}
}
