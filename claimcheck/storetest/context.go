package storetest

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
)

var contextCases = []Case{
	rule("context-before-put", "Put with a context that is done fails with its error and CodeUnavailable, and stores nothing", contextBeforePut),
	rule("context-before-get", "Get with a context that is done fails with its error and CodeUnavailable", contextBeforeGet),
	rule("context-during-put", "Put whose context ends before all of obj was read fails with its error and CodeUnavailable, leaves nothing to see, and the key is free", contextDuringPut),
	rule("context-during-get", "The reader fails with the context's error and CodeUnavailable once the context has ended, also when the object is in reach", contextDuringGet),
	rule("context-after", "What was stored or read is not undone when its context ends afterwards", contextAfter),
}

// done is a context that has ended in one of the two ways.
type done struct {
	name  string
	cause error
	with  func(context.Context) context.Context
}

var bothDone = []done{
	{"cancelled", context.Canceled, func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx
	}},
	{"expired", context.DeadlineExceeded, func(ctx context.Context) context.Context {
		ctx, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Hour))
		cancel() // changes nothing any more
		return ctx
	}},
}

func contextBeforePut(c *check) {
	s := c.store()
	for i, d := range bothDone {
		k := key("before", day, i)
		err := s.Put(d.with(c.Ctx), k, section(pattern(1, 1000)))
		c.wantContextErr("Put with a context that is "+d.name, err, d.cause, k)
		c.absent(s, k)
		c.put(s, k, pattern(2, 500))
		c.holds(s, k, pattern(2, 500))
	}
}

func contextBeforeGet(c *check) {
	s := c.store()
	k := key("before", day, 1)
	c.put(s, k, pattern(1, 1000))
	for _, d := range bothDone {
		_, err := get(d.with(c.Ctx), s, k, 0, 1000)
		c.wantContextErr("Get with a context that is "+d.name, err, d.cause, k)
	}
}

func contextDuringPut(c *check) {
	s := c.store()
	data := pattern(1, 6<<20)
	for i, at := range []int64{0, 3 << 20, 6<<20 - 1} {
		ctx, cancel := context.WithCancel(c.Ctx)
		k := key("during", day, i)
		err := s.Put(ctx, k, sectionOf(&hooked{data, func(off, n int64) error {
			if off+n > at {
				cancel()
			}
			return nil
		}}, len(data)))
		cancel()
		c.wantContextErr(sprintf("Put whose context ends when byte %d is read", at), err, context.Canceled, k)
		c.absent(s, k)
		c.put(s, k, pattern(2, 500))
		c.holds(s, k, pattern(2, 500))
	}
}

func contextDuringGet(c *check) {
	s := c.store()
	data := pattern(1, 6<<20)
	k := key("during", day, 1)
	c.put(s, k, data)
	for _, first := range []int{0, 1, 70_000} {
		ctx, cancel := context.WithCancel(c.Ctx)
		r, err := s.Get(ctx, k, 0, whole)
		if err != nil {
			cancel()
			c.Fatalf("Get: %v", err)
		}
		if _, err := io.ReadFull(r, make([]byte, first)); err != nil {
			c.Errorf("Read before the context ends: %v", err)
		}
		cancel()
		n, err := io.Copy(io.Discard, r)
		if err == nil {
			c.Errorf("the reader gave another %d bytes and io.EOF after its context had ended", n)
		} else {
			c.wantContextErr("Read after the context has ended", err, context.Canceled, k)
		}
		r.Close()
	}
	c.holds(s, k, data)
}

func contextAfter(c *check) {
	s := c.store()
	data := pattern(1, 100_000)
	k := key("after", day, 1)
	ctx, cancel := context.WithCancel(c.Ctx)
	if err := s.Put(ctx, k, section(data)); err != nil {
		c.Errorf("Put: %v", err)
	}
	got, err := get(ctx, s, k, 0, whole)
	cancel()
	if err != nil || len(got) != len(data) {
		c.Errorf("Get: %d bytes, %v", len(got), err)
	}
	c.holds(s, k, data)
}

var forbiddenCases = []Case{
	rule("forbidden", "A store that refuses us fails every operation with CodeForbidden, which is transient", func(c *check) {
		c.fails(c.h.Forbidden(c.T), claimcheck.ErrForbidden)
	}),
}

var unavailableCases = []Case{
	rule("unavailable", "A store that is down fails every operation with CodeUnavailable, which is transient: not even a Get says that the object is missing", func(c *check) {
		c.fails(c.h.Unavailable(c.T), claimcheck.ErrUnavailable)
	}),
}

// fails checks that every operation of a store fails with an error.
func (c *check) fails(s claimcheck.Store, want error) {
	if s == nil {
		c.Fatalf("the harness returned nil")
	}
	k := key("fails", day, 1)
	for _, size := range []int{0, 100, 6 << 20} {
		err, wantPut := s.Put(c.Ctx, k, section(pattern(1, size))), want
		// A server may refuse a large object without reading it, and then the connection may
		// break before its answer is read.
		if size > 1<<20 && errors.Is(err, claimcheck.ErrUnavailable) {
			wantPut = claimcheck.ErrUnavailable
		}
		c.wantErr(sprintf("Put of %d bytes", size), err, wantPut, k)
	}
	_, err := get(c.Ctx, s, k, 0, 100)
	c.wantErr("Get", err, want, k)
	_, err = get(c.Ctx, s, k, 5000, 100)
	c.wantErr("Get of a later range", err, want, k)

	p, ok := s.(claimcheck.PrunableStore)
	if !ok {
		return
	}
	c.wantErr("Delete", p.Delete(c.Ctx, k), want, k)
	err = errors.New("no error") // List ends without one
	for key, e := range p.List(c.Ctx, "claims/") {
		if e == nil {
			c.Errorf("List of a store that fails has %q", key)
		}
		err = e
	}
	c.wantErr("List", err, want, "")
}
