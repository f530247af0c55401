package middleware

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
)

// A cause is what a message that is made because of another has of it.
type cause struct{ tenant, region string }

// causeKey is the key of the context of a message that is being handled; its value is that
// context.
type causeKey struct{}

// A causeContext is a context with a cause. It is one allocation for each message, not two.
type causeContext struct {
	context.Context
	cause
}

func (c *causeContext) Value(key any) any {
	if _, ok := key.(causeKey); ok {
		return c
	}
	return c.Context.Value(key)
}

// causeOf returns the cause in ctx, or none.
func causeOf(ctx context.Context) cause {
	if c, ok := ctx.Value(causeKey{}).(*causeContext); ok {
		return c.cause
	}
	return cause{}
}

// handler calls h with the cause in the message's context, and gives it to what h returns.
func (c *Chain) handler(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		why := cause{msg.Metadata[envelope.MetadataTenantID], msg.Metadata[envelope.MetadataRegion]}
		// Of another message, where the transport keeps the publisher's context; or from an
		// attempt before this one.
		if ctx := msg.Context(); causeOf(ctx) != why {
			msg.SetContext(&causeContext{ctx, why})
		}
		produced, err := h(msg)
		for _, p := range produced {
			if p != nil && why.lacks(p) {
				why.give(p)
			}
		}
		return produced, err
	}
}

// lacks reports whether msg has no envelope, and not all of the cause.
func (why cause) lacks(msg *message.Message) bool {
	return msg.Metadata[envelope.MetadataID] == "" && msg.Metadata[envelope.MetadataVersion] == "" &&
		msg.Metadata[envelope.MetadataMalformed] == "" &&
		(why.tenant != "" && msg.Metadata[envelope.MetadataTenantID] == "" ||
			why.region != "" && msg.Metadata[envelope.MetadataRegion] == "")
}

func (why cause) give(msg *message.Message) {
	if msg.Metadata == nil {
		msg.Metadata = make(message.Metadata)
	}
	if msg.Metadata[envelope.MetadataTenantID] == "" && why.tenant != "" {
		msg.Metadata[envelope.MetadataTenantID] = why.tenant
	}
	if msg.Metadata[envelope.MetadataRegion] == "" && why.region != "" {
		msg.Metadata[envelope.MetadataRegion] = why.region
	}
}

type chainPublisher struct {
	*wrapper
	chain  *Chain
	sealer marshaler.Sealer // of the innermost publisher; nil where it has none
}

func (p *chainPublisher) Publish(topic string, messages ...*message.Message) error {
	if err := p.open(); err != nil {
		return err
	}
	var out []*message.Message
	for i, msg := range messages {
		if why := causeOf(msg.Context()); why.lacks(msg) {
			out = own(out, messages, i)
			why.give(out[i])
		}
	}
	if out == nil {
		out = messages
	}
	return p.inner.Publish(topic, out...)
}
