package middleware

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
)

// A failure is what became of one message, as it is logged: ids, topic, handler, code, field,
// claim and error text, and nothing of the body, its headers or a credential.
type failure struct {
	text  string
	final bool   // level error, not warn
	topic string // where it was to be published; of a received message the context says it
	claim string // the reference, where it is not the message's own
	err   error
}

// log writes one line. A nil logger writes nothing.
func (f failure) log(ctx context.Context, logger *slog.Logger, msg *message.Message) {
	if logger == nil {
		return
	}
	if f.topic == "" {
		f.topic = message.SubscribeTopicFromCtx(ctx)
	}
	if f.claim == "" {
		f.claim = msg.Metadata[envelope.MetadataClaim]
	}
	code, field := codeOf(f.err)
	attrs := []slog.Attr{slog.String("message_id", msg.UUID)}
	for _, a := range [...]slog.Attr{
		slog.String("source_id", msg.Metadata[envelope.MetadataSourceID]),
		slog.String("tenant_id", msg.Metadata[envelope.MetadataTenantID]),
		slog.String("topic", f.topic),
		slog.String("handler", message.HandlerNameFromCtx(ctx)),
		slog.String("code", code),
		slog.String("field", field),
		slog.String("claim", envelope.MaskClaim(f.claim)),
		slog.String("error", f.err.Error()),
	} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	level := slog.LevelWarn
	if f.final {
		level = slog.LevelError
	}
	logger.LogAttrs(ctx, level, f.text, attrs...)
}

// codeOf returns the code of an error of ours, and the field where it has one; "" of others.
func codeOf(err error) (code, field string) {
	var (
		ofClaim    *claimcheck.Error
		ofEnvelope *envelope.Error
		untrusted  *UntrustedError
	)
	switch {
	case errors.As(err, &ofClaim):
		return string(ofClaim.Code), ""
	case errors.As(err, &ofEnvelope):
		return string(ofEnvelope.Code), ofEnvelope.Field
	case errors.Is(err, envelope.ErrMessageTooLarge):
		return codeMessageTooLarge, ""
	case errors.As(err, &untrusted):
		return untrusted.Code(), ""
	case errors.Is(err, errPanic):
		return codePanic, ""
	}
	return "", ""
}

const codeMessageTooLarge = "message_too_large"
