package natswire_test

import (
	"errors"
	"fmt"
	"testing"

	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler/natswire"
)

type failing struct {
	message.Publisher
	err error
}

func (f failing) Publish(string, ...*message.Message) error { return f.err }

func TestWrapPublisher(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("sending message failed: %w", err) }
	tests := []struct {
		rule     string
		err      error
		tooLarge bool
	}{
		{"no error", nil, false},
		{"over max_payload", wrap(nats.ErrMaxPayload), true},
		{"over MaxMsgSize of the stream", wrap(&nats.APIError{Code: 400, ErrorCode: 10054}), true},
		{"headers over what a stream stores", wrap(&nats.APIError{Code: 400, ErrorCode: 10097}), true},
		{"the stream is full", wrap(&nats.APIError{Code: 503, ErrorCode: 10077}), false},
		{"an outage", wrap(nats.ErrConnectionClosed), false},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			err := natswire.WrapPublisher(failing{err: tt.err}).Publish("hooks", hook())
			if errors.Is(err, envelope.ErrMessageTooLarge) != tt.tooLarge || envelope.IsPermanent(err) != tt.tooLarge {
				t.Errorf("%v: permanent %v", err, envelope.IsPermanent(err))
			}
			if !errors.Is(err, tt.err) || !tt.tooLarge && err != tt.err {
				t.Errorf("%v is not, or hides, %v", err, tt.err)
			}
		})
	}
	if got := fmt.Sprint(natswire.WrapPublisher(&wmnats.Publisher{})); got != "nats.Publisher" {
		t.Errorf("name %q", got)
	}
	if got := fmt.Sprint(natswire.WrapPublisher(natswire.WrapPublisher(failing{}))); got != "natswire_test.failing" {
		t.Errorf("name %q", got)
	}
}
