package middleware

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

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
// poison topic gets the bytes that were received.
//
// The zero value is ready to use. A Malformed may be used by many handlers at once.
type Malformed struct {
	// PassClaims lets claims through that are not redeemed, with their empty payload: for a
	// handler that passes messages on as they are, or a claim check further in.
	PassClaims bool
	// Logger gets one line at level warn for each refusal: ids, topic, handler, code, field,
	// claim (without its signature) and error text, and nothing of the body or its headers.
	// nil logs nothing.
	Logger *slog.Logger
}

var errUnredeemed = errors.New("the body is a claim and nothing here redeems it")

// Validate reports nil: every Malformed is valid.
func (m Malformed) Validate() error { return nil }

// Middleware is a Watermill handler middleware. It belongs inside PoisonQueue and Retry.
func (m Malformed) Middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		if err := m.refusal(msg); err != nil {
			failure{text: "message refused", err: err}.log(msg.Context(), m.Logger, msg)
			return nil, err
		}
		return h(msg)
	}
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
