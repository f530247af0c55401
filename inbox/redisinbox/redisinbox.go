// Package redisinbox remembers which messages were handled in Redis, for any number of
// processes.
//
// Redis is a filter and no transaction: what a handler does elsewhere and its key are not
// written at once. A message takes effect twice when a process ends between the two and the
// message is delivered again, and when Redis loses what it had (an eviction, a failover to a
// replica that was behind). Where that must not happen, use package sqlinbox.
package redisinbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope/inbox"
)

// What a [Config] that does not say otherwise has.
const (
	DefaultPrefix    = "inbox:"
	DefaultRetention = 24 * time.Hour
	DefaultLease     = 30 * time.Second
	DefaultWait      = 10 * time.Second
)

// minLease is the shortest lease: a third of it is what one renewal may take.
const minLease = 100 * time.Millisecond

// A Config says where the keys are kept, and for how long. Client is required.
type Config struct {
	// Client runs scripts: a *redis.Client, a *redis.ClusterClient or a redis.UniversalClient.
	// It is not closed. Each script touches one key.
	Client redis.Scripter
	// Prefix is what the names of the keys in Redis begin with; empty is [DefaultPrefix].
	Prefix string
	// Retention is how long a key is kept after its function returned; 0 is
	// [DefaultRetention]. It has to be longer than a message can come again after.
	Retention time.Duration
	// Lease is how long a key stays busy after the process that handles it has ended; 0 is
	// [DefaultLease]. While the function runs it is renewed every third of that. The least is
	// 100 ms.
	Lease time.Duration
	// Wait is how long Once waits for another one that handles the key before it fails with
	// ErrBusy; 0 is [DefaultWait], and less than 0 is not at all.
	Wait time.Duration
}

// Validate reports everything that is wrong with c. It does not ask Redis.
func (c Config) Validate() error {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("redisinbox: no Client"))
	}
	if c.Retention < 0 || 0 < c.Retention && c.Retention < time.Millisecond {
		errs = append(errs, fmt.Errorf("redisinbox: Retention %v, at least 1ms", c.Retention))
	}
	if c.Lease != 0 && c.Lease < minLease {
		errs = append(errs, fmt.Errorf("redisinbox: Lease %v, at least %v", c.Lease, minLease))
	}
	return errors.Join(errs...)
}

// An Inbox is an [inbox.Seen] in Redis. Any number of goroutines and processes may share the
// keys.
type Inbox struct {
	config Config
}

var _ inbox.Seen = (*Inbox)(nil)

// New returns an Inbox. It does not ask Redis.
func New(c Config) (*Inbox, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.Retention == 0 {
		c.Retention = DefaultRetention
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Wait == 0 {
		c.Wait = DefaultWait
	}
	return &Inbox{c}, nil
}

// A key in Redis holds a token while it is leased, and done when it is kept. The scripts are
// given the token first; each may run twice, when the client did not see the first answer.
var (
	// claim: what the key holds, which is the token if it was free.
	claim = redis.NewScript(`
local held = redis.call('GET', KEYS[1])
if held then return held end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]`)
	// renew: 1 if the lease is ours still.
	renew = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
	// keep: 1 if the key is kept.
	keep = redis.NewScript(`
local held = redis.call('GET', KEYS[1])
if held == 'done' then return 1 end
if held ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], 'done', 'PX', ARGV[2])
return 1`)
	// release: the key is free, unless somebody else has it.
	release = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

const done = "done"

// Once runs fn unless key is kept, under a lease that is renewed while fn runs. See
// [inbox.Seen].
//
// fn's context is cancelled, with [inbox.ErrLost] as its cause, when the lease is another's or
// could not be renewed in time.
//
// When fn has succeeded and Redis is down, keeping the key is tried until the lease has run
// out, also after ctx is done. Then, or when the lease was lost, the error is an [*inbox.Error]:
// the effect is there and the key is not, and a message that comes again takes effect again. When
// fn has failed the key is given free; if Redis is down, it is busy until the lease runs out.
func (i *Inbox) Once(ctx context.Context, key string, fn func(ctx context.Context) error) (first bool, err error) {
	l := &lease{inbox: i, key: key, token: rand.Text()}
	if free, err := l.claim(ctx); !free {
		return false, err
	}
	succeeded := false
	defer func() {
		if !succeeded { // or has panicked
			l.release(ctx)
		}
	}()
	if err := l.while(ctx, fn); err != nil {
		return false, err
	}
	succeeded = true
	if err := l.keep(ctx); err != nil {
		return false, err
	}
	return true, nil
}

// A lease is the right to handle a key, for a time.
type lease struct {
	inbox *Inbox
	key   string
	token string
	until time.Time // by which it has run out, if it is not renewed; by our clock, from before the call
}

// run runs a script with our key and token, and a time in milliseconds.
func (l *lease) run(ctx context.Context, s *redis.Script, d time.Duration) *redis.Cmd {
	return s.Run(ctx, l.inbox.config.Client, []string{l.inbox.config.Prefix + l.key}, l.token, d.Milliseconds())
}

func (l *lease) failure(code inbox.Code, op string, err error) error {
	return &inbox.Error{Code: code, Op: op, Key: l.key, Err: err}
}

// claim waits until the key is ours or kept, and reports which.
func (l *lease) claim(ctx context.Context) (free bool, err error) {
	deadline := time.Now().Add(max(0, l.inbox.config.Wait))
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		if err := ctx.Err(); err != nil {
			return false, l.failure(inbox.CodeUnavailable, "claim", err)
		}
		asked := time.Now()
		held, err := l.run(ctx, claim, l.inbox.config.Lease).Text()
		switch {
		case err != nil:
			// It may be ours, if only the answer was lost.
			l.release(ctx)
			return false, l.failure(inbox.CodeUnavailable, "claim", err)
		case held == done:
			return false, nil
		case held == l.token:
			l.until = asked.Add(l.inbox.config.Lease)
			return true, nil
		case !asked.Add(pause).Before(deadline):
			return false, l.failure(inbox.CodeBusy, "claim", nil)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false, l.failure(inbox.CodeBusy, "claim", ctx.Err())
		}
	}
}

// while runs fn and renews the lease meanwhile.
func (l *lease) while(ctx context.Context, fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	end := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() { l.renew(ctx, cancel, end) })
	defer renewing.Wait() // it no longer touches the lease
	defer close(end)
	defer cancel(nil)
	err := fn(ctx)
	if lost := context.Cause(ctx); errors.Is(lost, inbox.ErrLost) && errors.Is(err, context.Canceled) {
		return l.failure(inbox.CodeLost, "handle", err)
	}
	return err
}

// renew renews the lease until end. When it is lost it cancels.
func (l *lease) renew(ctx context.Context, cancel context.CancelCauseFunc, end <-chan struct{}) {
	third := l.inbox.config.Lease / 3
	tick := time.NewTicker(third)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return
		case <-tick.C:
		}
		// A handler may go on after its context is done: what it has done must still be kept.
		call, stop := context.WithTimeout(context.WithoutCancel(ctx), third)
		asked := time.Now()
		n, err := l.run(call, renew, l.inbox.config.Lease).Int()
		stop()
		switch {
		case err == nil && n == 1:
			l.until = asked.Add(l.inbox.config.Lease)
		case err == nil, !time.Now().Add(third).Before(l.until):
			cancel(l.failure(inbox.CodeLost, "renew", err))
			return
		}
	}
}

// keep keeps the key.
func (l *lease) keep(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		call, stop := context.WithTimeout(ctx, l.inbox.config.Lease/3)
		n, err := l.run(call, keep, l.inbox.config.Retention).Int()
		stop()
		switch {
		case err == nil && n == 1:
			return nil
		case err == nil:
			return l.failure(inbox.CodeLost, "keep", nil)
		case !time.Now().Add(pause).Before(l.until):
			return l.failure(inbox.CodeUnavailable, "keep", err)
		}
		time.Sleep(pause)
	}
}

// release gives the key free, if it is ours. If Redis does not answer, the lease runs out.
func (l *lease) release(ctx context.Context) {
	call, stop := context.WithTimeout(context.WithoutCancel(ctx), min(l.inbox.config.Lease/3, time.Second))
	defer stop()
	_ = l.run(call, release, 0).Err()
}
