package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/watermill-envelope/envelope/inbox"
)

const otherKeysName = "other-keys"

var besideCases = []Case{
	rule("beside", "Of many calls of one key at once one fn succeeds; no two run beside each other, and the others are duplicates or fail as busy", beside),
	rule("beside-failing", "Of many calls of one key whose fns fail no two run beside each other, and the key is free at their end", besideFailing),
	rule(otherKeysName, "While a fn runs, Once of other keys calls theirs", otherKeys),
	rule("waiting", "While a fn runs, Once of its key whose context ends returns its error in an inbox.Error without calling fn, and nothing of the first is lost", waiting),
}

var sharedCases = []Case{
	rule("shared", "What one Seen keeps is a duplicate for another that shares it, and what it does not keep is free", shared),
	rule("shared-beside", "The same as beside, from several Seens that share what they remember", sharedBeside),
}

var unavailableCases = []Case{
	rule("unavailable", "A Seen that cannot do its work calls no fn and fails with ErrUnavailable", unavailable),
}

func beside(c *check) {
	s := c.h.New(c.T)
	c.race([]inbox.Seen{s}, 24, func(int) error { return nil }, 1)
	c.once(s, key, duplicate, "afterwards")
}

func besideFailing(c *check) {
	s := c.h.New(c.T)
	c.race([]inbox.Seen{s}, 12, func(int) error { return &permanentError{} }, 0)
	c.once(s, key, runs, "afterwards")
}

func sharedBeside(c *check) {
	s := c.h.New(c.T)
	seens := []inbox.Seen{s, c.h.Again(c.T, s), c.h.Again(c.T, s)}
	// The first fails, whichever it is.
	c.race(seens, 24, func(call int) error {
		if call == 1 {
			return &permanentError{}
		}
		return nil
	}, 1)
	c.once(s, key, duplicate, "afterwards")
}

// overlap is how long a fn runs while others want to. It only makes it likely that a Seen which
// lets them does.
const overlap = 10 * time.Millisecond

// race calls Once of one key from n goroutines, each until it has an answer that is not the
// Seen's own failure. fn is called with the number of the call.
func (c *check) race(seens []inbox.Seen, n int, fn func(call int) error, succeed int) {
	var calls, running, succeeded, kept, started atomic.Int32
	all := make(chan struct{}) // closed when every goroutine is about to call Once
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if started.Add(1) == int32(n) {
				close(all)
			}
			for c.Ctx.Err() == nil {
				called, failed := false, false
				first, err := seens[i%len(seens)].Once(c.Ctx, key, func(context.Context) error {
					if called {
						c.Errorf("one Once calls fn twice")
					}
					called = true
					call := calls.Add(1)
					if r := running.Add(1); r != 1 {
						c.Errorf("%d fns of one key run at once", r)
					}
					defer running.Add(-1)
					<-all
					time.Sleep(overlap)
					err := fn(int(call))
					failed = err != nil
					return err
				})
				var own *inbox.Error
				if errors.As(err, &own) && !failed {
					runtime.Gosched()
					continue
				}
				switch {
				case own != nil:
					c.Errorf("Once returned %v instead of fn's error", err)
				case first && err != nil:
					c.Errorf("Once returned true and %v", err)
				case first:
					kept.Add(1)
				}
				if called && !failed {
					succeeded.Add(1)
				}
				return
			}
		})
	}
	wg.Wait()
	if got := kept.Load(); int(got) != succeed || succeeded.Load() != got {
		c.Errorf("%d fns of one key succeeded and Once returned true %d times, want %d", succeeded.Load(), got, succeed)
	}
}

// during runs f while a fn of the key runs, which then returns nil.
func (c *check) during(s inbox.Seen, f func()) {
	calls := 0
	first, err := s.Once(c.Ctx, key, func(context.Context) error {
		calls++
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		select {
		case <-done:
		case <-c.Ctx.Done():
			c.Errorf("a call beside the fn does not return")
		}
		return nil
	})
	if !first || err != nil || calls != 1 {
		c.Errorf("the first Once called fn %d times and returned %v, %v", calls, first, err)
	}
}

func otherKeys(c *check) {
	s := c.h.New(c.T)
	c.during(s, func() {
		for i := range 3 {
			c.once(s, fmt.Sprint(key, i), runs, "beside a fn of another key")
		}
	})
}

func waiting(c *check) {
	s := c.h.New(c.T)
	c.during(s, func() {
		ctx, cancel := context.WithCancel(c.Ctx)
		asked := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			first, err := s.Once(&watched{Context: ctx, asked: asked}, key, func(context.Context) error {
				c.Errorf("two fns of one key run at once")
				return nil
			})
			if first {
				c.Errorf("the second Once returned true")
			}
			c.wantOwn("the second Once", err)
		}()
		// It waits, or has returned as busy.
		select {
		case <-asked:
		case <-done:
		}
		cancel()
		<-done
	})
	c.once(s, key, duplicate, "afterwards")
}

// A watched context tells when somebody first looks at it.
type watched struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.asked) })
	return w.Context.Done()
}

func shared(c *check) {
	s := c.h.New(c.T)
	other := c.h.Again(c.T, s)
	c.once(s, key, runs, "first")
	c.once(other, key, duplicate, "by the other")
	if _, err := s.Once(c.Ctx, key+"1", func(context.Context) error { return &permanentError{} }); err == nil {
		c.Errorf("fn's error is not returned")
	}
	c.once(other, key+"1", runs, "by the other, after a failure")
	c.once(s, key+"1", duplicate, "by the first, after that")
}

func unavailable(c *check) {
	s := c.h.Unavailable(c.T)
	for range 2 {
		first, err := s.Once(c.Ctx, key, func(context.Context) error {
			c.Errorf("fn was called")
			return nil
		})
		if first {
			c.Errorf("Once returned true")
		}
		c.wantOwn("Once", err, inbox.ErrUnavailable)
	}
}
