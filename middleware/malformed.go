package middleware

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
)

// Malformed is the gate before a handler: what cannot be read as the body that a producer
// sent is refused, and the handler is not called. Without it a handler is given an empty
// payload, which decodes into most structs without an error.
//
// It refuses, with a permanent [envelope.Error]:
//
//   - a message that was opened as malformed ([envelope.MetadataMalformed]), under the code
//     and field that reading it failed with. A middleware further out that repairs such a
//     message passes a new one on, such as [envelope.Open] returns: native attributes of
//     this one, which may pretend to anything, would be believed without that key;
//   - a claim that nothing has redeemed, under [envelope.CodeClaimNotEnabled]. Set
//     PassClaims where that is wanted.
//
// Everything else passes untouched: empty bodies, redeemed claims, and messages that carry
// no envelope.
//
// The error's text holds the code and the field, never a part of the message, and is what
// PoisonQueue stores as the reason. The message keeps its payload and metadata, so that the
// poison topic gets the bytes that were received. With a Quarantine such messages go there
// instead.
//
// The zero value is ready to use. A Malformed may be used by many handlers at once.
type Malformed struct {
	// PassClaims lets claims through that are not redeemed, with their empty payload: for a
	// handler that passes messages on as they are, or a claim check further in.
	PassClaims bool
	// Quarantine publishes what is refused to QuarantineTopic, as PoisonQueue would: with its
	// UUID, its bytes as they came, and the entries reason_poisoned, topic_poisoned,
	// handler_poisoned and subscriber_poisoned. Then the message is acknowledged. Where that
	// fails the error is transient, whatever the cause: the message comes again and nothing is
	// lost. nil: the error of the refusal is returned.
	Quarantine      message.Publisher
	QuarantineTopic string
	// Logger gets one line at level warn for each refusal: ids, topic, handler, code, field,
	// claim (without its signature) and error text, and nothing of the body or its headers.
	// nil logs nothing.
	Logger *slog.Logger
	// Observer counts. nil counts nothing.
	Observer MalformedObserver

	chained bool // a Chain logs each error
}

// A MalformedObserver counts what [Malformed] refuses. It is called by several goroutines at once
// and must not block.
type MalformedObserver interface {
	// Refused is called for each message that is refused, once it is in quarantine where there
	// is one: a message that comes again because it did not get there counts once.
	Refused(topic string, code envelope.Code)
}

var errUnredeemed = errors.New("the body is a claim and nothing here redeems it")

// Validate reports a Quarantine without a QuarantineTopic, and the reverse.
func (m Malformed) Validate() error {
	switch {
	case m.Quarantine != nil && m.QuarantineTopic == "":
		return errors.New("malformed: Quarantine without QuarantineTopic")
	case m.Quarantine == nil && m.QuarantineTopic != "":
		return errors.New("malformed: QuarantineTopic without Quarantine")
	}
	return nil
}

// Middleware is a Watermill handler middleware. It belongs inside PoisonQueue and Retry.
func (m Malformed) Middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		refusal := m.refusal(msg)
		if refusal == nil {
			return h(msg)
		}
		if m.Quarantine == nil {
			m.refused(messageRefused, msg, refusal, !m.chained)
			return nil, refusal
		}
		if err := m.quarantine(msg, refusal); err != nil {
			return nil, err
		}
		m.refused("message quarantined", msg, refusal, true)
		return nil, nil
	}
}

const messageRefused = "message refused"

// refused counts, and logs where it is asked to, a message that is refused for good.
func (m *Malformed) refused(text string, msg *message.Message, refusal *envelope.Error, log bool) {
	if log {
		failure{text: text, err: refusal}.log(msg.Context(), m.Logger, msg)
	}
	if m.Observer != nil {
		m.Observer.Refused(message.SubscribeTopicFromCtx(msg.Context()), refusal.Code)
	}
}

// quarantine publishes a copy of msg. Its error is transient.
func (m *Malformed) quarantine(msg *message.Message, refusal *envelope.Error) error {
	quarantined := msg.CopyWithContext()
	for name, value := range map[string]string{
		middleware.ReasonForPoisonedKey:  refusal.Error(),
		middleware.PoisonedTopicKey:      message.SubscribeTopicFromCtx(msg.Context()),
		middleware.PoisonedHandlerKey:    message.HandlerNameFromCtx(msg.Context()),
		middleware.PoisonedSubscriberKey: message.SubscriberNameFromCtx(msg.Context()),
	} {
		quarantined.Metadata.Set(name, value)
	}
	if err := m.Quarantine.Publish(m.QuarantineTopic, quarantined); err != nil {
		err = envelope.Transient(fmt.Errorf("malformed: not quarantined: %w (refused: %w)", err, refusal))
		if !m.chained {
			failure{text: "message not quarantined", err: err}.log(msg.Context(), m.Logger, msg)
		}
		return err
	}
	return nil
}

func (m Malformed) refusal(msg *message.Message) *envelope.Error {
	if err := malformedError(msg); err != nil {
		return err
	}
	if !m.PassClaims && isUnredeemed(msg) {
		return &envelope.Error{Code: envelope.CodeClaimNotEnabled, Err: errUnredeemed}
	}
	return nil
}

// isUnredeemed reports whether the body of msg is a claim that nothing has redeemed.
func isUnredeemed(msg *message.Message) bool {
	return len(msg.Payload) == 0 &&
		msg.Metadata[envelope.MetadataClaim] != "" && msg.Metadata[envelope.MetadataRedeemed] == ""
}

// malformedError returns the error that a malformed message was opened with, and nil for any
// other.
func malformedError(msg *message.Message) *envelope.Error {
	reason := msg.Metadata[envelope.MetadataMalformed]
	if reason == "" {
		return nil
	}
	code, field, _ := strings.Cut(reason, ":")
	return &envelope.Error{Code: envelope.Code(code), Field: field}
}
