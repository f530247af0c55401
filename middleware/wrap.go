package middleware

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
)

// A wrapper is what every publisher of this package is around another: embedded, it gives it
// the other's name and one Close. It may be used by several goroutines at once.
type wrapper struct {
	inner  message.Publisher
	close  func() error
	closed atomic.Bool
}

// wrap returns a wrapper of pub. It panics when pub is nil.
func wrap(pub message.Publisher) *wrapper {
	return &wrapper{inner: pub, close: sync.OnceValue(pub.Close)}
}

// open returns [marshaler.ErrClosed] after Close, and nil before. Publish begins with it.
func (w *wrapper) open() error {
	if w.closed.Load() {
		return marshaler.ErrClosed
	}
	return nil
}

// Close closes the inner publisher, once; every call returns what that returned.
func (w *wrapper) Close() error {
	w.closed.Store(true)
	return w.close()
}

// String returns the name that Watermill gives to the inner publisher.
func (w *wrapper) String() string {
	if s, ok := w.inner.(fmt.Stringer); ok {
		return s.String()
	}
	return strings.TrimLeft(fmt.Sprintf("%T", w.inner), "*")
}

// own returns a slice with the messages of shared, which are the caller's, and in which
// index i is a copy that may be changed: out itself, or a new slice where out is nil. The copy
// has the context, the UUID, the payload (which is shared) and its own metadata. A missing UUID
// is minted in the caller's message first, so that a retry has the same, as
// [envelope.Prepare] does.
func own(out, shared []*message.Message, i int) []*message.Message {
	if out == nil {
		out = append(make([]*message.Message, 0, len(shared)), shared...)
	}
	if out[i] == shared[i] {
		if shared[i].UUID == "" {
			shared[i].UUID = envelope.NewID()
		}
		out[i] = shared[i].CopyWithContext()
	}
	return out
}
