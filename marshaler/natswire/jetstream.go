package natswire

import (
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/watermill-envelope/envelope/marshaler"
)

// A JetStreamFallback is what the Fallback of a [JetStreamUnmarshaler] has to be: the
// Unmarshaler of pkg/jetstream.
type JetStreamFallback interface {
	Unmarshal(jetstream.Msg) (*message.Message, error)
}

// A JetStreamUnmarshaler opens messages for the subscriber of pkg/jetstream of watermill-nats,
// which panics when an unmarshaler has an error: this one has none. Its zero value is ready
// to use. It may be used by several goroutines at once.
type JetStreamUnmarshaler struct {
	// Fallback and Observer are as those of [Marshaler].
	Fallback JetStreamFallback
	Observer marshaler.Observer
}

// Unmarshal opens a message as [Marshaler.Unmarshal] does.
func (u JetStreamUnmarshaler) Unmarshal(msg jetstream.Msg) (*message.Message, error) {
	if msg == nil {
		return nil, errNilMsg
	}
	var fallback func() (*message.Message, error)
	if u.Fallback != nil {
		fallback = func() (*message.Message, error) { return u.Fallback.Unmarshal(msg) }
	}
	w := Marshaler{Observer: u.Observer}.wire(0)
	return open(&w, msg.Subject(), msg.Reply(), msg.Headers(), msg.Data(), fallback), nil
}
