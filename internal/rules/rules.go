// Package rules runs one case of a public suite, which checks that an implementation keeps the
// rules of an interface: storetest and inboxtest are made of it.
package rules

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Check is a case that runs.
type Check struct {
	T   *testing.T      // for the harness only
	Ctx context.Context // ends with the time of the case

	mu       sync.Mutex
	problems []string
}

// Errorf notes a violation. Any goroutine may call it.
func (c *Check) Errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// Fatalf notes a violation and ends the goroutine of the case, the only one to call it.
func (c *Check) Fatalf(format string, args ...any) {
	c.Errorf(format, args...)
	runtime.Goexit()
}

// Run runs a case and returns nil, or an error that begins with its title and says how the rule
// was violated. A case that takes longer than timeout fails, and is left behind: what it checks
// may hang for ever. A panic is a violation.
func Run(t *testing.T, timeout time.Duration, title string, f func(*Check)) error {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	c := &Check{T: t, Ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				c.Errorf("panic: %v", p)
			}
		}()
		f(c)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		c.Errorf("not done after %v", timeout)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.problems) == 0 {
		return nil
	}
	const most = 20
	problems := c.problems
	if more := len(problems) - most; more > 0 {
		problems = append(problems[:most:most], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%s:\n\t%s", title, strings.Join(problems, "\n\t"))
}
