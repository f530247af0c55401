package marshaler

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
)

var (
	// ErrClosed is the error of a call on a publisher or subscriber that was closed.
	ErrClosed = errors.New("marshaler: closed")

	errNilPublisher  = errors.New("marshaler: nil publisher")
	errNilSubscriber = errors.New("marshaler: nil subscriber")
)

// A Publisher seals messages and publishes them through another publisher, whose transport
// keeps its own framing around them. It may be used by several goroutines at once.
type Publisher struct {
	inner  message.Publisher
	wire   Wire
	closed atomic.Bool
	close  func() error
}

var (
	_ message.Publisher = (*Publisher)(nil)
	_ Fitter            = (*Publisher)(nil)
)

// WrapPublisher returns a publisher that seals. What inner is given is a new message for
// each: the payload is the JSON, the metadata are the attributes and the metadata of the
// user, the context is the message's own, and the UUID is the id, or a UUIDv5 of an id of
// more than 36 bytes (the JSON says what the id is).
func WrapPublisher(inner message.Publisher, o Options) (*Publisher, error) {
	err := o.Validate()
	if inner == nil {
		err = errors.Join(errNilPublisher, err)
	}
	if err != nil {
		return nil, err
	}
	return &Publisher{inner: inner, wire: o.wire(), close: sync.OnceValue(inner.Close)}, nil
}

// Publish seals all messages before it publishes any, in one call to the inner publisher
// and in order: when one of them is refused, nothing is sent.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	if p.closed.Load() {
		return ErrClosed
	}
	sealed := make([]*message.Message, len(messages))
	for i, msg := range messages {
		var err error
		if sealed[i], err = p.seal(msg); err != nil {
			return err
		}
	}
	return p.inner.Publish(topic, sealed...)
}

func (p *Publisher) seal(msg *message.Message) (*message.Message, error) {
	sealed, err := p.wire.Marshal(msg)
	if err != nil {
		return nil, err
	}
	out := message.NewMessageWithContext(msg.Context(), outerUUID(sealed.ID), sealed.Body)
	out.Metadata = make(message.Metadata, len(sealed.Attributes))
	for _, a := range sealed.Attributes {
		out.Metadata[a.Name] = a.Value
	}
	return out, nil
}

// Prepare implements [Sealer].
func (p *Publisher) Prepare(_ string, msg *message.Message) (*message.Message, error) {
	return p.wire.Prepare(msg)
}

// Size implements [Sealer].
func (p *Publisher) Size(_ string, prepared *message.Message, tenant string) (inline, claim, limit int64) {
	s := p.wire.Size(prepared, tenant)
	return s.Inline, s.Claim, p.wire.MaxMessageBytes
}

// Fits implements [Fitter].
func (p *Publisher) Fits(_ string, prepared *message.Message) bool { return p.wire.Fits(prepared) }

// Close closes the inner publisher, once; every call returns what that returned.
func (p *Publisher) Close() error {
	p.closed.Store(true)
	return p.close()
}

// String returns the name that Watermill gives to the inner publisher, so that a wrapped one
// keeps its name in metrics and logs.
func (p *Publisher) String() string { return structName(p.inner) }
