package middleware

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/marshaler"
)

// WrapPublisher returns a publisher that stores what does not fit. sealer is the marshaler that
// pub was made with; nil stands for pub itself, where that is a [marshaler.Sealer], as those of
// [marshaler.WrapPublisher] are.
//
// One call of Publish goes through these steps, and an error of one ends it:
//
//  1. Every message is prepared and measured as the transport counts. A body of at most
//     InlineMaxBytes stays in its message, unless the message would be over the limit of the
//     transport. A claim that a message carries is passed on while it is true: one that was
//     not redeemed, or whose body is still the payload. Every other body is to be stored. What
//     cannot be sent whatever is done is a permanent [MessageError]; nothing was stored then.
//  2. The bodies are stored, with few objects for each tenant. Where one fails nothing is
//     published, and the error is a [CheckInError].
//  3. All messages are published by one call of pub, in their order. A body that was stored
//     when this fails is left to retention, and stored again by the next attempt.
//
// A message is not changed but for what [envelope.Prepare] may change: a minted UUID where it
// had none, and empty Metadata where they were nil. What pub is given are copies with the
// same contexts, and messages that did not have to change. A malformed message is published as
// it came.
//
// Bodies are stored under the context of the first message that has one to store, and
// storing ends when the context of any of them is done. Of a context that is done already when
// Publish is called, only the values are used: Watermill's Timeout ends the context of what a
// handler returned before the router publishes it.
//
// The publisher has the name of pub (its String), may be used by several goroutines at once,
// and closes pub once. Publish after Close is [marshaler.ErrClosed].
func (c *ClaimCheck) WrapPublisher(pub message.Publisher, sealer marshaler.Sealer) (message.Publisher, error) {
	var errs []error
	if pub == nil {
		errs = append(errs, errors.New("claim check: nil publisher"))
	}
	if sealer == nil && pub != nil {
		var ok bool
		if sealer, ok = pub.(marshaler.Sealer); !ok {
			errs = append(errs, fmt.Errorf("claim check: no sealer, and %T is none", pub))
		}
	}
	if v, ok := sealer.(interface{ Validate() error }); ok {
		errs = append(errs, v.Validate())
	}
	if c.checker == nil {
		errs = append(errs, errors.New("claim check: to publish takes a Store"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	p := &claimPublisher{wrapper: wrap(pub), c: c, sealer: sealer}
	p.fitter, _ = sealer.(marshaler.Fitter)
	return p, nil
}

type claimPublisher struct {
	*wrapper
	c      *ClaimCheck
	sealer marshaler.Sealer
	fitter marshaler.Fitter // sealer, where it is one
}

func (p *claimPublisher) Publish(topic string, messages ...*message.Message) error {
	if err := p.open(); err != nil {
		return err
	}
	var (
		out   []*message.Message // nil while all are prepared already
		large []int
	)
	for i, msg := range messages {
		prepared, store, err := p.prepare(topic, msg)
		if err != nil {
			err = &MessageError{ID: msg.UUID, Index: i, Claim: envelope.MaskClaim(msg.Metadata[envelope.MetadataClaim]), Err: err}
			failure{text: notPublished, topic: topic, err: err}.log(msg.Context(), p.c.config.Logger, msg)
			return err
		}
		if out == nil && (prepared != msg || store) {
			out = slices.Clone(messages)
		}
		if out != nil {
			out[i] = prepared
		}
		if store {
			large = append(large, i)
		}
	}
	switch {
	case out == nil:
		return p.inner.Publish(topic, messages...)
	case len(large) == 0:
		return p.inner.Publish(topic, out...)
	}
	if err := p.checkIn(topic, messages, out, large); err != nil {
		return err
	}
	err := p.inner.Publish(topic, out...)
	if err != nil {
		for _, i := range large {
			failure{text: notPublished, topic: topic, err: err}.log(out[i].Context(), p.c.config.Logger, out[i])
		}
	}
	return err
}

const notPublished = "message not published"

// prepare returns msg as it would be sealed, and whether its body is to be stored. The error
// is permanent.
func (p *claimPublisher) prepare(topic string, msg *message.Message) (prepared *message.Message, store bool, err error) {
	prepared, err = p.sealer.Prepare(topic, msg)
	if err != nil {
		return nil, false, err
	}
	if p.c.config.NoReuse && isRedeemedClaim(msg, prepared) {
		for _, name := range [...]string{envelope.MetadataClaim, envelope.MetadataSHA256, envelope.MetadataSize} {
			delete(prepared.Metadata, name)
		}
		prepared.Payload = msg.Payload
	}
	size := int64(len(prepared.Payload))
	if p.fitter != nil && size <= p.c.config.InlineMaxBytes && p.fitter.Fits(topic, prepared) {
		return prepared, false, nil
	}
	inline, claim, limit := p.sealer.Size(topic, prepared, p.c.config.TenantFallback)
	switch {
	case envelope.IsMalformed(prepared):
		return prepared, false, nil
	case prepared.Metadata[envelope.MetadataClaim] != "":
		if inline > limit {
			return nil, false, &envelope.TooLargeError{Size: inline, Max: limit, What: whatClaim}
		}
		return prepared, false, nil
	case size <= p.c.config.InlineMaxBytes && inline <= limit:
		return prepared, false, nil
	case size <= p.c.config.InlineMaxBytes && size > limit:
		return nil, false, &envelope.TooLargeError{Size: inline, Max: limit, What: "message with a body up to InlineMaxBytes"}
	case claim > limit:
		return nil, false, &envelope.TooLargeError{Size: claim, Max: limit, What: whatClaim}
	}
	_, err = p.tenant(prepared)
	return prepared, true, err
}

const whatClaim = "message without its body"

// isRedeemedClaim reports whether the body of msg, which was redeemed, was left out of prepared.
// A message that was received without being opened has a payload that is no body.
func isRedeemedClaim(msg, prepared *message.Message) bool {
	return prepared != msg && prepared.Metadata[envelope.MetadataClaim] != "" && msg.Metadata[envelope.MetadataVersion] == "" &&
		(len(msg.Payload) > 0 || msg.Metadata[envelope.MetadataRedeemed] != "")
}

var errNoTenant = errors.New("the message has no tenant")

// tenant returns under whose name the body of a message is stored.
func (p *claimPublisher) tenant(prepared *message.Message) (string, error) {
	tenant := prepared.Metadata[envelope.MetadataTenantID]
	switch {
	case tenant == "" && p.c.config.RequireTenant:
		return "", &claimcheck.Error{Code: claimcheck.CodeInvalidTenant, Op: "check in", Err: errNoTenant}
	case tenant == "":
		return p.c.config.TenantFallback, nil
	case !claimcheck.ValidTenant(tenant):
		return "", &claimcheck.Error{Code: claimcheck.CodeInvalidTenant, Op: "check in", Tenant: tenant}
	}
	return tenant, nil
}
