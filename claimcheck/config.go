package claimcheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// The defaults and limits of a [Config].
const (
	DefaultPackMaxBytes = 16 << 20
	DefaultMaxInFlight  = 16
	DefaultMaxBodyBytes = 64 << 20

	// MaxPackBytes is one more than the largest pack: sizes in it have 32 bits.
	MaxPackBytes = 1 << 32
	// MaxPackClaims is the most claims that a pack has.
	MaxPackClaims = 65_000
)

// A Config configures a Checker. Store is required, everything else has a default.
type Config struct {
	// Store has the objects. Whoever checks in and whoever redeems are configured with the
	// same one: a reference does not name it.
	Store Store

	// PackMaxBytes is the size at which another pack is begun. One body that is larger has a
	// pack of its own. 0 means DefaultPackMaxBytes, 16 MiB; at most 4 GiB.
	PackMaxBytes int64

	// MaxInFlight is how many Puts run at the same time, over all calls of CheckIn on a
	// Checker. 0 means DefaultMaxInFlight, 16.
	MaxInFlight int

	// MaxBodyBytes is the largest body that Redeem returns, which is what a message can make
	// a consumer allocate. Open and CheckIn are not limited by it. 0 means
	// DefaultMaxBodyBytes, 64 MiB.
	MaxBodyBytes int64
}

// Validate returns everything that is wrong with c, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("claimcheck: Store is required"))
	}
	if c.PackMaxBytes < 0 || c.PackMaxBytes > MaxPackBytes {
		errs = append(errs, fmt.Errorf("claimcheck: PackMaxBytes is %d, not 0 to %d", c.PackMaxBytes, int64(MaxPackBytes)))
	}
	if c.MaxInFlight < 0 {
		errs = append(errs, fmt.Errorf("claimcheck: MaxInFlight is %d, under 0", c.MaxInFlight))
	}
	if c.MaxBodyBytes < 0 {
		errs = append(errs, fmt.Errorf("claimcheck: MaxBodyBytes is %d, under 0", c.MaxBodyBytes))
	}
	return errors.Join(errs...)
}

// A Body is one body to check in, with what the manifest of its pack says about it. Only
// Tenant and Data matter to redeeming.
type Body struct {
	Tenant      string    // whose it is: see [ValidTenant]
	ID          string    // of the hook
	ContentType string    // "" for none
	ReceivedAt  time.Time // zero for not known; the manifest has it in milliseconds
	Data        []byte    // not changed, and not kept once CheckIn has returned

	// SHA256 is the digest of Data, 64 lower-case hex digits, from a caller who has it. It is
	// not computed again, so a wrong one makes a claim that cannot be redeemed. CheckIn
	// computes it where it is empty.
	SHA256 string
}

// A Claim is the answer for one Body: either Err, or what a message needs to carry.
type Claim struct {
	Ref    Ref
	SHA256 string // of the body, 64 lower-case hex digits
	Size   int64  // of the body, in bytes
	Err    error  // an [*Error]; the rest is zero then
}

// A Redeemer fetches the bodies of claims. A Checker does it from a store, a Client
// through a gateway. Any number of goroutines may use it.
//
// ref is a message's reference and sha256 its digest of the body. size is the message's size
// of the body, or less than 0 where it is not known. What is returned has been compared with
// all three. Errors are of type [*Error]: what is not found, does not match, or cannot be a
// reference, a digest or a size fails for good ([envelope.IsPermanent]); a store that cannot
// be reached or refuses us is worth another try ([envelope.IsTransient]).
//
// Nothing is deleted by reading: a message may come again, and others hold the same reference.
type Redeemer interface {
	// Redeem returns the body. A body over the limit of the implementation is an ErrTooLarge.
	Redeem(ctx context.Context, ref, sha256 string, size int64) ([]byte, error)

	// Open returns a reader of the body that holds little of it in memory. Nothing that it
	// gives is verified before it has ended: where the size or the digest turns out to be
	// another, its last Read fails with an ErrIntegrity and keeps back what was to be the end,
	// so that no reader takes the body for complete; whatever was done with it is to be
	// undone then. Where the size is known before, Open fails itself. ctx governs the reader
	// until it is closed, which the caller does, early or not.
	Open(ctx context.Context, ref, sha256 string, size int64) (io.ReadCloser, error)
}
