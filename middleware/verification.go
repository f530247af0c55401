package middleware

import (
	"fmt"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// Verification decides what becomes of hooks whose verification at ingest is not trusted:
// whose status is not exactly ok, or that are flagged ([envelope.Verification.Trusted]).
//
//	router.AddMiddleware(hookmw.Malformed{}.Middleware, hookmw.Verification{Untrusted: hookmw.RefuseUntrusted}.Middleware)
//
// It believes what the message says. A message that was derived from a hook (its UUID is not
// its [envelope.MetadataID]) has no verification of its own, and counts as skipped. These
// are no hooks and pass: messages without an envelope, and malformed ones, which are the
// business of [Malformed], further out.
//
// The zero value lets all hooks through, and says so in one line to Logger for each handler that
// it is put around. A Verification may be used by many handlers at once.
type Verification struct {
	// Untrusted is what becomes of a hook that is not trusted.
	Untrusted UntrustedAction
	// Trust decides in place of [envelope.Verification.Trusted] whether a hook is trusted: for
	// sources, say, that do not sign what they send and are "skipped". nil: that decides.
	Trust func(sourceID string, v envelope.Verification) bool
	// Logger gets one line at level warn for each hook that is dropped or refused: ids, topic,
	// handler, code and error text, and nothing of the body or its headers. nil logs nothing.
	Logger *slog.Logger
	// Observer counts. nil counts nothing.
	Observer VerificationObserver
}

// An UntrustedAction is what becomes of a hook that is not trusted.
type UntrustedAction int

// The actions of a [Verification].
const (
	PassUntrusted   UntrustedAction = iota // the handler gets it
	DropUntrusted                          // it is acknowledged, and no one gets it
	RefuseUntrusted                        // it fails with an [UntrustedError], so that PoisonQueue gets it
)

// String is pass, drop or refuse.
func (a UntrustedAction) String() string {
	switch a {
	case PassUntrusted:
		return "pass"
	case DropUntrusted:
		return "drop"
	case RefuseUntrusted:
		return "refuse"
	}
	return fmt.Sprintf("UntrustedAction(%d)", int(a))
}

// A VerificationObserver counts hooks that are not trusted. It is called by several goroutines at
// once and must not block.
type VerificationObserver interface {
	// Untrusted is called for each hook that is not trusted, each time that it is delivered.
	// Its status is text that a producer wrote; action is pass, drop or refuse.
	Untrusted(topic string, v envelope.Verification, action string)
}

// An UntrustedError is the permanent error of a hook whose verification is not trusted.
type UntrustedError struct {
	Verification envelope.Verification
}

// codeUntrusted is the code that is logged of an UntrustedError.
const codeUntrusted = "untrusted"

func (e *UntrustedError) Error() string {
	flagged := ""
	if e.Verification.Flagged {
		flagged = ", and it is flagged"
	}
	return fmt.Sprintf("verification: untrusted: the status of the hook is %.64q%s", string(e.Verification.Status), flagged)
}

// Code returns "untrusted", as it is in logs.
func (e *UntrustedError) Code() string { return codeUntrusted }

// Permanent reports true: the hook will say the same again.
func (e *UntrustedError) Permanent() bool { return true }

// Validate reports an unknown action.
func (v Verification) Validate() error {
	if v.Untrusted < PassUntrusted || v.Untrusted > RefuseUntrusted {
		return fmt.Errorf("verification: unknown %v", v.Untrusted)
	}
	return nil
}

const allPass = "hooks pass whatever their verification says"

// Middleware is a Watermill handler middleware. It belongs inside PoisonQueue, Retry and Malformed.
// An unknown action refuses.
func (v Verification) Middleware(h message.HandlerFunc) message.HandlerFunc {
	if v.Untrusted == PassUntrusted && v.Logger != nil {
		v.Logger.Info(allPass)
	}
	return func(msg *message.Message) ([]*message.Message, error) {
		held, isHook := verificationOf(msg)
		if !isHook || v.trusts(msg, held) {
			return h(msg)
		}
		if v.Observer != nil {
			v.Observer.Untrusted(message.SubscribeTopicFromCtx(msg.Context()), held, v.Untrusted.String())
		}
		if v.Untrusted == PassUntrusted {
			return h(msg)
		}
		err := &UntrustedError{held}
		if v.Untrusted == DropUntrusted {
			failure{text: "hook dropped", err: err}.log(msg.Context(), v.Logger, msg)
			return nil, nil
		}
		failure{text: messageRefused, err: err}.log(msg.Context(), v.Logger, msg)
		return nil, err
	}
}

func (v *Verification) trusts(msg *message.Message, held envelope.Verification) bool {
	if v.Trust != nil {
		return v.Trust(msg.Metadata[envelope.MetadataSourceID], held)
	}
	return held.Trusted()
}

// verificationOf returns the verification of a hook, and whether msg is one.
func verificationOf(msg *message.Message) (held envelope.Verification, isHook bool) {
	md := msg.Metadata
	id := msg.UUID
	if md[envelope.MetadataVersion] != "" && md[envelope.MetadataMalformed] == "" {
		// It was received without being opened: what it says is in the payload.
		opened, err := envelope.Open(msg.Payload)
		if err != nil {
			return held, false
		}
		md, id = opened.Metadata, opened.UUID
	}
	switch {
	case md[envelope.MetadataID] == "" || md[envelope.MetadataMalformed] != "":
		return held, false
	case md[envelope.MetadataID] != id || md[envelope.MetadataVerification] == "":
		return envelope.Verification{Status: envelope.VerificationSkipped}, true
	}
	return envelope.Verification{
		Status:  envelope.VerificationStatus(md[envelope.MetadataVerification]),
		Flagged: md[envelope.MetadataFlagged] != "",
	}, true
}
