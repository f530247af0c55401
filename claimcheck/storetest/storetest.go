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
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/internal/rules"
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
