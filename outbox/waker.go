package outbox

import "context"

// A Waker says that there may be something to deliver, sooner than the next poll would find it:
// pgxoutbox.NewListener waits for the notifications of [Config.Notify].
type Waker interface {
	// Wait returns nil as soon as there was a reason to look since the last call returned, and
	// else waits for one. What wakes may be for nothing, and a reason may be missed when a
	// connection breaks: whoever waits polls as well. It returns an error when ctx ends, and when
	// the waker cannot tell any more, such as without a connection; then it may be called again,
	// after a pause. One goroutine calls it at a time.
	Wait(ctx context.Context) error
}
