package storetest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
	"github.com/watermill-envelope/envelope/claimcheck/storetest"
)

var (
	forbidden   = failing{&claimcheck.Error{Code: claimcheck.CodeForbidden}}
	unavailable = failing{&claimcheck.Error{Code: claimcheck.CodeUnavailable}}
)

func harness(s func() claimcheck.Store, forbidden, unavailable claimcheck.Store) storetest.Harness {
	return storetest.Harness{
		New:         func(*testing.T) claimcheck.Store { return s() },
		Forbidden:   func(*testing.T) claimcheck.Store { return forbidden },
		Unavailable: func(*testing.T) claimcheck.Store { return unavailable },
	}
}

func TestRunPassesAGoodStore(t *testing.T) {
	storetest.Run(t, harness(func() claimcheck.Store { return new(memstore.Store) }, forbidden, unavailable))
}

func TestRunPassesAStoreThatCannotList(t *testing.T) {
	type notPrunable struct{ claimcheck.Store }
	storetest.Run(t, harness(func() claimcheck.Store { return notPrunable{new(memstore.Store)} }, notPrunable{forbidden}, notPrunable{unavailable}))
}

// TestDefects holds the suite to its own word: a store with one defect fails the cases that
// are about it, and no others.
func TestDefects(t *testing.T) {
	failed, ran := make(map[string]bool), 0
	for _, d := range defects {
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			ran++
			h := harness(func() claimcheck.Store {
				b := &broken{Store: new(memstore.Store)}
				if d.break_ != nil {
					d.break_(b)
				}
				return b
			}, or(d.forbidden, forbidden), or(d.unavailable, unavailable))
			var got []string
			for _, c := range storetest.Cases(h) {
				if !slices.Contains(d.fails, c.Name) && (raceEnabled || c.Name == "pack-65000") {
					continue // they take most of the time
				}
				err := c.Check(t)
				if err == nil {
					continue
				}
				got = append(got, c.Name)
				failed[c.Name] = true
				if text := err.Error(); !strings.Contains(text, c.Rule) || !strings.Contains(text, c.Place) {
					t.Errorf("%s: an error without its rule and place: %v", c.Name, err)
				}
				if !slices.Contains(d.fails, c.Name) {
					t.Errorf("fails %s: %.500v", c.Name, err)
				}
			}
			for _, name := range d.fails {
				if !slices.Contains(got, name) {
					t.Errorf("does not fail %s", name)
				}
			}
		})
	}
	for _, c := range storetest.Cases(harness(nil, nil, nil)) {
		if ran == len(defects) && !failed[c.Name] {
			t.Errorf("no defect fails %s, so it may check nothing", c.Name)
		}
	}
}

func or(s, otherwise claimcheck.Store) claimcheck.Store {
	if s != nil {
		return s
	}
	return otherwise
}

func TestCasesAreNamed(t *testing.T) {
	var names []string
	for _, c := range storetest.Cases(harness(nil, nil, nil)) {
		if c.Name == "" || c.Rule == "" || strings.ContainsAny(c.Name, " /") {
			t.Errorf("case %q of the rule %q", c.Name, c.Rule)
		}
		if !strings.Contains(c.Place, ".go:") {
			t.Errorf("case %q is at %q", c.Name, c.Place)
		}
		if slices.Contains(names, c.Name) {
			t.Errorf("two cases have the name %q", c.Name)
		}
		names = append(names, c.Name)
	}
}
