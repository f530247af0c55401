package middleware_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// An untrustedCounter keeps what it is told.
type untrustedCounter struct{ calls []string }

func (c *untrustedCounter) Untrusted(_ string, v envelope.Verification, action string) {
	c.calls = append(c.calls, fmt.Sprintf("%s %v %v", v.Status, v.Flagged, action))
}

func TestVerification(t *testing.T) {
	const sealed = `{"v":1,"id":"1","source_id":"github","received_at":1,"size":0,"verification":{"status":%q,"flagged":false},"body_base64":""}`
	received := func(payload string) *message.Message {
		return open(payload, "ankusa_message_version", "1", "ankusa_verification", "ok")
	}
	tests := []struct {
		rule  string
		msg   *message.Message
		trust func(string, envelope.Verification) bool
		want  string // status and flag of a hook that is not trusted; "" for all others
	}{
		{rule: "ok", msg: hook(nil, "ankusa_verification", "ok")},
		{rule: "flagged is not trusted", msg: hook(nil, "ankusa_verification", "ok", "ankusa_verification_flagged", "true"), want: "ok true"},
		{rule: "failed", msg: hook(nil, "ankusa_verification", "failed"), want: "failed false"},
		{rule: "skipped", msg: hook(nil, "ankusa_verification", "skipped"), want: "skipped false"},
		{rule: "absent is skipped", msg: hook(nil), want: "skipped false"},
		{rule: "exactly ok", msg: hook(nil, "ankusa_verification", "OK"), want: "OK false"},
		{rule: "a status of a later version", msg: hook(nil, "ankusa_verification", "quantum"), want: "quantum false"},
		{rule: "trust is not inherited: a derived message", msg: hook(nil, "ankusa_verification", "ok", "ankusa_id", "the cause"), want: "skipped false"},
		{rule: "no envelope, no hook", msg: open("{}", "ankusa_verification", "failed")},
		{rule: "no metadata at all", msg: &message.Message{UUID: "u"}},
		{rule: "malformed is another's business", msg: open("", "envelope_malformed", "invalid_json", "ankusa_id", "x", "ankusa_verification", "failed")},
		{rule: "received without being opened: the JSON counts", msg: received(fmt.Sprintf(sealed, "failed")), want: "failed false"},
		{rule: "received so, and trusted", msg: received(fmt.Sprintf(sealed, "ok"))},
		{rule: "received so, and broken", msg: received(`{`)},
		{
			rule: "a source that is trusted all the same", msg: hook(nil, "ankusa_verification", "skipped"),
			trust: func(source string, v envelope.Verification) bool { return source == "stripe" && v.Status == "skipped" },
		},
		{
			rule: "and one that is not", msg: hook(nil, "ankusa_verification", "ok"),
			trust: func(string, envelope.Verification) bool { return false }, want: "ok false",
		},
	}
	for _, tt := range tests {
		for _, action := range []hookmw.UntrustedAction{hookmw.PassUntrusted, hookmw.DropUntrusted, hookmw.RefuseUntrusted} {
			t.Run(tt.rule+"/"+action.String(), func(t *testing.T) {
				counter := new(untrustedCounter)
				v := hookmw.Verification{Untrusted: action, Trust: tt.trust, Observer: counter}
				if err := v.Validate(); err != nil {
					t.Fatal(err)
				}
				produced := message.Messages{open("produced")}
				own := errors.New("the handler's own")
				called := false
				got, err := v.Middleware(func(msg *message.Message) ([]*message.Message, error) {
					if called = true; msg != tt.msg {
						t.Error("the handler was given another message")
					}
					return produced, own
				})(tt.msg)
				if called {
					if len(got) != 1 || err != own {
						t.Errorf("produced %v, %v; want the handler's own results", got, err)
					}
				} else if got != nil {
					t.Errorf("produced %v", got)
				}
				if tt.want == "" {
					if !called || counter.calls != nil {
						t.Errorf("called %v, counted %v", called, counter.calls)
					}
					return
				}
				if want := []string{tt.want + " " + action.String()}; !slices.Equal(counter.calls, want) {
					t.Errorf("counted %v, want %v", counter.calls, want)
				}
				var untrusted *hookmw.UntrustedError
				switch action {
				case hookmw.PassUntrusted:
					if !called {
						t.Error("the handler was not called")
					}
				case hookmw.DropUntrusted:
					if called || err != nil {
						t.Errorf("called %v, error %v", called, err)
					}
				case hookmw.RefuseUntrusted:
					if called || !errors.As(err, &untrusted) || untrusted.Code() != "untrusted" || !envelope.IsPermanent(err) || errors.Is(err, envelope.ErrMalformed) {
						t.Errorf("called %v, error %v", called, err)
					}
				}
			})
		}
	}
}

func TestUntrustedErrorText(t *testing.T) {
	for v, want := range map[envelope.Verification]string{
		{Status: "failed"}:            `verification: untrusted: the status of the hook is "failed"`,
		{Status: "ok", Flagged: true}: `verification: untrusted: the status of the hook is "ok", and it is flagged`,
		{Status: envelope.VerificationStatus(strings.Repeat("x", 1000))}: `verification: untrusted: the status of the hook is "` +
			strings.Repeat("x", 64) + `"`,
	} {
		if got := (&hookmw.UntrustedError{Verification: v}).Error(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestVerificationValidate(t *testing.T) {
	for _, action := range []hookmw.UntrustedAction{-1, 3} {
		v := hookmw.Verification{Untrusted: action}
		if err := v.Validate(); err == nil {
			t.Errorf("%v is valid", action)
		}
		if _, err := v.Middleware(message.PassthroughHandler)(hook(nil)); err == nil {
			t.Errorf("%v lets through", action)
		}
	}
}

func TestVerificationLogs(t *testing.T) {
	log, out := lines()
	msg := hook([]byte("card 4242"), "ankusa_verification", "failed", "ankusa_headers", `{"x-token":"secret"}`)
	for _, action := range []hookmw.UntrustedAction{hookmw.PassUntrusted, hookmw.DropUntrusted, hookmw.RefuseUntrusted} {
		h := hookmw.Verification{Untrusted: action, Logger: log}.Middleware(message.PassthroughHandler)
		_, _ = h(msg)
		_, _ = h(hook(nil, "ankusa_verification", "ok"))
	}
	const rest = ` message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 source_id=stripe tenant_id=acme code=untrusted` +
		` error="verification: untrusted: the status of the hook is \"failed\""` + "\n"
	want := `level=INFO msg="hooks pass whatever their verification says"` + "\n" +
		`level=WARN msg="hook dropped"` + rest + `level=WARN msg="message refused"` + rest
	if got := out.String(); got != want {
		t.Errorf("logged\n%swant\n%s", got, want)
	}
}
