package middleware

import (
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// HeaderCaps applies the rules for forwarded provider headers ([envelope.ForwardHeaders]) to
// messages that come from elsewhere than package webhook, which applies them itself: those of
// another producer that are passed on, and those that a program makes of its own headers. It
// is a wrapper of a publisher.
//
//	pub = hookmw.HeaderCaps{}.WrapPublisher(pub)
//
// It sees [envelope.MetadataHeaders] of messages that carry an envelope, and no other metadata.
// Headers that are kept stay as they are: a value is not looked into, so that one which its
// source replaced by a hash is passed on as that. A message with nothing to drop, to lower or
// to join is passed on itself and without a copy; where something changes a copy is published,
// and the message of the caller stays as it was.
//
// Malformed messages pass untouched. So do headers that are not one JSON object of strings:
// sealing refuses them, with [envelope.CodeInvalidField], and sends nothing.
//
// The zero value drops what is never forwarded, and applies the default caps. A HeaderCaps may be
// used by many goroutines at once.
type HeaderCaps struct {
	// Forward are the rules for all sources, unless For is set.
	Forward envelope.ForwardOptions
	// For returns the rules for a source ([envelope.MetadataSourceID]) in place of Forward;
	// the names in Forward.Never hold for every source all the same. It is called for each
	// message that has headers, by several goroutines at once. A negative cap that it returns
	// is the default, and with an unknown mode nothing is forwarded.
	For func(sourceID string) envelope.ForwardOptions

	// Dropped is told of each message that lost headers to a cap, once it is published: msg is
	// the caller's, which still has them. It is called by several goroutines at once. nil: no
	// one is.
	Dropped func(msg *message.Message, d envelope.Dropped)
	// Observer counts. nil counts nothing.
	Observer HeaderObserver
}

// A HeaderObserver counts the headers that [HeaderCaps] drops: what
// ankusa_sink_headers_dropped_total is made of. It is called by several goroutines at once and
// must not block.
type HeaderObserver interface {
	// HeadersDropped is called once for each published message and reason, with the number of
	// its headers that a cap dropped: [ReasonCount] or [ReasonBytes]. A publish that fails
	// counts nothing, so that the next attempt does not count twice. Headers that are not
	// forwarded by rule are never counted.
	HeadersDropped(reason string, n int)
}

// The reasons of a [HeaderObserver].
const (
	ReasonCount = "count" // MaxHeaders were kept already
	ReasonBytes = "bytes" // name and value did not fit in what was left of MaxHeaderBytes
)

// Validate reports everything that is wrong with Forward.
func (c HeaderCaps) Validate() error { return c.Forward.Validate() }

// WrapPublisher returns a publisher that applies the rules and publishes through pub, in one call
// and in order. It has the name of pub (its String), may be used by several goroutines at once,
// and closes pub once. Publish after Close is [marshaler.ErrClosed]. It panics when pub is nil.
func (c HeaderCaps) WrapPublisher(pub message.Publisher) message.Publisher {
	return &headerPublisher{wrapper: wrap(pub), caps: c}
}

type headerPublisher struct {
	*wrapper
	caps HeaderCaps
}

// A headerLoss is a message that lost headers.
type headerLoss struct {
	msg     *message.Message
	dropped envelope.Dropped
}

func (p *headerPublisher) Publish(topic string, messages ...*message.Message) error {
	if err := p.open(); err != nil {
		return err
	}
	var (
		out    []*message.Message // nil while all are passed on themselves
		losses []headerLoss
	)
	for i, msg := range messages {
		from, text := headersIn(msg)
		if text == "" || text == "{}" {
			continue
		}
		kept, dropped, err := envelope.ForwardHeadersText(text, p.caps.rules(from))
		if err != nil || kept == text {
			continue
		}
		if out = own(out, messages, i); from != msg {
			out[i] = from // opened: a new message
		}
		if out[i].Metadata[envelope.MetadataHeaders] = kept; kept == "" {
			delete(out[i].Metadata, envelope.MetadataHeaders)
		}
		if dropped != (envelope.Dropped{}) {
			losses = append(losses, headerLoss{msg, dropped})
		}
	}
	if out == nil {
		return p.inner.Publish(topic, messages...)
	}
	if err := p.inner.Publish(topic, out...); err != nil {
		return err
	}
	for _, l := range losses {
		p.caps.tell(l)
	}
	return nil
}

// headersIn returns the text of the headers that msg will be sealed with, "" for none, and the
// message that has it: msg, or what it opens to where it was received without being opened.
func headersIn(msg *message.Message) (from *message.Message, text string) {
	if msg.Metadata[envelope.MetadataVersion] != "" && msg.Metadata[envelope.MetadataMalformed] == "" {
		opened, err := envelope.Prepare(msg, envelope.Defaults{})
		if err != nil {
			return msg, "" // sealing finds out too
		}
		msg = opened
	}
	if msg.Metadata[envelope.MetadataID] == "" || msg.Metadata[envelope.MetadataMalformed] != "" {
		return msg, ""
	}
	return msg, msg.Metadata[envelope.MetadataHeaders]
}

// rules returns the rules for a message.
func (c *HeaderCaps) rules(msg *message.Message) envelope.ForwardOptions {
	if c.For == nil {
		return c.Forward
	}
	o := c.For(msg.Metadata[envelope.MetadataSourceID])
	switch {
	case len(o.Never) == 0:
		o.Never = c.Forward.Never
	case len(c.Forward.Never) > 0:
		o.Never = slices.Concat(c.Forward.Never, o.Never)
	}
	return o
}

func (c *HeaderCaps) tell(l headerLoss) {
	if c.Dropped != nil {
		c.Dropped(l.msg, l.dropped)
	}
	if c.Observer == nil {
		return
	}
	if l.dropped.Count > 0 {
		c.Observer.HeadersDropped(ReasonCount, l.dropped.Count)
	}
	if l.dropped.Bytes > 0 {
		c.Observer.HeadersDropped(ReasonBytes, l.dropped.Bytes)
	}
}
