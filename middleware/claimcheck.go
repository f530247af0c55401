package middleware

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// The defaults of a [ClaimCheckConfig].
const (
	// DefaultInlineMaxBytes is the largest body that rides in its message.
	DefaultInlineMaxBytes = 64 << 10
	// DefaultTenantFallback is whose bodies are that have no tenant.
	DefaultTenantFallback = "default"
	// DefaultCheckInTimeout bounds a check-in under a context that was already done.
	DefaultCheckInTimeout = 30 * time.Second
)

// A ClaimCheckConfig configures a [ClaimCheck]. Store, Gateway or both are required: whoever
// publishes needs a Store, whoever only consumes needs either. The rest has defaults.
type ClaimCheckConfig struct {
	// Store keeps the bodies. It is the one place that they are read from, whatever a message
	// says.
	Store claimcheck.Store
	// Gateway redeems in place of Store, as a [claimcheck.Client] does. Signed references can be
	// redeemed in no other way.
	Gateway claimcheck.Redeemer

	// InlineMaxBytes is the largest body, in bytes, that rides in its message when there is
	// room for it. 0 is [DefaultInlineMaxBytes]; with a negative value every body is stored,
	// an empty one too. It should be under the limit of the transport: a body over that limit
	// which is not over InlineMaxBytes is refused.
	InlineMaxBytes int64
	// TenantFallback is the tenant under which a body is stored whose message has none; the
	// message still has none. "" is [DefaultTenantFallback]. Where a real tenant has that
	// name, set another.
	TenantFallback string
	// RequireTenant refuses, with a permanent [claimcheck.ErrInvalidTenant], a message that
	// would have to be stored and has no tenant. So it also refuses malformed messages that
	// the transport cannot carry as they are, unless the marshaler has a default tenant.
	RequireTenant bool
	// NoReuse stores a body again that was redeemed, for a bridge between two stores. A claim
	// that was not redeemed is passed on as it is, since its body is not here.
	NoReuse bool
	// Lazy leaves the payload of a claim empty: the handler reads the body with
	// [ClaimCheck.OpenBody].
	Lazy bool

	// MaxBodyBytes is the largest body that Store redeems into memory, 0 for
	// [claimcheck.DefaultMaxBodyBytes]. A Gateway has its own limit. Lazy has none.
	MaxBodyBytes int64
	// PackMaxBytes is the size up to which bodies are stored as one object, 0 for
	// [claimcheck.DefaultPackMaxBytes].
	PackMaxBytes int64
	// Timeout bounds the check-in of messages whose context is already done when Publish is
	// called, 0 for [DefaultCheckInTimeout]. All other calls end with their contexts.
	Timeout time.Duration

	// Logger gets one line at level warn for each message that is not published or not
	// redeemed: ids, topic, handler, code, claim (without its signature) and error text, and
	// nothing of the body or its headers. nil logs nothing.
	Logger *slog.Logger
	// Observer counts. nil counts nothing.
	Observer ClaimCheckObserver
}

// A ClaimCheckObserver counts what a [ClaimCheck] does: what metrics are made of. Its methods
// are called by several goroutines at once and must not block. bytes is the size of the body,
// took the time that its call to the store or gateway took, and code what became of it: "" for
// success, else a [claimcheck.Code], an [envelope.Code], or "unknown".
type ClaimCheckObserver interface {
	// CheckedIn is called for each body that was to be stored. The bodies of one call of
	// Publish are stored together, so took is the same for all of them.
	CheckedIn(topic string, bytes int64, took time.Duration, code string)
	// Redeemed is called for each claim that was to be redeemed. bytes is what the message
	// says. A body that is read with OpenBody counts when its reader has ended or is closed,
	// under code "closed" where it was closed before its end.
	Redeemed(topic string, bytes int64, took time.Duration, code string)
}

// Validate reports everything that is wrong with c.
func (c ClaimCheckConfig) Validate() error {
	var errs []error
	if c.Store == nil && c.Gateway == nil {
		errs = append(errs, errors.New("claim check: neither Store nor Gateway"))
	}
	if c.TenantFallback != "" && !claimcheck.ValidTenant(c.TenantFallback) {
		errs = append(errs, fmt.Errorf("claim check: TenantFallback %.100q is not 1 to 64 characters of A-Z a-z 0-9 _ and -", c.TenantFallback))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("claim check: negative Timeout %v", c.Timeout))
	}
	limits := claimcheck.Config{Store: noStore{}, PackMaxBytes: c.PackMaxBytes, MaxBodyBytes: c.MaxBodyBytes}
	return errors.Join(append(errs, limits.Validate())...)
}

// noStore stands for a Store that is reported elsewhere.
type noStore struct{ claimcheck.Store }

// A ClaimCheck keeps the bodies that are too large for their messages in a store, and gives
// them back to handlers: neither side knows that a body was there.
//
//	cc, err := hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: store})
//	large, err := cc.WrapPublisher(pub, m)
//	router.AddMiddleware(cc.Middleware, hookmw.Malformed{}.Middleware)
//
// where m is the marshaler that pub was made with. Wrap a publisher before it is given to a
// router, a CQRS bus, PoisonQueue, Requeuer or Forwarder (the publisher it forwards to, not
// that of its outbox), so that none of them goes another way.
//
// What a message carries is a reference, [envelope.MetadataClaim], with the size and the digest
// of the body. Nothing is deleted by reading: other subscribers, dead letters and replays hold
// the same reference. How long objects are kept is the store's business, and must be longer
// than any message can wait.
//
// Any number of goroutines may use a ClaimCheck, for any number of publishers and handlers.
type ClaimCheck struct {
	config   ClaimCheckConfig
	checker  *claimcheck.Checker // nil without a Store
	redeemer claimcheck.Redeemer
}

// NewClaimCheck returns a ClaimCheck, or everything that is wrong with c.
func NewClaimCheck(c ClaimCheckConfig) (*ClaimCheck, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.InlineMaxBytes == 0 {
		c.InlineMaxBytes = DefaultInlineMaxBytes
	}
	c.TenantFallback = cmp.Or(c.TenantFallback, DefaultTenantFallback)
	c.Timeout = cmp.Or(c.Timeout, DefaultCheckInTimeout)
	cc := &ClaimCheck{config: c}
	if c.Store != nil {
		checker, err := claimcheck.New(claimcheck.Config{
			Store: guard{c.Store}, PackMaxBytes: c.PackMaxBytes, MaxBodyBytes: c.MaxBodyBytes,
		})
		if err != nil {
			return nil, err
		}
		cc.checker, cc.redeemer = checker, checker
	}
	if c.Gateway != nil {
		cc.redeemer = c.Gateway
	}
	return cc, nil
}
