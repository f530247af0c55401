package envelope_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope"
)

// marked is an error of another package that knows its class.
type marked struct{ permanent, transient bool }

func (m marked) Error() string   { return "marked" }
func (m marked) Permanent() bool { return m.permanent }
func (m marked) Transient() bool { return m.transient }

func TestErrorClasses(t *testing.T) {
	plain := errors.New("a handler's own")
	wrap := func(err error) error { return fmt.Errorf("wrapped: %w", err) }
	tests := []struct {
		why                  string
		err                  error
		permanent, transient bool
	}{
		{"no error", nil, false, false},
		{"an unmarked error is of neither class", plain, false, false},
		{"also when it is wrapped", wrap(plain), false, false},
		{"a cancelled context is not an outage", context.Canceled, false, false},
		{"an Error", &envelope.Error{Code: envelope.CodeIntegrity}, true, false},
		{"a TooLargeError", &envelope.TooLargeError{Size: 2, Max: 1}, true, false},
		{"marked permanent", envelope.Permanent(plain), true, false},
		{"marked transient", envelope.Transient(plain), false, true},
		{"a mark inside another error", wrap(envelope.Transient(plain)), false, true},
		{"a method", wrap(marked{permanent: true}), true, false},
		{"another method", wrap(marked{transient: true}), false, true},
		{"methods that report false", wrap(marked{}), false, false},
		{"both methods: there is no use in trying again", marked{true, true}, true, false},
		{"the outermost mark wins", envelope.Transient(wrap(envelope.Permanent(plain))), false, true},
		{"either way", envelope.Permanent(wrap(envelope.Transient(plain))), true, false},
		{"a mark over an Error", envelope.Transient(&envelope.Error{Code: envelope.CodeIntegrity}), false, true},
		{"joined: the worst wins", errors.Join(envelope.Transient(plain), envelope.Permanent(plain)), true, false},
		{"in any order", errors.Join(envelope.Permanent(plain), envelope.Transient(plain)), true, false},
		{"joined with an unmarked one: transient when all marked ones are", errors.Join(plain, envelope.Transient(plain)), false, true},
		{"several in one format", fmt.Errorf("%w and %w", plain, envelope.Permanent(plain)), true, false},
		{"joined unmarked ones", errors.Join(plain, io.EOF), false, false},
		{"a mark over joined ones", envelope.Transient(errors.Join(envelope.Permanent(plain), plain)), false, true},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			if got := envelope.IsPermanent(tt.err); got != tt.permanent {
				t.Errorf("IsPermanent(%v) = %v", tt.err, got)
			}
			if got := envelope.IsTransient(tt.err); got != tt.transient {
				t.Errorf("IsTransient(%v) = %v", tt.err, got)
			}
		})
	}
}

func TestMarksKeepTheError(t *testing.T) {
	if envelope.Permanent(nil) != nil || envelope.Transient(nil) != nil {
		t.Error("nil became an error")
	}
	for _, mark := range []func(error) error{envelope.Permanent, envelope.Transient} {
		err := mark(fmt.Errorf("read: %w", io.ErrUnexpectedEOF))
		if err.Error() != "read: unexpected EOF" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v", err)
		}
	}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		why  string
		err  error
		text string
		is   error
	}{
		{"a code alone", &envelope.Error{Code: envelope.CodeNotAnObject}, "envelope: not_an_object", envelope.ErrMalformed},
		{"a field", &envelope.Error{Code: envelope.CodeInvalidField, Field: "a\n"}, `envelope: invalid_field "a\n"`, envelope.ErrMalformed},
		{
			"a field of any length", &envelope.Error{Code: envelope.CodeInvalidField, Field: strings.Repeat("é", 1e6)},
			`envelope: invalid_field "` + strings.Repeat("é", 128) + `"`, envelope.ErrMalformed,
		},
		{
			"a cause", &envelope.Error{Code: envelope.CodeInvalidField, Field: "id", Err: io.EOF}, `envelope: invalid_field "id": EOF`, io.EOF,
		},
		{
			"sizes", &envelope.TooLargeError{Size: 1000001, Max: 1000000},
			"envelope: message too large: 1000001 bytes, at most 1000000 (a claim check carries bodies of any size)", envelope.ErrMessageTooLarge,
		},
		{
			"which limit", &envelope.TooLargeError{Size: 2, Max: 1, What: "content header"},
			"envelope: content header too large: 2 bytes, at most 1", envelope.ErrMessageTooLarge,
		},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.text {
			t.Errorf("%s: %q, want %q", tt.why, got, tt.text)
		}
		if !errors.Is(fmt.Errorf("wrapped: %w", tt.err), tt.is) {
			t.Errorf("%s: errors.Is does not find %v", tt.why, tt.is)
		}
	}
	if errors.Is(&envelope.Error{}, envelope.ErrMessageTooLarge) || errors.Is(&envelope.TooLargeError{}, envelope.ErrMalformed) {
		t.Error("one kind of error is taken for the other")
	}
}
