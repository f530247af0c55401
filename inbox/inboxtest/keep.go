package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/watermill-envelope/envelope/inbox"
)

var keepCases = []Case{
	rule("first", "fn of a key that is not kept is called once, and Once returns true", first),
	rule("duplicate", "Once of a key that is kept calls no fn and returns false and no error, however often", again),
	rule("keys", "Two keys that differ in one byte are two, whatever their bytes and length", keys),
	rule("failure", "When fn fails its error is returned and found with its class, and the key is not kept", failure),
	rule("panic", "When fn panics the panic goes on with its value, and the key is not kept", panics),
	rule("goexit", "When fn ends its goroutine the key is not kept, and is free", goexit),
	rule("context", "fn's context has the values of Once's, and is cancelled with it", contextOf),
	rule("context-done", "Once with a context that is done calls no fn, keeps nothing and fails with its error in an inbox.Error", contextDone),
	rule("context-during", "When the context ends while fn runs, what Once returns and what is kept agree", contextDuring),
}

const key = "handler:acme:shop:order-7"

func first(c *check) {
	s := c.h.New(c.T)
	c.once(s, key, runs, "first")
	c.once(s, key+"1", runs, "first of another key")
}

func again(c *check) {
	s := c.h.New(c.T)
	c.once(s, key, runs, "first")
	for i := range 3 {
		c.once(s, key, duplicate, fmt.Sprintf("after it, %d", i+1))
	}
}

func keys(c *check) {
	s := c.h.New(c.T)
	long := strings.Repeat("long", 2500)
	var all []string
	for _, k := range []string{
		"h:", "h:a", "h:A", "h:a ", "h: a", "h:a\n", "h:á", "h:a\u0301", "h:ｱ", "h:\x00", "h:\x00\x00", "h:\xff", "h:\xfe", "h:%", "h:_", `h:\`, "h:'",
		"h:" + strings.Repeat("k", 253), "h:" + strings.Repeat("k", 254), "h:" + strings.Repeat("k", 255),
		long + "a", long + "b", "a" + long, "b" + long,
		// What a Seen may make of a long key is another key.
		"sha256:" + strings.Repeat("0", 64), "h:sha256:" + strings.Repeat("0", 64),
	} {
		c.once(s, k, runs, "first")
		all = append(all, k)
	}
	for _, k := range all {
		c.once(s, k, duplicate, "after all keys")
	}
}

// permanentError is an error with a class of its own.
type permanentError struct{}

func (*permanentError) Error() string   { return "the order has no lines" }
func (*permanentError) Permanent() bool { return true }

func failure(c *check) {
	s := c.h.New(c.T)
	cause := &permanentError{}
	for range 2 {
		first, err := s.Once(c.Ctx, key, func(context.Context) error { return cause })
		var own *inbox.Error
		if first || !errors.Is(err, cause) || errors.As(err, &own) {
			c.Errorf("Once returned %v, %v; want false and fn's error", first, err)
		}
	}
	c.once(s, key, runs, "after two failures")
	c.once(s, key, duplicate, "after that")
}

func panics(c *check) {
	s := c.h.New(c.T)
	value := &struct{ n int }{7}
	func() {
		defer func() {
			if got := recover(); got != any(value) {
				c.Errorf("recovered %v, want fn's value", got)
			}
		}()
		_, err := s.Once(c.Ctx, key, func(context.Context) error { panic(value) })
		c.Errorf("Once returned, with error %v", err)
	}()
	c.once(s, key, runs, "after the panic")
}

func goexit(c *check) {
	s := c.h.New(c.T)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := s.Once(c.Ctx, key, func(context.Context) error {
			runtime.Goexit()
			return nil
		})
		c.Errorf("Once returned, with error %v", err)
	}()
	<-done
	c.once(s, key, runs, "after fn ended its goroutine")
}

// A contextKey is that of the value in the context of the case "context".
type contextKey struct{}

func contextOf(c *check) {
	s := c.h.New(c.T)
	ctx, cancel := context.WithCancel(context.WithValue(c.Ctx, contextKey{}, "value"))
	defer cancel()
	_, err := s.Once(ctx, key, func(ctx context.Context) error {
		if got := ctx.Value(contextKey{}); got != "value" {
			c.Errorf("the context's value is %v", got)
		}
		if err := ctx.Err(); err != nil {
			c.Errorf("fn's context begins with %v", err)
		}
		cancel()
		select {
		case <-ctx.Done():
		case <-c.Ctx.Done():
			c.Errorf("fn's context was not cancelled")
		}
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		c.Errorf("Once returned %v, want fn's error, %v", err, context.Canceled)
	}
	c.once(s, key, runs, "afterwards")
}

func contextDone(c *check) {
	s := c.h.New(c.T)
	ctx, cancel := context.WithCancel(c.Ctx)
	cancel()
	first, err := s.Once(ctx, key, func(context.Context) error {
		c.Errorf("fn was called")
		return nil
	})
	if first {
		c.Errorf("Once returned true")
	}
	c.wantOwn("Once", err, context.Canceled)
	c.once(s, key, runs, "afterwards")
}

func contextDuring(c *check) {
	s := c.h.New(c.T)
	ctx, cancel := context.WithCancel(c.Ctx)
	defer cancel()
	first, err := s.Once(ctx, key, func(context.Context) error {
		cancel()
		return nil
	})
	switch {
	case first && err == nil:
		c.once(s, key, duplicate, "after it was kept")
	case !first && err != nil:
		c.wantOwn("Once", err)
		c.once(s, key, runs, "after it was not kept")
	default:
		c.Errorf("Once returned %v, %v", first, err)
	}
}
