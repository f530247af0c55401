package bus_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
)

var sentinels = []error{
	bus.ErrSerialization, bus.ErrTypeMismatch, bus.ErrPayloadTooLarge, bus.ErrMissingHandler, bus.ErrInvalidTopology,
	bus.ErrUnroutable, bus.ErrTransport, bus.ErrConnection, bus.ErrInternal,
}

func TestErrors(t *testing.T) {
	long := strings.Repeat("é", 200)
	tests := []struct {
		err                  *bus.Error
		is                   error
		permanent, transient bool
		text                 string
	}{
		{&bus.Error{Code: bus.CodeSerialization, Reason: "no JSON", Err: errors.New("secret")}, bus.ErrSerialization, true, false, "bus: serialization: no JSON"},
		{
			&bus.Error{Code: bus.CodeTypeMismatch, Expected: "a", Actual: "b\xff"}, bus.ErrTypeMismatch, true, false,
			`bus: type_mismatch: expected type "a", the message has "b\xff"`,
		},
		{
			&bus.Error{Code: bus.CodePayloadTooLarge, Size: 11, Max: 10}, bus.ErrPayloadTooLarge, true, false,
			"bus: payload_too_large: 11 bytes, at most 10",
		},
		{&bus.Error{Code: bus.CodeMissingHandler, Actual: "a"}, bus.ErrMissingHandler, true, false, `bus: missing_handler: nothing handles type "a"`},
		{
			&bus.Error{Code: bus.CodeMissingHandler, Actual: long}, bus.ErrMissingHandler, true, false,
			`bus: missing_handler: nothing handles type "` + strings.Repeat("é", 128) + `"`,
		},
		{
			&bus.Error{Code: bus.CodeInvalidTopology, Field: "header key", Reason: "is not UTF-8"}, bus.ErrInvalidTopology, true, false,
			"bus: invalid_topology: header key: is not UTF-8",
		},
		{
			// The queue may be declared by now, but is nothing to wait for without end.
			&bus.Error{Code: bus.CodeUnroutable, RoutingKey: "orders", ReplyText: "NO_ROUTE", ReplyCode: 312}, bus.ErrUnroutable, false, false,
			`bus: unroutable: routing key "orders" was returned: 312 "NO_ROUTE"`,
		},
		{&bus.Error{Code: bus.CodeTransport, Reason: "nacked", Err: io.EOF}, bus.ErrTransport, false, true, "bus: transport: nacked: EOF"},
		{&bus.Error{Code: bus.CodeConnection, Err: io.EOF}, bus.ErrConnection, false, true, "bus: connection: EOF"},
		{&bus.Error{Code: bus.CodeConnection, Refused: true, Err: io.EOF}, bus.ErrConnection, true, false, "bus: connection: EOF"},
		{&bus.Error{Code: bus.CodeInternal, Reason: "the handler panicked"}, bus.ErrInternal, false, false, "bus: internal: the handler panicked"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			if got := tt.err.Error(); got != tt.text {
				t.Errorf("%s", got)
			}
			wrapped := fmt.Errorf("while publishing: %w", tt.err)
			for _, sentinel := range sentinels {
				if errors.Is(wrapped, sentinel) != (sentinel == tt.is) {
					t.Errorf("errors.Is(%v) is %v", sentinel, sentinel != tt.is)
				}
			}
			if envelope.IsPermanent(wrapped) != tt.permanent || envelope.IsTransient(wrapped) != tt.transient {
				t.Errorf("permanent %v, transient %v", envelope.IsPermanent(wrapped), envelope.IsTransient(wrapped))
			}
			if tt.err.Permanent() != tt.permanent || tt.err.Transient() != tt.transient {
				t.Errorf("of itself permanent %v, transient %v", tt.err.Permanent(), tt.err.Transient())
			}
			if !errors.Is(wrapped, tt.err.Err) && tt.err.Err != nil {
				t.Error("the cause is lost")
			}
		})
	}
	if errors.Is(&bus.Error{Code: "something"}, bus.ErrInternal) || errors.Is(&bus.Error{}, errors.New("other")) {
		t.Error("an unknown code is something known")
	}
}

// All that is wrong is reported together.
func TestValidate(t *testing.T) {
	if err := order().Validate(); err != nil {
		t.Error(err)
	}
	long := strings.Repeat("n", 256)
	e := bus.Restore(messageID, "", nil, correlationID, "q\xff", map[string]string{"CC": "secret", long: "secret", "a": "secret\xff"}, publishedAt)
	err := e.Validate()
	if !errors.Is(err, bus.ErrInvalidTopology) || !envelope.IsPermanent(err) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{
		"message type: is empty", "reply_to: is not UTF-8", "header key: CC is what RabbitMQ routes by", "header value: is not UTF-8",
		"header key: exceeds the AMQP short-string limit: 256 bytes, at most 255",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("a value is shown by %v", err)
	}
	for _, valid := range []string{"t", strings.Repeat("n", 255), "größe"} {
		e.MessageType, e.ReplyTo, e.Headers = valid, valid, map[string]string{valid: "", "": "x"}
		if err := e.Validate(); err != nil {
			t.Errorf("%q: %v", valid, err)
		}
	}
}
