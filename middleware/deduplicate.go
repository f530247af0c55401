package middleware

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/inbox"
)

// A DeduplicateConfig says how a [Deduplicate] works. Seen is required.
type DeduplicateConfig struct {
	// Seen remembers what was handled: an [inbox.Memory], or one of packages redisinbox and
	// sqlinbox.
	Seen inbox.Seen
	// Scope is what the keys begin with. Two handlers of one scope that share a Seen count as
	// one: a message that one of them has handled is a duplicate for the other. Empty means
	// the name of the handler in the message's context, so that each handles every message.
	Scope string
	// IncludeReplay lets deliberate replays through: a message with a replay id is a duplicate
	// of the same replay only. Otherwise a replay of what was handled is a duplicate.
	IncludeReplay bool
	// Observer counts. nil counts nothing.
	Observer DuplicateObserver
}

// A DuplicateObserver counts what a [Deduplicate] does: what metrics are made of. Its methods
// are called by several goroutines at once and must not block.
type DuplicateObserver interface {
	// DuplicateDropped is called for each message that no handler was called for because it had
	// been handled before.
	DuplicateDropped(topic string)
}

// Validate reports everything that is wrong with c.
func (c DeduplicateConfig) Validate() error {
	if c.Seen == nil {
		return errors.New("deduplicate: no Seen")
	}
	return nil
}

// A Deduplicate keeps a message that was handled from being handled again: when a broker
// delivers it twice, when a provider sends it twice, and when it is replayed. It may be used by
// many handlers at once.
//
// The key of a message is that of [DeduplicationKey] under the configured scope.
type Deduplicate struct {
	config DeduplicateConfig
}

// NewDeduplicate returns a Deduplicate.
func NewDeduplicate(c DeduplicateConfig) (*Deduplicate, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Deduplicate{c}, nil
}

// Middleware is a Watermill handler middleware. It belongs inside PoisonQueue, Retry and the
// gate of [Malformed], and outside of [ClaimCheck.Middleware], so that no body is fetched for a
// duplicate: a claim that is not redeemed passes.
//
// A message whose key is kept is acknowledged without calling the handler, and produces no
// messages. Otherwise the handler runs inside [inbox.Seen.Once]: with that one's context as the
// message's, in which sqlinbox.Tx finds the transaction, and its key is kept when the handler
// succeeds. When the handler fails or panics no key is kept, and the message may come again.
// Errors of the Seen are transient, and the handler was not called or its effect is not
// promised to be kept: see the Seen.
//
// Messages that the handler returns are published by the router afterwards, when the key is
// kept already: if that fails, or the process ends, the message comes again as a duplicate, and
// they are lost. A handler whose messages must not be lost publishes them itself before it
// returns, or writes them to an outbox in the transaction of sqlinbox.
//
// Refused, with a permanent [envelope.Error], are malformed messages, as by [Malformed], and
// messages that have neither an envelope nor a UUID.
func (d *Deduplicate) Middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		key, err := d.config.key(msg)
		if err != nil {
			return nil, err
		}
		var produced []*message.Message
		ctx := msg.Context()
		defer msg.SetContext(ctx) // also when h panics: the transaction in it has ended
		first, err := d.config.Seen.Once(ctx, key, func(ctx context.Context) (err error) {
			msg.SetContext(ctx)
			produced, err = h(msg)
			return err
		})
		if err != nil {
			return nil, err
		}
		if !first && d.config.Observer != nil {
			d.config.Observer.DuplicateDropped(message.SubscribeTopicFromCtx(ctx))
		}
		return produced, nil
	}
}

// DeduplicationKey returns the key by which a received message is deduplicated, unless a
// [DeduplicateConfig] says otherwise: the name of the handler in the message's context, a colon,
// and [envelope.Envelope.DeduplicationKey]. That is the UUID of a message that carries no
// envelope, or that was made of another one since. The error is a permanent [envelope.Error], of
// a message that is malformed or has no UUID.
//
// It is a KeyFactory for Watermill's Deduplicator:
//
//	wmmw.Deduplicator{KeyFactory: hookmw.DeduplicationKey, Repository: repository}
//
// which, unlike [Deduplicate], takes a message whose handler failed for a duplicate when it
// comes again, and so belongs outside of Retry, where nothing else does.
func DeduplicationKey(msg *message.Message) (string, error) { return DeduplicateConfig{}.key(msg) }

var errNoUUID = errors.New("a message without a UUID cannot be told from another one")

func (c DeduplicateConfig) key(msg *message.Message) (string, error) {
	if err := malformedError(msg); err != nil {
		return "", err
	}
	e, err := keysOf(msg)
	if err != nil {
		return "", err
	}
	if e.ID == "" {
		return "", &envelope.Error{Code: envelope.CodeInvalidField, Field: envelope.MetadataID, Err: errNoUUID}
	}
	scope := c.Scope
	if scope == "" {
		scope = message.HandlerNameFromCtx(msg.Context())
	}
	if c.IncludeReplay {
		return scope + ":" + e.DeduplicationKeyWithReplay(), nil
	}
	return scope + ":" + e.DeduplicationKey(), nil
}

// keysOf returns what the key of msg is made of. Nothing else is read: the digest of the body
// costs more than the rest.
func keysOf(msg *message.Message) (*envelope.Envelope, error) {
	md := msg.Metadata
	switch {
	case md[envelope.MetadataVersion] != "": // still sealed
		return envelope.FromMessage(msg)
	case md[envelope.MetadataID] != msg.UUID:
		return &envelope.Envelope{ID: msg.UUID}, nil
	}
	return &envelope.Envelope{
		ID:             msg.UUID,
		IdempotencyKey: md[envelope.MetadataIdempotencyKey],
		TenantID:       md[envelope.MetadataTenantID],
		SourceID:       md[envelope.MetadataSourceID],
		DedupeKey:      md[envelope.MetadataDedupeKey],
		ReplayID:       md[envelope.MetadataReplayID],
	}, nil
}
