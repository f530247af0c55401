// Package inbox remembers which messages were handled, so that one that comes again takes no
// effect again. middleware.NewDeduplicate puts it in front of handlers.
//
//   - [Memory] is for one process, and forgets with it.
//   - package redisinbox is for many processes. It narrows the window in which a message takes
//     effect twice, and cannot close it: the effect is elsewhere.
//   - package sqlinbox closes it, for effects in the same SQL database: the key is written in
//     the transaction of the handler.
package inbox

import (
	"context"
)

// A Seen runs functions once for each key. Package inboxtest checks that one keeps these rules:
//
//   - Any number of goroutines may call Once, and any number of Seens may share what they
//     remember, in as many processes.
//   - fn is called at most once by a call of Once, by its goroutine, and only when key is not
//     kept. Keys are any bytes; two that differ in one are two.
//   - The key is kept when fn returns nil, and Once then returns true and no error. From then
//     on Once returns false and no error for that key and calls no fn, until the key has
//     expired.
//   - When fn returns an error, panics or ends its goroutine, the key is not kept: the next
//     call of Once runs its own fn. Once returns fn's error, findable by [errors.Is], which
//     keeps its class (envelope.IsTransient and IsPermanent); the panic goes on.
//   - Two fns of one key never run beside each other. While one runs, another Once of that key
//     waits for its end or returns [ErrBusy]. A fn must not call Once with its own key.
//   - fn's context is ctx, with what the Seen adds. It is cancelled when ctx is, and when the
//     Seen can no longer promise that no other fn of the key runs.
//   - The Seen's own failures are an [*Error], which is transient: it cannot be reached, the
//     key is busy, or ctx is done, whose error is then in the tree. fn was not called, or what
//     it returned could not be kept, which each Seen says more about.
type Seen interface {
	Once(ctx context.Context, key string, fn func(ctx context.Context) error) (first bool, err error)
}
