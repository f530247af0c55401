package middleware_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

const claimRef = "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002"

func open(payload string, keysAndValues ...string) *message.Message {
	msg := message.NewMessage("0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10", []byte(payload))
	for i := 0; i < len(keysAndValues); i += 2 {
		msg.Metadata[keysAndValues[i]] = keysAndValues[i+1]
	}
	return msg
}

func TestMalformed(t *testing.T) {
	const (
		malformed = envelope.MetadataMalformed
		claim     = envelope.MetadataClaim
		redeemed  = envelope.MetadataRedeemed
		id        = envelope.MetadataID
	)
	tests := []struct {
		rule  string
		gate  hookmw.Malformed
		msg   *message.Message
		code  envelope.Code // empty: the handler is called
		field string
		text  string
	}{
		{
			rule: "a code alone",
			msg:  open("", malformed, "invalid_json"),
			code: envelope.CodeInvalidJSON, text: "envelope: invalid_json",
		},
		{
			rule: "a code with its field",
			msg:  open("", malformed, "invalid_field:received_at"),
			code: envelope.CodeInvalidField, field: "received_at", text: `envelope: invalid_field "received_at"`,
		},
		{
			rule: "only the first colon parts code and field",
			msg:  open("", malformed, "invalid_field:a:b"),
			code: envelope.CodeInvalidField, field: "a:b", text: `envelope: invalid_field "a:b"`,
		},
		{
			rule: "a code of a later version is handed on",
			msg:  open("", malformed, "too_new"),
			code: "too_new", text: "envelope: too_new",
		},
		{
			rule: "the mark decides, whatever else the foreign headers say",
			msg:  open("", malformed, "integrity", claim, claimRef, redeemed, "true"),
			code: envelope.CodeIntegrity, text: "envelope: integrity",
		},
		{
			rule: "a payload does not make a marked message whole",
			msg:  open("{}", malformed, "invalid_json"),
			code: envelope.CodeInvalidJSON, text: "envelope: invalid_json",
		},
		{
			rule: "a claim that nothing redeemed",
			msg:  open("", id, "x", claim, claimRef),
			code: envelope.CodeClaimNotEnabled,
			text: "envelope: claim_not_enabled: the body is a claim and nothing here redeems it",
		},
		{
			rule: "PassClaims says nothing about malformed messages",
			gate: hookmw.Malformed{PassClaims: true},
			msg:  open("", malformed, "missing_body"),
			code: envelope.CodeMissingBody, text: "envelope: missing_body",
		},

		{rule: "an ordinary message", msg: open("{}", id, "x")},
		{rule: "an empty body is a body", msg: open("", id, "x")},
		{rule: "a message without an envelope", msg: open("{}")},
		{rule: "no metadata at all", msg: &message.Message{UUID: "u"}},
		{rule: "a redeemed claim", msg: open("body", claim, claimRef, redeemed, "true")},
		{rule: "a redeemed claim of an empty body", msg: open("", claim, claimRef, redeemed, "true")},
		{rule: "a claim whose body was replaced", msg: open("other", claim, claimRef)},
		{
			rule: "a claim where claims are passed on",
			gate: hookmw.Malformed{PassClaims: true}, msg: open("", claim, claimRef),
		},
		{rule: "a mark that was deleted by a repair", msg: open("mended", malformed, "")},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			if err := tt.gate.Validate(); err != nil {
				t.Fatalf("Validate: %v", err)
			}
			payload, metadata := string(tt.msg.Payload), len(tt.msg.Metadata)
			produced := message.Messages{open("produced")}
			called := 0
			got, err := tt.gate.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				called++
				if msg != tt.msg {
					t.Error("the handler was given another message")
				}
				return produced, nil
			})(tt.msg)

			if string(tt.msg.Payload) != payload || len(tt.msg.Metadata) != metadata {
				t.Error("the message was changed")
			}
			if tt.code == "" {
				if err != nil || called != 1 || len(got) != 1 || got[0] != produced[0] {
					t.Fatalf("called %d times, produced %v, err %v; want the handler's own results", called, got, err)
				}
				return
			}
			var e *envelope.Error
			if !errors.As(err, &e) {
				t.Fatalf("err = %v, want an *envelope.Error", err)
			}
			if e.Code != tt.code || e.Field != tt.field || e.Error() != tt.text {
				t.Errorf("err = %q %q, text %s; want %q %q, %s", e.Code, e.Field, e, tt.code, tt.field, tt.text)
			}
			if !envelope.IsPermanent(err) || !errors.Is(err, envelope.ErrMalformed) {
				t.Error("want a permanent error that is ErrMalformed")
			}
			if called != 0 || got != nil {
				t.Error("the handler was called")
			}
		})
	}
}

func TestMalformedHandsOnTheHandlersError(t *testing.T) {
	own := errors.New("out of stock")
	_, err := hookmw.Malformed{}.Middleware(func(*message.Message) ([]*message.Message, error) {
		return nil, own
	})(open("{}"))
	if err != own {
		t.Errorf("err = %v, want the handler's own", err)
	}
}

func TestMalformedLogs(t *testing.T) {
	log, out := lines()
	h := hookmw.Malformed{Logger: log}.Middleware(message.PassthroughHandler)

	for _, msg := range []*message.Message{
		open("fine", "ankusa_id", "x"),
		open("", "envelope_malformed", "invalid_field:size", "envelope_raw", "card 4242", "x-provider", "secret"),
		open("", "ankusa_source_id", "stripe", "ankusa_tenant_id", "acme", "ankusa_claim", claimRef,
			"ankusa_headers", `{"x-token":"secret"}`),
		open("", "ankusa_id", "x", "ankusa_claim", "urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:1737500000:secret"),
	} {
		_, _ = h(msg)
	}
	want := strings.Join([]string{
		`level=WARN msg="message refused" message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 code=invalid_field field=size` +
			` error="envelope: invalid_field \"size\""`,
		`level=WARN msg="message refused" message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 source_id=stripe tenant_id=acme` +
			` code=claim_not_enabled claim=` + claimRef +
			` error="envelope: claim_not_enabled: the body is a claim and nothing here redeems it"`,
		`level=WARN msg="message refused" message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 code=claim_not_enabled` +
			` claim=urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:1737500000:<signature>` +
			` error="envelope: claim_not_enabled: the body is a claim and nothing here redeems it"`,
	}, "\n") + "\n"
	if got := out.String(); got != want {
		t.Errorf("logged\n%s\nwant\n%s", got, want)
	}
}

// lines is a logger, and what it writes without the time.
func lines() (*slog.Logger, *bytes.Buffer) {
	out := new(bytes.Buffer)
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})), out
}
