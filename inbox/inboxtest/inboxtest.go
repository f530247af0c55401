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
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/inbox"
	"github.com/watermill-envelope/envelope/internal/rules"
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
	return rules.Run(t, caseTimeout, c.Rule+" ("+c.Place+")", func(r *rules.Check) { c.f(&check{r, c.h}) })
}

// rule returns a case with its place.
func rule(name, text string, f func(*check)) Case {
	_, file, line, _ := runtime.Caller(1)
	return Case{Name: name, Rule: text, Place: fmt.Sprintf("%s:%d", file, line), f: f}
}

// A check is a case that runs.
type check struct {
	*rules.Check
	h Harness
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
	first, err := s.Once(c.Ctx, key, func(context.Context) error {
		calls++
		return nil
	})
	wantCalls := 1
	if want == duplicate {
		wantCalls = 0
	}
	if calls != wantCalls || first != (want == runs) || err != nil {
		c.Errorf("%s: Once of %.40q called fn %d times and returned %v, %v; want %d, %v", when, key, calls, first, err, wantCalls, want == runs)
	}
}

// wantOwn checks that err is a failure of the Seen's own.
func (c *check) wantOwn(what string, err error, causes ...error) {
	var own *inbox.Error
	if !errors.As(err, &own) || !own.Transient() {
		c.Errorf("%s: error %v, want a transient *inbox.Error", what, err)
		return
	}
	for _, cause := range causes {
		if !errors.Is(err, cause) {
			c.Errorf("%s: error %v, which is not %v", what, err, cause)
		}
	}
	if own.Key != "" && strings.Contains(err.Error(), own.Key) {
		c.Errorf("%s: the text of the error holds the key: %v", what, err)
	}
}
