package claimcheck_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
)

func TestErrorClasses(t *testing.T) {
	tests := []struct {
		code                 claimcheck.Code
		sentinel             error
		permanent, transient bool
	}{
		{claimcheck.CodeNotFound, claimcheck.ErrNotFound, true, false},
		{claimcheck.CodeForbidden, claimcheck.ErrForbidden, false, true},
		{claimcheck.CodeUnavailable, claimcheck.ErrUnavailable, false, true},
		{claimcheck.CodeExists, claimcheck.ErrExists, false, false},
		{claimcheck.CodeInvalidRef, claimcheck.ErrInvalidRef, true, false},
		{claimcheck.CodeSignedRef, claimcheck.ErrSignedRef, true, false},
		{claimcheck.CodeInvalidTenant, claimcheck.ErrInvalidTenant, true, false},
		{claimcheck.CodeIntegrity, claimcheck.ErrIntegrity, true, false},
		{claimcheck.CodeTooLarge, claimcheck.ErrTooLarge, true, false},
		{claimcheck.CodeRejected, claimcheck.ErrRejected, true, false},
		{claimcheck.CodeRefExpired, claimcheck.ErrRefExpired, true, false},
		{"another", nil, false, false},
	}
	for _, tt := range tests {
		t.Run(string(tt.code), func(t *testing.T) {
			err := error(&claimcheck.Error{Code: tt.code, Err: io.ErrUnexpectedEOF})
			if envelope.IsPermanent(err) != tt.permanent || envelope.IsTransient(err) != tt.transient {
				t.Errorf("permanent %t, transient %t", envelope.IsPermanent(err), envelope.IsTransient(err))
			}
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error("the cause is lost")
			}
			for _, other := range tests {
				if want := tt.sentinel != nil && other.sentinel == tt.sentinel; errors.Is(err, other.sentinel) != want {
					t.Errorf("errors.Is(err, %v) is %t", other.sentinel, !want)
				}
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	tests := []struct {
		why  string
		in   claimcheck.Error
		want string
	}{
		{"a code alone", claimcheck.Error{Code: claimcheck.CodeExists}, "claimcheck: exists"},
		{
			"everything",
			claimcheck.Error{
				Code: claimcheck.CodeUnavailable, Op: "get", Tenant: "acme", Key: "claims/x", Ref: ref, Status: 503,
				Err: io.ErrUnexpectedEOF,
			},
			`claimcheck: get: unavailable tenant "acme" key "claims/x" ref "` + ref + `" (HTTP status 503): unexpected EOF`,
		},
		{
			"a signature is not shown, even when the field has it",
			claimcheck.Error{Code: claimcheck.CodeRejected, Ref: signedRef},
			`claimcheck: rejected ref "` + strings.TrimSuffix(signedRef, signature) + `<signature>"`,
		},
		{
			"what came from outside is quoted and cut",
			claimcheck.Error{Code: claimcheck.CodeInvalidTenant, Tenant: "\n" + strings.Repeat("x", 1000)},
			`claimcheck: invalid_tenant tenant "\n` + strings.Repeat("x", 199) + `"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			if got := tt.in.Error(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// jsonText returns s as JSON.
func jsonText(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}
