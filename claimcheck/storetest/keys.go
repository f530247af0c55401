package storetest

import (
	"strings"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
)

var keyCases = []Case{
	rule("key-hostile", "A key that ParseKey refuses is refused by every operation with CodeInvalidRef, and nothing is touched", keyHostile),
	rule("key-tenants", "Tenants are apart: those that begin with one another too", keyTenants),
	rule("key-case", "Tenants are apart that differ in upper and lower case only; where the store cannot have both, the second one's Put fails, and its Get finds nothing", keyCase),
	rule("key-days", "A pack of any day can be put, from the first that a key can have to the last", keyDays),
}

// hostileKeys are what a store must not follow. {} is a key that is there.
var hostileKeys = []string{
	"", ".", "..", "/", "//", "x", "\x00",
	"../x", "../../etc/passwd", "/etc/passwd", `C:\x`, `..\x`, "~/x", "file:///x", "CON",
	"{}/", "/{}", "./{}", "../{}", "{}/.", "{}/..", "{}/../x", "{}\x00", "{}\n", "{} ", " {}", "{}.tmp", "{}?x=1", "{}#x", "{}%00", "%2e%2e/{}",
	"claims", "claims/", "claims/tenant=a", "claims/tenant=a/", "claims/tenant=a/dt=2026-01-15", "claims/tenant=a/dt=2026-01-15/",
	"claims//tenant=a/dt=2026-01-15/{id}", "claims/tenant=a//dt=2026-01-15/{id}", "claims/tenant=a/dt=2026-01-15//{id}",
	"claims/tenant=a/./dt=2026-01-15/{id}", "claims/tenant=b/../tenant=a/dt=2026-01-15/{id}", "claims/../claims/tenant=a/dt=2026-01-15/{id}",
	"claims/tenant=../dt=2026-01-15/{id}", "claims/tenant=./dt=2026-01-15/{id}", "claims/tenant=/dt=2026-01-15/{id}", "claims/tenant=a/b/dt=2026-01-15/{id}",
	`claims\tenant=a\dt=2026-01-15\{id}`, `claims/tenant=a\..\b/dt=2026-01-15/{id}`, "claims/tenant=a%2fb/dt=2026-01-15/{id}", "claims/tenant=ä/dt=2026-01-15/{id}", "claims/tenant=a\xff/dt=2026-01-15/{id}",
	"claims/tenant=a/dt=2026-01-16/{id}", // not the id's day
	"claims/tenant=a/dt=2026-1-15/{id}", "claims/tenant=a/dt=../{id}", "claims/tenant=a/{id}", "tenant=a/dt=2026-01-15/{id}", "Claims/tenant=a/dt=2026-01-15/{id}",
	"claims/tenant=a/dt=2026-01-15/{id}.zip", "claims/tenant=a/dt=2026-01-15/{ID}", "claims/tenant=a/dt=2026-01-15/..", "claims/tenant=a/dt=2026-01-15/...",
	"claims/tenant=" + strings.Repeat("a", 65) + "/dt=2026-01-15/{id}", strings.Repeat("a", 5000), strings.Repeat("../", 40) + "tmp/x", strings.Repeat("a/", 2000) + "x",
}

func keyHostile(c *check) {
	s := c.store()
	there := key("a", day, 1)
	id := there[strings.LastIndexByte(there, '/')+1:]
	c.put(s, there, pattern(1, 1000))
	p, prunable := s.(claimcheck.PrunableStore)
	fill := strings.NewReplacer("{}", there, "{id}", id, "{ID}", strings.ToLower(id))
	for _, k := range hostileKeys {
		k = fill.Replace(k)
		read := false
		err := s.Put(c.Ctx, k, sectionOf(&hooked{[]byte("x"), func(int64, int64) error { read = true; return nil }}, 1))
		c.wantErr(sprintf("Put under the key %.80q", k), err, claimcheck.ErrInvalidRef, k)
		if read {
			c.Errorf("Put under the key %.80q read obj", k)
		}
		_, err = get(c.Ctx, s, k, 0, 10)
		c.wantErr(sprintf("Get of the key %.80q", k), err, claimcheck.ErrInvalidRef, k)
		if prunable {
			c.wantErr(sprintf("Delete of the key %.80q", k), p.Delete(c.Ctx, k), claimcheck.ErrInvalidRef, k)
		}
	}
	c.holds(s, there, pattern(1, 1000))
	if prunable {
		if keys := c.list(p, ""); len(keys) != 1 || keys[0] != there {
			c.Errorf("List has %.300q, want the one key that was put", keys)
		}
	}
}

func keyTenants(c *check) {
	s := c.store()
	tenants := []string{
		"a", "ab", "a-", "a_", "-", "_", "0", "tenant", "claims", "default", "CON", "nul",
		strings.Repeat("x", 63), strings.Repeat("x", 64),
	}
	for i, tenant := range tenants {
		k := key(tenant, day, 1)
		c.absent(s, k)
		c.put(s, k, pattern(byte(i), 1000+i))
	}
	for i, tenant := range tenants {
		c.holds(s, key(tenant, day, 1), pattern(byte(i), 1000+i))
	}
	for _, other := range []string{"b", "a-_", "x", strings.Repeat("x", 62)} {
		c.absent(s, key(other, day, 1))
	}
}

func keyCase(c *check) {
	s := c.store()
	upper, lower, other := key("Tenant-A", day, 1), key("tenant-a", day, 1), key("tenant-a", day, 2)
	c.put(s, upper, pattern(1, 1000))
	c.absent(s, lower)
	if !c.h.FoldsCase {
		c.put(s, lower, pattern(2, 2000))
		c.holds(s, lower, pattern(2, 2000))
	} else {
		for _, k := range []string{lower, other} {
			err := s.Put(c.Ctx, k, section(pattern(2, 2000)))
			c.wantErr("Put for a tenant that differs in case only", err, claimcheck.ErrUnavailable, k)
			c.absent(s, k)
		}
	}
	c.holds(s, upper, pattern(1, 1000))
}

func keyDays(c *check) {
	s := c.store()
	for i, at := range []time.Time{
		time.UnixMilli(0),
		time.Date(1999, time.December, 31, 23, 59, 59, 999e6, time.UTC),
		time.Date(2024, time.February, 29, 0, 0, 0, 0, time.UTC),
		day,
		time.Date(9999, time.December, 31, 23, 59, 59, 999e6, time.UTC),
	} {
		k := key("days", at, i)
		c.put(s, k, pattern(byte(i), 100))
		c.holds(s, k, pattern(byte(i), 100))
	}
}
