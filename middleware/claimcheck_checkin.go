package middleware

import (
	"context"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
)

// checkIn stores the bodies of the messages of out at those indexes, and puts copies there that
// are their claims. The error is a CheckInError.
func (p *claimPublisher) checkIn(topic string, messages, out []*message.Message, large []int) error {
	bodies := make([]claimcheck.Body, len(large))
	for k, i := range large {
		tenant, err := p.tenant(out[i])
		if err != nil {
			return err // it was asked before
		}
		bodies[k] = claimcheck.Body{
			Tenant: tenant, ID: out[i].UUID, ContentType: out[i].Metadata[envelope.MetadataContentType],
			ReceivedAt: receivedAt(out[i]), Data: out[i].Payload,
		}
	}
	ctx, cancel := p.c.checkInContext(out, large)
	defer cancel()
	var begin time.Time
	if p.c.config.Observer != nil {
		begin = time.Now()
	}
	claims := p.c.checker.CheckIn(ctx, bodies)
	if p.c.config.Observer != nil {
		took := time.Since(begin)
		for k := range claims {
			p.c.config.Observer.CheckedIn(topic, int64(len(bodies[k].Data)), took, outcome(claims[k].Err))
		}
	}
	var failed CheckInError
	for k, i := range large {
		if err := claims[k].Err; err != nil {
			e := &MessageError{ID: out[i].UUID, Index: i, Err: err}
			failed.Messages = append(failed.Messages, e)
			failure{text: notPublished, topic: topic, err: e}.log(out[i].Context(), p.c.config.Logger, out[i])
			continue
		}
		own(out, messages, i)
		out[i].Payload = nil
		out[i].Metadata[envelope.MetadataClaim] = claims[k].Ref.String()
		out[i].Metadata[envelope.MetadataSHA256] = claims[k].SHA256
		out[i].Metadata[envelope.MetadataSize] = strconv.FormatInt(claims[k].Size, 10)
	}
	if len(failed.Messages) > 0 {
		return &failed
	}
	return nil
}

func receivedAt(prepared *message.Message) time.Time {
	ms, err := strconv.ParseInt(prepared.Metadata[envelope.MetadataReceivedAt], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// checkInContext returns the context under which the bodies of those messages are stored: that
// of the first, ended by the end of any other. Of one that is done already it has the values
// only, and ends after Timeout.
func (c *ClaimCheck) checkInContext(messages []*message.Message, indexes []int) (context.Context, context.CancelFunc) {
	values := messages[indexes[0]].Context()
	if values.Err() != nil {
		values = context.WithoutCancel(values)
	}
	ctx, cancel := context.WithCancel(values)
	var ends []func() bool
	seen := values.Done()
	done := false
	for _, i := range indexes {
		other := messages[i].Context()
		switch {
		case other.Done() == seen: // mostly all are the same
		case other.Err() != nil:
			done = true
		default:
			ends = append(ends, context.AfterFunc(other, cancel))
		}
	}
	stop := cancel
	if done {
		ctx, stop = context.WithTimeout(ctx, c.config.Timeout)
	}
	return ctx, func() {
		stop()
		cancel()
		for _, end := range ends {
			end()
		}
	}
}
