package storetest

import (
	"context"
	"slices"
	"strings"

	"github.com/watermill-envelope/envelope/claimcheck"
)

var pruneCases = []Case{
	rule("list-prefix", "List has the keys that begin with the prefix, each once: the prefix is compared as text, and an empty one finds all", prunable(listPrefix)),
	rule("list-many", "List is complete however many keys there are, can be stopped anywhere, and ends with the context's error when that ends", prunable(listMany)),
	rule("list-delete", "The keys that List gives can be deleted while it is read, and it still has all", prunable(listDelete)),
	rule("list-context", "List with a context that is done has nothing but its error", prunable(listContext)),
	rule("delete", "Delete removes one object, and no error says that there was none", prunable(deletes)),
	rule("delete-context", "Delete with a context that is done fails with its error and removes nothing", prunable(deleteContext)),
}

// prunable returns a case for stores that can list and delete. There is nothing to check of
// any other.
func prunable(f func(c *check, s claimcheck.PrunableStore)) func(*check) {
	return func(c *check) {
		if s, ok := c.store().(claimcheck.PrunableStore); ok {
			f(c, s)
		}
	}
}

func (c *check) lists(s claimcheck.PrunableStore, prefix string, want []string) {
	got := c.list(s, prefix)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		c.Errorf("List of %q has %d keys, want %d: %.600q, want %.600q", prefix, len(got), len(want), got, want)
	}
}

func listPrefix(c *check, s claimcheck.PrunableStore) {
	c.lists(s, "", nil)
	c.lists(s, "claims/tenant=a/", nil)
	var all []string
	for _, tenant := range []string{"a", "ab", "a-b", "b", "C"} {
		for _, days := range []int{0, 1, 5, 350} {
			for n := range 3 {
				k := key(tenant, day.AddDate(0, 0, days), n)
				c.put(s, k, pattern(1, 10))
				all = append(all, k)
			}
		}
	}
	for _, prefix := range []string{
		"", "c", "claims", "claims/", "claims/t", "claims/tenant=", "claims/tenant=a", "claims/tenant=a/", "claims/tenant=ab/", "claims/tenant=A", "claims/tenant=c", "Claims/",
		"claims/tenant=a/dt=2026-01-1", "claims/tenant=a/dt=2026-01-15", "claims/tenant=a/dt=2026-01-15/", "claims/tenant=a/dt=2026-01-150",
		"claims/tenant=a/dt=2026-01-15/0", "claims/tenant=a/dt=2026-01-2", "claims/tenant=b/dt=2026",
		all[0], all[0][:len(all[0])-1], all[4], all[0] + "/", all[0] + "0",
		"claims/tenant=c/", "claims/tenant=a/dt=2027", "claims//", "claims/tenant=a//", "claims/tenant=a/./",
		"/", "/claims", "./", "../", "claims/../", "claims/tenant=b/../tenant=a/", "*", "claims/*", "claims/tenant=?", "[a-z]", `claims\`, "\x00", "x",
		strings.Repeat("a", 5000), strings.Repeat("../", 30),
	} {
		var want []string
		for _, k := range all {
			if strings.HasPrefix(k, prefix) {
				want = append(want, k)
			}
		}
		c.lists(s, prefix, want)
	}
}

// manyKeys is more than the usual stores list in one answer, which is 1,000.
const manyKeys = 1_100

func (c *check) putMany(s claimcheck.PrunableStore) []string {
	keys := make([]string, manyKeys)
	const workers = 8
	each(workers, func(w int) {
		for i := w; i < manyKeys; i += workers {
			keys[i] = key("many", day.AddDate(0, 0, i/500), i)
			if err := s.Put(c.Ctx, keys[i], section([]byte("x"))); err != nil {
				c.Errorf("Put: %v", err)
			}
		}
	})
	return keys
}

func listMany(c *check, s claimcheck.PrunableStore) {
	keys := c.putMany(s)
	c.lists(s, "claims/tenant=many/", keys)
	for _, stop := range []int{1, 2, 999, 1000, 1001} {
		n := 0
		for _, err := range s.List(c.Ctx, "") {
			if err != nil {
				c.Fatalf("List after %d keys: %v", n, err)
			}
			if n++; n == stop {
				break
			}
		}
	}
	ctx, cancel := context.WithCancel(c.Ctx)
	defer cancel()
	n := 0
	var last error
	for _, err := range s.List(ctx, "") {
		n++
		last = err
		cancel()
	}
	if last == nil {
		c.Errorf("List ended without an error after %d keys, all but one of them after its context had ended", n)
	} else {
		c.wantContextErr("List whose context has ended", last, context.Canceled, "")
	}
	// One range over the result is one list; another begins again.
	list := s.List(c.Ctx, "claims/tenant=many/dt=2026-01-15/")
	for range 2 {
		n = 0
		for _, err := range list {
			if err != nil {
				c.Fatalf("List: %v", err)
			}
			n++
		}
		if n != 500 {
			c.Errorf("List has %d keys of 500 in one day", n)
		}
	}
}

func listDelete(c *check, s claimcheck.PrunableStore) {
	keys := c.putMany(s)
	other := key("other", day, 1)
	c.put(s, other, nil)
	var seen []string
	for k, err := range s.List(c.Ctx, "claims/tenant=many/") {
		if err != nil {
			c.Fatalf("List after %d keys were deleted: %v", len(seen), err)
		}
		if err := s.Delete(c.Ctx, k); err != nil {
			c.Fatalf("Delete of a key that List has given: %v", err)
		}
		seen = append(seen, k)
	}
	slices.Sort(seen)
	if slices.Sort(keys); !slices.Equal(seen, keys) {
		c.Errorf("List had %d keys of %d, while each was deleted", len(seen), len(keys))
	}
	c.lists(s, "", []string{other})
}

func listContext(c *check, s claimcheck.PrunableStore) {
	c.put(s, key("a", day, 1), nil)
	for _, d := range bothDone {
		var last error
		for k, err := range s.List(d.with(c.Ctx), "") {
			if k != "" {
				c.Errorf("List with a context that is %s has %q", d.name, k)
			}
			last = err
		}
		c.wantContextErr("List with a context that is "+d.name, last, d.cause, "")
	}
}

func deletes(c *check, s claimcheck.PrunableStore) {
	a, b, other := key("a", day, 1), key("a", day, 2), key("b", day, 1)
	c.delete(s, a) // nothing of the tenant is there yet
	for _, k := range []string{a, b, other} {
		c.put(s, k, pattern(1, 1000))
	}
	for range 2 {
		c.delete(s, a)
		c.absent(s, a)
		c.holds(s, b, pattern(1, 1000))
		c.holds(s, other, pattern(1, 1000))
		c.lists(s, "", []string{b, other})
	}
	c.delete(s, b) // the last of its day and tenant
	c.absent(s, b)
	c.put(s, key("a", day, 3), pattern(2, 10))
	c.holds(s, key("a", day, 3), pattern(2, 10))

	// Many at a time, of one key too.
	keys := make([]string, 20)
	for i := range keys {
		keys[i] = key("c", day, i/2)
		if i%2 == 0 {
			c.put(s, keys[i], nil)
		}
	}
	each(len(keys), func(i int) { c.delete(s, keys[i]) })
	c.lists(s, "claims/tenant=c", nil)
}

func (c *check) delete(s claimcheck.PrunableStore, key string) {
	if err := s.Delete(c.Ctx, key); err != nil {
		c.Errorf("Delete of %q: %v", key, err)
	}
}

func deleteContext(c *check, s claimcheck.PrunableStore) {
	k := key("a", day, 1)
	c.put(s, k, pattern(1, 1000))
	for _, d := range bothDone {
		c.wantContextErr("Delete with a context that is "+d.name, s.Delete(d.with(c.Ctx), k), d.cause, k)
		c.holds(s, k, pattern(1, 1000))
	}
}
