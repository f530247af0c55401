package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

type ctxKey struct{}

// under returns a hook whose body is to be stored, under ctx.
func under(ctx context.Context) *message.Message {
	msg := hook(text(70_000))
	msg.SetContext(ctx)
	return msg
}

// The context of a check-in has the values of the first message that is stored, and the end of
// any, unless that was over when Publish was called.
func TestCheckInContext(t *testing.T) {
	value := func(v string) context.Context { return context.WithValue(context.Background(), ctxKey{}, v) }
	ended := func(v string) context.Context {
		ctx, cancel := context.WithCancel(value(v))
		cancel()
		return ctx
	}
	live, cancel := context.WithCancel(value("live"))
	defer cancel()
	later, cancel := context.WithDeadline(value("later"), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	defer cancel()
	tests := []struct {
		rule     string
		messages []*message.Message
		value    string
		bounded  bool // by Timeout
		deadline time.Time
	}{
		{"the background", []*message.Message{under(context.Background())}, "", false, time.Time{}},
		{"a value", []*message.Message{under(value("a"))}, "a", false, time.Time{}},
		{"that of the first", []*message.Message{under(value("a")), under(value("b"))}, "a", false, time.Time{}},
		{"that is stored", []*message.Message{inline(value("a")), under(value("b"))}, "b", false, time.Time{}},
		{"a deadline", []*message.Message{under(later)}, "later", false, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"one that lives", []*message.Message{under(live), under(live)}, "live", false, time.Time{}},
		{"one that is over", []*message.Message{under(ended("a"))}, "a", true, time.Time{}},
		{"all that are over", []*message.Message{under(ended("a")), under(ended("b"))}, "a", true, time.Time{}},
		{"the first is over", []*message.Message{under(ended("a")), under(live)}, "a", true, time.Time{}},
		{"another is over", []*message.Message{under(live), under(ended("a"))}, "live", true, time.Time{}},
		{"one that is not stored is over", []*message.Message{inline(ended("a")), under(live)}, "live", false, time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			s, b := &store{}, &broker{}
			s.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
				if v, _ := ctx.Value(ctxKey{}).(string); v != tt.value {
					t.Errorf("value %q, want %q", v, tt.value)
				}
				deadline, ok := ctx.Deadline()
				if ok != (tt.bounded || !tt.deadline.IsZero()) || !tt.bounded && !deadline.Equal(tt.deadline) {
					t.Errorf("deadline %v", deadline)
				}
				return s.Store.Put(ctx, key, obj)
			}
			cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Timeout: time.Hour})
			if err := wrap(t, cc, b, nil).Publish("hooks", tt.messages...); err != nil || len(s.puts) != 1 {
				t.Fatalf("%d puts, error %v", len(s.puts), err)
			}
			for i, msg := range tt.messages {
				if b.given[i].Context() != msg.Context() {
					t.Errorf("message %d has lost its context", i)
				}
			}
		})
	}
}

func inline(ctx context.Context) *message.Message {
	msg := hook(text(10))
	msg.SetContext(ctx)
	return msg
}

// Whichever context ends while bodies are stored, the call ends: an outage, not a failure of
// the message.
func TestCheckInEnds(t *testing.T) {
	tests := []struct {
		rule    string
		timeout time.Duration
		make    func() (first, second context.Context, end func())
		is      error
	}{
		{"that of the first message", 0, func() (context.Context, context.Context, func()) {
			ctx, cancel := context.WithCancel(context.Background())
			return ctx, context.Background(), cancel
		}, context.Canceled},
		{"that of another", 0, func() (context.Context, context.Context, func()) {
			ctx, cancel := context.WithCancel(context.Background())
			return context.Background(), ctx, cancel
		}, context.Canceled},
		{"that of another, beside one that lives", 0, func() (context.Context, context.Context, func()) {
			ctx, cancel := context.WithCancel(context.Background())
			live, stop := context.WithCancel(context.Background())
			t.Cleanup(stop)
			return live, ctx, cancel
		}, context.Canceled},
		{"the timeout for one that was over", time.Nanosecond, func() (context.Context, context.Context, func()) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return ctx, context.Background(), func() {}
		}, context.DeadlineExceeded},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			first, second, end := tt.make()
			defer end()
			s, b := &store{}, &broker{}
			s.put = func(ctx context.Context, key string, _ *io.SectionReader) error {
				end()
				<-ctx.Done()
				return &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "put", Key: key, Err: ctx.Err()}
			}
			cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Timeout: tt.timeout})
			err := wrap(t, cc, b, nil).Publish("hooks", under(first), under(second))
			var all *hookmw.CheckInError
			if !errors.As(err, &all) || len(all.Messages) != 2 || !errors.Is(err, tt.is) || !envelope.IsTransient(err) || b.calls != 0 {
				t.Errorf("%d calls of the broker, error %v", b.calls, err)
			}
			if hookmw.ShouldPoison(err) {
				t.Error("poisoned")
			}
		})
	}
}

// Redeeming runs under the message's context, and nothing else: a message whose time is over is
// not redeemed for nobody.
func TestRedeemContext(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		s, b := &store{}, &broker{}
		cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Lazy: lazy})
		msg := checkedIn(t, cc, b)
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), ctxKey{}, "a"))
		msg.SetContext(ctx)
		s.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
			if ctx.Value(ctxKey{}) != "a" {
				t.Error("another context")
			}
			cancel()
			return s.Store.Get(ctx, key, off, n)
		}
		before := msg.Copy()
		err := lazily(t, cc, msg)
		if !errors.Is(err, context.Canceled) || !envelope.IsTransient(err) || hookmw.ShouldPoison(err) {
			t.Errorf("lazy %v: error %v", lazy, err)
		}
		if !msg.Equals(before) {
			t.Errorf("the message became %v", msg.Metadata)
		}
		s.get = nil
		msg.SetContext(context.Background())
		if err := lazily(t, cc, msg); err != nil {
			t.Errorf("delivered again: %v", err)
		}
	}
}

// A store of four connections is enough for any number of consumers: none holds one while it
// waits for another.
func TestRedeemAtOnce(t *testing.T) {
	const messages, connections = 200, 4
	s, b := &store{}, &broker{}
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, InlineMaxBytes: 100})
	var batch []*message.Message
	for i := range messages {
		batch = append(batch, hook(text(1000+i)))
	}
	if err := wrap(t, cc, b, nil).Publish("hooks", batch...); err != nil {
		t.Fatal(err)
	}
	slots := make(chan struct{}, connections)
	s.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
		slots <- struct{}{}
		r, err := s.Store.Get(ctx, key, off, n)
		if err != nil {
			<-slots
			return nil, err
		}
		return &connection{r, slots}, nil
	}
	results := make(chan error, messages)
	received := make([]*message.Message, messages)
	for i := range received {
		received[i] = b.receive(t, i)
	}
	for i, msg := range received {
		go func() {
			_, err := cc.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				if !bytes.Equal(msg.Payload, text(1000+i)) {
					return nil, errors.New("another body")
				}
				return nil, nil
			})(msg)
			results <- err
		}()
	}
	for range messages {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if len(slots) != 0 {
		t.Errorf("%d connections are still open", len(slots))
	}
}

// A connection gives its slot back when it is closed.
type connection struct {
	io.ReadCloser
	slots chan struct{}
}

func (c *connection) Close() error {
	<-c.slots
	return c.ReadCloser.Close()
}
