package middleware

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope/marshaler"
)

// A ChainConfig says what is in a [Chain]. The zero value is a chain of all that needs no
// configuration.
type ChainConfig struct {
	// Trace makes spans of what is published and handled.
	Trace Trace
	// HeaderCaps are the rules for provider headers of what is published.
	HeaderCaps HeaderCaps
	// Malformed is the gate. Its PassClaims is set where ClaimCheck is: what is behind the gate
	// redeems. Its Quarantine must be wrapped, or made with a marshaler, as PoisonQueue's
	// publisher must.
	Malformed Malformed
	// Diagnostics cut what PoisonQueue writes, so that any message can be dead-lettered.
	Diagnostics Diagnostics
	// Verification decides on hooks that are not trusted. As it is, it lets them through.
	Verification Verification
	// ClaimCheck stores and redeems large bodies. nil does neither: claims are then refused
	// by the gate.
	ClaimCheck *ClaimCheck
	// Deduplicate keeps a message from being handled twice. nil does not.
	Deduplicate *Deduplicate

	// Logger gets the failure log of [Chain.Middleware], and what Malformed and Verification do
	// without an error, where they have no Logger. nil logs nothing.
	Logger *slog.Logger
	// Observer counts, also for HeaderCaps, Malformed and Verification where they have no
	// Observer. nil counts nothing.
	Observer ChainObserver
}

// A ChainObserver counts what the parts of a [Chain] do. metrics.Collectors is one.
type ChainObserver interface {
	FailureObserver
	HeaderObserver
	MalformedObserver
	VerificationObserver
}

// Validate reports everything that is wrong with c.
func (c ChainConfig) Validate() error {
	var errs []error
	for _, part := range []struct {
		name string
		err  error
	}{
		{"Trace", c.Trace.Validate()},
		{"HeaderCaps", c.HeaderCaps.Validate()},
		{"Malformed", c.Malformed.Validate()},
		{"Diagnostics", c.Diagnostics.Validate()},
		{"Verification", c.Verification.Validate()},
	} {
		if part.err != nil {
			errs = append(errs, fmt.Errorf("chain: %s: %w", part.name, part.err))
		}
	}
	return errors.Join(errs...)
}

// A Chain is the middlewares of this package in the order that they belong in, on both sides:
//
//	chain, err := hookmw.NewChain(hookmw.ChainConfig{ClaimCheck: cc, Logger: slog.Default()})
//	pub, err = chain.WrapPublisher(pub, m)
//	poison, err := chain.PoisonQueue(pub, nil, "orders.poison")
//	router.AddMiddleware(
//		poison,
//		wmmw.Retry{MaxRetries: 5, InitialInterval: time.Second, ShouldRetry: hookmw.ShouldRetry}.Middleware,
//		wmmw.Recoverer,
//		chain.Middleware,
//	)
//
// where m is the marshaler that pub was made with. Whatever publishes gets a publisher that was
// wrapped: a router's handlers, a CQRS bus, PoisonQueue, Requeuer, a delay or requestreply
// publisher, and a Forwarder the one that it forwards to (not that of its outbox). These keep
// theirs to themselves, so that what wraps a router's publishers only, as a
// [message.PublisherDecorator] does, is missed by what handlers publish through them.
//
// Any number of goroutines may use a Chain, for any number of publishers and handlers.
type Chain struct {
	config ChainConfig
	redeem *ClaimCheck // what Middleware redeems with: it does not log where the chain does
}

// NewChain returns a Chain, or everything that is wrong with c.
func NewChain(c ChainConfig) (*Chain, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Observer != nil {
		c.observe()
	}
	chain := &Chain{config: c}
	if c.Logger != nil {
		chain.config.logOnce()
	}
	if c.ClaimCheck != nil {
		redeem := *c.ClaimCheck
		if c.Logger != nil {
			redeem.config.Logger = nil
		}
		chain.redeem = &redeem
		chain.config.Malformed.PassClaims = true
	}
	return chain, nil
}

// observe makes the Observer that of each part that has none.
func (c *ChainConfig) observe() {
	if c.HeaderCaps.Observer == nil {
		c.HeaderCaps.Observer = c.Observer
	}
	if c.Malformed.Observer == nil {
		c.Malformed.Observer = c.Observer
	}
	if c.Verification.Observer == nil {
		c.Verification.Observer = c.Observer
	}
}

// logOnce leaves the parts those lines that the failure log does not have.
func (c *ChainConfig) logOnce() {
	if c.Malformed.Logger == nil {
		c.Malformed.Logger = c.Logger
	}
	c.Malformed.chained = true
	switch {
	case c.Verification.Untrusted == PassUntrusted:
		c.Logger.Info(allPass) // once, not for each handler
		c.Verification.Logger = nil
	case c.Verification.Untrusted == RefuseUntrusted:
		c.Verification.Logger = nil
	case c.Verification.Logger == nil:
		c.Verification.Logger = c.Logger
	}
}

// WrapPublisher returns a publisher behind the chain's publishing side, outermost first:
//
//  1. What was made under the context of a handler behind Middleware, and has no envelope,
//     gets the tenant and the region of the message that the handler was called for, where it
//     has none. Nothing else of that message, whose source, keys and headers are its own.
//  2. [Trace].
//  3. [HeaderCaps].
//  4. The claim check, as [ClaimCheck.WrapPublisher] says. sealer is the marshaler that pub was
//     made with; nil stands for pub itself, where that is a [marshaler.Sealer]. Without a
//     claim check it is not asked.
//
// The messages are not changed but for what [envelope.Prepare] may change. A publisher that
// was wrapped by this chain is returned as it is. The publisher has the name of pub (its
// String), may be used by several goroutines at once, and closes pub once. Publish after Close
// is [marshaler.ErrClosed].
func (c *Chain) WrapPublisher(pub message.Publisher, sealer marshaler.Sealer) (message.Publisher, error) {
	if pub == nil {
		return nil, errors.New("chain: nil publisher")
	}
	if p, ok := pub.(*chainPublisher); ok && p.chain == c {
		return pub, nil
	}
	if sealer == nil {
		sealer, _ = pub.(marshaler.Sealer)
	}
	if c.config.ClaimCheck != nil {
		var err error
		if pub, err = c.config.ClaimCheck.WrapPublisher(pub, sealer); err != nil {
			return nil, fmt.Errorf("chain: %w", err)
		}
	}
	pub = c.config.Trace.WrapPublisher(c.config.HeaderCaps.WrapPublisher(pub))
	return &chainPublisher{wrapper: wrap(pub), chain: c, sealer: sealer}, nil
}

// PublisherDecorator is WrapPublisher for message.Router.AddPublisherDecorators, where sealer is
// the marshaler of every handler's publisher. It does not reach what handlers publish
// themselves. With a claim check sealer must not be nil where the router has handlers that
// publish nothing: theirs is a publisher of Watermill's that is no Sealer.
func (c *Chain) PublisherDecorator(sealer marshaler.Sealer) message.PublisherDecorator {
	return func(pub message.Publisher) (message.Publisher, error) { return c.WrapPublisher(pub, sealer) }
}

// PoisonQueue is Watermill's PoisonQueueWithFilter with [ShouldPoison] and a publisher that is
// wrapped as by WrapPublisher, and by [Diagnostics] where there is a sealer to ask: give it one,
// also without a claim check. It belongs outside of Retry, and Middleware inside of that. It
// writes a line to the failure log for a message that its handler's own error sends to the
// poison topic, once Retry has given up; Middleware could not know that it would.
func (c *Chain) PoisonQueue(pub message.Publisher, sealer marshaler.Sealer, topic string) (message.HandlerMiddleware, error) {
	wrapped, err := c.WrapPublisher(pub, sealer)
	if err != nil {
		return nil, err
	}
	if p, ok := wrapped.(*chainPublisher); ok && p.sealer != nil {
		if wrapped, err = c.config.Diagnostics.WrapPublisher(wrapped, p.sealer); err != nil {
			return nil, fmt.Errorf("chain: %w", err)
		}
	}
	poison, err := wmmw.PoisonQueueWithFilter(wrapped, topic, ShouldPoison)
	if err != nil {
		return nil, fmt.Errorf("chain: %w", err)
	}
	return func(h message.HandlerFunc) message.HandlerFunc {
		return poison(func(msg *message.Message) ([]*message.Message, error) {
			produced, err := h(msg)
			if err != nil {
				c.gaveUp(msg, err)
			}
			return produced, err
		})
	}, nil
}

// Middleware is a Watermill handler middleware: the chain's consuming side, outermost first:
//
//  1. [Trace].
//  2. The failure log, see below.
//  3. [Malformed].
//  4. [Verification].
//  5. [Deduplicate], so that no body is fetched for a duplicate.
//  6. [ClaimCheck.Middleware].
//
// It belongs inside PoisonQueue, Retry and Recoverer.
//
// Messages that the handler returns without an envelope get the tenant and the region of the
// message that they were made because of, where they have none, and its trace: so do those that
// it publishes under its message's context through a publisher of the chain.
//
// # The failure log
//
// Logger gets one line for each attempt that fails, by an error or a panic: "message failed for
// good" at level error where the error is permanent, else "message to be retried" at level
// warn. It has message_id, source_id, tenant_id, topic, handler, code, field, claim (without
// its signature) and error, the text, as far as they are not empty, and nothing of the body or
// its headers. What becomes a line here is no line of Malformed,
// Verification or ClaimCheck too.
func (c *Chain) Middleware(h message.HandlerFunc) message.HandlerFunc {
	h = c.handler(h)
	if c.redeem != nil {
		h = c.redeem.Middleware(h)
	}
	if c.config.Deduplicate != nil {
		h = c.config.Deduplicate.Middleware(h)
	}
	h = c.config.Malformed.Middleware(c.config.Verification.Middleware(h))
	return c.config.Trace.Middleware(c.failures(h))
}
