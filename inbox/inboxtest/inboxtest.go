// Package inboxtest checks that an [inbox.Seen] keeps the rules in the comment of that
// interface. Every one of this module passes it; run it on your own:
//
//	func TestSeen(t *testing.T) {
//		inboxtest.Run(t, inboxtest.Harness{
//			New: func(t *testing.T) inbox.Seen { return myseen.New(t.TempDir()) },
//		})
//	}
//
// It is itself tested by Seens that are broken in one way each.
package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/inbox"
)

// A Harness is what the suite needs to know of a Seen. New is required. A field that is nil
// leaves its cases out: they are for Seens that can share or fail.
//
// What a function of the harness starts it stops in t.Cleanup.
type Harness struct {
	// New returns a Seen without keys. It is called once for each case.
	New func(t *testing.T) inbox.Seen

	// Again returns another Seen that shares what seen remembers, as another process would
	// have it.
	Again func(t *testing.T, seen inbox.Seen) inbox.Seen

	// Unavailable returns a Seen that cannot do its work: nothing listens at its address. It
	// should give up within seconds.
	Unavailable func(t *testing.T) inbox.Seen

	// OneAtATime says that a fn keeps every other from running, whatever its key, as SQLite's
	// lock does: the case other-keys is left out.
	OneAtATime bool
}

// A Case is one rule and its check.
type Case struct {
	// Name is the name of the subtest.
	Name string
	// Rule says what is checked, in words.
	Rule string
	// Place is the file and the line of the rule.
	Place string

	h Harness
	f func(*check)
}

// Run runs every case in a subtest of its name.
func Run(t *testing.T, h Harness) {
	for _, c := range Cases(h) {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Check(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// Cases returns the cases for the harness.
func Cases(h Harness) []Case {
	groups := [][]Case{keepCases, besideCases}
	if h.Again != nil {
		groups = append(groups, sharedCases)
	}
	if h.Unavailable != nil {
		groups = append(groups, unavailableCases)
	}
	var all []Case
	for _, group := range groups {
		for _, c := range group {
			if c.h = h; !h.OneAtATime || c.Name != otherKeysName {
				all = append(all, c)
			}
		}
	}
	return all
}

// caseTimeout is how long one case may take: a Seen that hangs fails, and the others still get
// their turn. No case of a Seen that works comes near it.
const caseTimeout = time.Minute

// Check runs the case and returns nil, or an error that says the rule, its place, and how it
// was violated. It uses t for the harness only.
func (c Case) Check(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	k := &check{t: t, ctx: ctx, h: c.h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				k.errorf("panic: %v", p)
			}
		}()
		c.f(k)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		// The goroutine may be lost in the Seen for ever, so k is not waited for.
		k.errorf("not done after %v", caseTimeout)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.problems) == 0 {
		return nil
	}
	const most = 20
	problems := k.problems
	if more := len(problems) - most; more > 0 {
		problems = append(problems[:most:most], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%s (%s):\n\t%s", c.Rule, c.Place, strings.Join(problems, "\n\t"))
}

// rule returns a case with its place.
func rule(name, text string, f func(*check)) Case {
	place := "unknown place"
	if _, file, line, ok := runtime.Caller(1); ok {
		place = fmt.Sprintf("%s:%d", file, line)
	}
	return Case{Name: name, Rule: text, Place: place, f: f}
}

// A check is a case that runs.
type check struct {
	t   *testing.T
	ctx context.Context
	h   Harness

	mu       sync.Mutex
	problems []string
}

// errorf notes a violation. Any goroutine may call it.
func (c *check) errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// An outcome is what Once of one key is to do.
type outcome int

const (
	runs      outcome = iota // fn runs, and the key is kept
	duplicate                // fn is not called
)

// once calls Once with a fn that succeeds and checks what happens.
func (c *check) once(s inbox.Seen, key string, want outcome, when string) {
	calls := 0
	first, err := s.Once(c.ctx, key, func(context.Context) error {
		calls++
		return nil
	})
	wantCalls := 1
	if want == duplicate {
		wantCalls = 0
	}
	if calls != wantCalls || first != (want == runs) || err != nil {
		c.errorf("%s: Once of %.40q called fn %d times and returned %v, %v; want %d, %v", when, key, calls, first, err, wantCalls, want == runs)
	}
}

// wantOwn checks that err is a failure of the Seen's own.
func (c *check) wantOwn(what string, err error, causes ...error) {
	var own *inbox.Error
	if !errors.As(err, &own) || !own.Transient() {
		c.errorf("%s: error %v, want a transient *inbox.Error", what, err)
		return
	}
	for _, cause := range causes {
		if !errors.Is(err, cause) {
			c.errorf("%s: error %v, which is not %v", what, err, cause)
		}
	}
	if own.Key != "" && strings.Contains(err.Error(), own.Key) {
		c.errorf("%s: the text of the error holds the key: %v", what, err)
	}
}
