package outbox_test

import (
	"errors"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/outbox"
)

// Each code is found by its own sentinel and no other, and has its class.
func TestErrorCodes(t *testing.T) {
	codes := []struct {
		code     outbox.Code
		sentinel error
		class    string
	}{
		{outbox.CodeSerialization, outbox.ErrSerialization, "permanent"},
		{outbox.CodeTypeMismatch, outbox.ErrTypeMismatch, "permanent"},
		{outbox.CodeInvalidEvent, outbox.ErrInvalidEvent, "permanent"},
		{outbox.CodeRefused, outbox.ErrRefused, "permanent"},
		{outbox.CodeInvalidRow, outbox.ErrInvalidRow, "permanent"},
		{outbox.CodeMissingHandler, outbox.ErrMissingHandler, "permanent"},
		{outbox.CodeConflict, outbox.ErrConflict, "transient"},
		{outbox.CodeDatabase, outbox.ErrDatabase, "transient"},
		{outbox.CodeSchema, outbox.ErrSchema, ""},
		{outbox.CodeDispatchTimeout, outbox.ErrDispatchTimeout, ""},
		{outbox.CodeInternal, outbox.ErrInternal, ""},
	}
	for _, c := range codes {
		err := &outbox.Error{Code: c.code}
		for _, other := range codes {
			if errors.Is(err, other.sentinel) != (other.code == c.code) {
				t.Errorf("%s is %v", c.code, other.sentinel)
			}
		}
		if envelope.IsPermanent(err) != (c.class == "permanent") || envelope.IsTransient(err) != (c.class == "transient") {
			t.Errorf("%s is not %q", c.code, c.class)
		}
	}
}

func TestErrorText(t *testing.T) {
	cause := errors.New("cause")
	for _, test := range []struct {
		err  outbox.Error
		want string
	}{
		{outbox.Error{Code: outbox.CodeInternal}, "outbox: internal"},
		{outbox.Error{Code: outbox.CodeDatabase, Op: "purge", Table: "t", Err: cause}, "outbox: purge t: database: cause"},
		{outbox.Error{Code: outbox.CodeDatabase, Op: "claim", Err: cause}, "outbox: claim: database: cause"},
		{outbox.Error{Code: outbox.CodeRefused, Reason: "r", Err: cause}, "outbox: refused: r"},
		{outbox.Error{Code: outbox.CodeTypeMismatch, Expected: "a", Actual: "b\n"}, `outbox: type_mismatch: expected type "a", the event has "b\n"`},
		{
			outbox.Error{Code: outbox.CodeDispatchTimeout, EventID: eventID, EventType: "a.b", Timeout: 30 * time.Second},
			`outbox: dispatch_timeout: event 0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10: type "a.b": after 30s`,
		},
		{outbox.Error{Code: outbox.CodeSchema, Op: "check", Table: "t", Field: "column x", Reason: "is missing"}, "outbox: check t: schema: column x: is missing"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
		if errors.Unwrap(&test.err) != test.err.Err {
			t.Errorf("%s has another cause", test.want)
		}
	}
}
