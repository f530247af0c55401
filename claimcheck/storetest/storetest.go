// Package storetest checks that a [claimcheck.Store] keeps what the comment of that interface
// promises. Every store of this module passes it; run it on your own:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness{
//			New: func(t *testing.T) claimcheck.Store { return mystore.New(t.TempDir()) },
//		})
//	}
//
// It is itself tested by stores that are broken in one way each.
package storetest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// A Harness is what the suite needs to know of a store. New is required. A field that is nil
// leaves its cases out: they are for stores that can fail in that way.
//
// What a function of the harness starts it stops in t.Cleanup.
type Harness struct {
	// New returns a store without objects that nothing else writes to. It is called once for
	// each case. A store with a limit on its connections is best given a small one, say 4, so
	// that a connection that is not given back is found.
	New func(t *testing.T) claimcheck.Store

	// FoldsCase says that the store is on a medium that takes names for the same that differ in
	// upper and lower case only, as the file systems of macOS and Windows do.
	FoldsCase bool

	// Forbidden returns a store that refuses us: wrong credentials, no rights on the folder.
	Forbidden func(t *testing.T) claimcheck.Store

	// Unavailable returns a store that cannot do its work: nothing listens at its address,
	// the bucket or the disk is gone. It should give up within seconds.
	Unavailable func(t *testing.T) claimcheck.Store
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

// Cases returns the cases for the harness, those of a [claimcheck.PrunableStore] included,
// which need one: for any other store they are nothing but that New's result is none.
func Cases(h Harness) []Case {
	groups := [][]Case{putCases, getCases, contextCases, keyCases, packCases, pruneCases}
	if h.Forbidden != nil {
		groups = append(groups, forbiddenCases)
	}
	if h.Unavailable != nil {
		groups = append(groups, unavailableCases)
	}
	var all []Case
	for _, group := range groups {
		for _, c := range group {
			c.h = h
			all = append(all, c)
		}
	}
	return all
}

// caseTimeout is how long one case may take: a store that hangs fails, and the others still
// get their turn. No case of a store that works comes near it.
const caseTimeout = 2 * time.Minute

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
		// The goroutine may be lost in the store for ever, so k is not waited for.
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

// fatalf notes a violation and ends the goroutine of the case, the only one to call it.
func (c *check) fatalf(format string, args ...any) {
	c.errorf(format, args...)
	runtime.Goexit()
}
