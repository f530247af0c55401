package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// The two functions have the shapes that Watermill takes.
var (
	_ = wmmw.Retry{ShouldRetry: hookmw.ShouldRetry}
	_ = func(p message.Publisher) (message.HandlerMiddleware, error) {
		return wmmw.PoisonQueueWithFilter(p, "poison", hookmw.ShouldPoison)
	}
)

func TestClasses(t *testing.T) {
	own := errors.New("out of stock")
	tests := []struct {
		rule          string
		err           error
		retry, poison bool
	}{
		{"the handler's own error", own, true, true},
		{"wrapped", fmt.Errorf("reserve: %w", own), true, true},
		{"a malformed message", &envelope.Error{Code: envelope.CodeInvalidJSON}, false, true},
		{"a message too large for its transport", &envelope.TooLargeError{Size: 2, Max: 1}, false, true},
		{"marked permanent", envelope.Permanent(own), false, true},
		{"marked permanent and wrapped", fmt.Errorf("reserve: %w", envelope.Permanent(own)), false, true},
		{"an outage", envelope.Transient(own), true, false},
		{"an outage, wrapped", fmt.Errorf("reserve: %w", envelope.Transient(own)), true, false},
		{"the outermost mark wins", envelope.Permanent(envelope.Transient(own)), false, true},
		{"the outermost mark wins, the other way", envelope.Transient(envelope.Permanent(own)), true, false},
		{"an outage beside an unmarked error", errors.Join(own, envelope.Transient(own)), true, false},
		{"an outage beside a permanent error", errors.Join(envelope.Transient(own), envelope.Permanent(own)), false, true},
		{"a shutdown", context.Canceled, true, false},
		{"a shutdown inside the handler", fmt.Errorf("query: %w", context.Canceled), true, false},
		{"a handler that calls it permanent", envelope.Permanent(context.Canceled), false, true},
		{"a handler that took too long", context.DeadlineExceeded, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			if got := hookmw.ShouldRetry(wmmw.RetryParams{Err: tt.err, RetryNum: 1}); got != tt.retry {
				t.Errorf("ShouldRetry = %v, want %v", got, tt.retry)
			}
			if got := hookmw.ShouldPoison(tt.err); got != tt.poison {
				t.Errorf("ShouldPoison = %v, want %v", got, tt.poison)
			}
		})
	}
}
