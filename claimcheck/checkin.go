package claimcheck

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// CheckIn stores bodies and returns an answer for each, in their order. An answer without an
// error means that the body is in the store, durably: a message may speak of it.
//
// The bodies of one tenant go in their order into packs of at most PackMaxBytes, and each pack
// is one Put, of which at most MaxInFlight run at the same time. The failure of a pack is that
// of its own bodies only. Bodies whose tenant or digest is none, and one that no pack has room
// for, fail without a call of the Store. ctx governs the Puts, and the wait for other calls'.
// What was stored and then is not spoken of, the store's retention removes.
//
// Every call stores its bodies anew under new references, even those that it stored before.
func (c *Checker) CheckIn(ctx context.Context, bodies []Body) []Claim {
	claims := make([]Claim, len(bodies))
	panics := make(chan string, 1)
	var wg sync.WaitGroup
	for _, g := range split(bodies, claims, c.config.PackMaxBytes) {
		if err := c.acquire(ctx); err != nil {
			g.fail(claims, err)
			continue
		}
		wg.Go(func() {
			defer func() {
				<-c.slots
				if v := recover(); v != nil {
					select {
					case panics <- fmt.Sprintf("%v\n\n%s", v, debug.Stack()):
					default: // one is enough
					}
				}
			}()
			stored, err := c.put(ctx, g.bodies)
			if err != nil {
				g.fail(claims, err)
				return
			}
			for i, at := range g.at {
				claims[at] = stored[i]
			}
		})
	}
	wg.Wait()
	select {
	case v := <-panics:
		panic(v) // where the caller can recover from it
	default:
	}
	return claims
}

// acquire takes a slot for a Put.
func (c *Checker) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// put stores bodies as one pack. A key that is taken was most likely taken by the same Put,
// in an attempt whose answer was lost. That cannot be told from another's object, so the pack
// is stored once more, under another key. put changes bodies.
func (c *Checker) put(ctx context.Context, bodies []Body) ([]Claim, error) {
	var taken error
	for range 2 {
		first, err := NewPackRef(bodies[0].Tenant, time.Now())
		if err != nil {
			return nil, err
		}
		p, err := NewPack(first, bodies)
		if err != nil {
			return nil, err
		}
		err = c.config.Store.Put(ctx, p.Key(), p.Object())
		if err == nil {
			return p.claims, nil
		}
		if !errors.Is(err, ErrExists) {
			return nil, err
		}
		taken = err
		for i := range bodies {
			bodies[i].SHA256 = p.claims[i].SHA256
		}
	}
	return nil, &Error{Code: CodeUnavailable, Err: fmt.Errorf("two new keys are taken: %w", taken)}
}

// A group is the bodies of one pack, with their places among all.
type group struct {
	bodies []Body
	at     []int
	cost   int64 // as the limit of a pack counts them
	most   int64 // what they can become in a pack
}

// split returns the packs to make of bodies. It answers those that cannot be in one.
func split(bodies []Body, claims []Claim, limit int64) []*group {
	var groups []*group
	open := make(map[string]*group) // by tenant
	for i := range bodies {
		b := &bodies[i]
		if err := checkBody(b); err != nil {
			claims[i].Err = err
			continue
		}
		// 136 bytes are a claim's row and headers, 200 about its part of the manifest,
		// where a character of a text can become six.
		text := int64(len(b.ID) + len(b.ContentType))
		cost := int64(len(b.Data)) + 136 + 200 + text
		most := cost + 100 + 5*text

		g := open[b.Tenant]
		if g == nil || g.cost+cost > limit || g.most+most > MaxPackBytes || len(g.bodies) == MaxPackClaims {
			g = &group{most: 1 << 10} // what a pack without claims has
			open[b.Tenant] = g
			groups = append(groups, g)
		}
		g.bodies = append(g.bodies, *b)
		g.at = append(g.at, i)
		g.cost += cost
		g.most += most
	}
	return groups
}

// checkBody says why a body can be in no pack.
func checkBody(b *Body) error {
	e := &Error{Op: "check in", Tenant: b.Tenant}
	switch {
	case !ValidTenant(b.Tenant):
		e.Code, e.Err = CodeInvalidTenant, errNotTenant
	case b.SHA256 != "" && !validDigest(b.SHA256):
		e.Code, e.Err = CodeInvalidRef, errNotDigest
	default:
		return nil
	}
	return e
}

// fail answers for all bodies of g.
func (g *group) fail(claims []Claim, err error) {
	e := failure("check in", Ref{}, err)
	e.Tenant = g.bodies[0].Tenant
	for _, at := range g.at {
		claims[at] = Claim{Err: e}
	}
}
