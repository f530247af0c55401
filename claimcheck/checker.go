package claimcheck

import (
	"context"
	"errors"
	"sync"
)

// A Checker checks bodies in to a store, and redeems them. Any number of goroutines may use
// it. It is made by [New], and needs no closing.
type Checker struct {
	config Config
	slots  chan struct{} // one for each Put that runs
	firsts sync.Pool     // of *[firstRead]byte
}

var _ Redeemer = (*Checker)(nil)

// New returns a Checker, or everything that is wrong with c.
func New(c Config) (*Checker, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.PackMaxBytes == 0 {
		c.PackMaxBytes = DefaultPackMaxBytes
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = DefaultMaxInFlight
	}
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = DefaultMaxBodyBytes
	}
	return &Checker{config: c, slots: make(chan struct{}, c.MaxInFlight)}, nil
}

// failure returns the error of an operation on ref. What has a class keeps it; a context that
// ended, and whatever a Store did not translate, is an outage.
func failure(op string, ref Ref, err error) *Error {
	e := &Error{Code: CodeUnavailable, Op: op, Ref: ref.Masked(), Err: err}
	var cause *Error
	if !errors.As(err, &cause) || isContext(err) || !cause.Permanent() && !cause.Transient() {
		return e
	}
	e.Code, e.Status = cause.Code, cause.Status
	if cause.Op == "" { // our own
		e.Key, e.Err = ref.Key(), cause.Err
	}
	return e
}

// isContext reports whether a context ended.
func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
