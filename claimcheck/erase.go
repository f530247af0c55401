package claimcheck

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/watermill-envelope/envelope"
)

// EraseOptions say how [Erase] goes about it.
type EraseOptions struct {
	// DryRun finds what would be deleted, and deletes nothing.
	DryRun bool
	// All erases every pack of the tenant, whatever its age. The time given to Erase must be
	// zero then: nobody erases everything by a time that was forgotten.
	All bool
	// Deleted is told the key of each pack once it is deleted, or of each that would be. Nil
	// is told nothing.
	Deleted func(key string)
}

// An Erasure is what [Erase] did, or would do.
type Erasure struct {
	// Deleted is how many packs were deleted, or would be.
	Deleted int
	// Kept is how many packs of the tenant are not older than the time given.
	Kept int
	// Forbidden has the keys of the packs that the store refuses to delete: it has them under
	// a legal hold or a retention lock, or we have no right to.
	Forbidden []string
	// Undated has the keys under the tenant's prefix that are not those of a pack, and so
	// have no time. They are never deleted. A Store leaves them out of its lists, so that
	// there are none unless it is at fault.
	Undated []string
}

// Erase deletes the packs of one tenant that were made before a time, by the time in their
// keys. Nothing else tells their age, and no pack of another tenant is touched. The bodies are
// gone for every reader: references to them are not found from then on, in queues, dead letters
// and replays as well.
//
// The tenant must be a valid one, and before not zero: see EraseOptions.All for all there is. A
// pack that the store refuses to delete is noted and passed over, and is an ErrForbidden in the
// end; any other failure ends it. What was done until then is in the Erasure, and to do the
// rest it is called again.
//
// A pack is erased as a whole: it has only bodies of its tenant, which were stored together.
// Where a Store keeps versions (S3), or a bucket is copied elsewhere, older versions and copies
// are left, and are for a rule of the bucket to remove.
func Erase(ctx context.Context, store PrunableStore, tenant string, before time.Time, o EraseOptions) (Erasure, error) {
	var done Erasure
	fail := func(code Code, err error) (Erasure, error) {
		return done, &Error{Code: code, Op: "erase", Tenant: tenant, Err: err}
	}
	if !ValidTenant(tenant) {
		return fail(CodeInvalidTenant, errNotTenant)
	}
	if before.IsZero() != o.All {
		return done, envelope.Permanent(errBefore)
	}
	var errs []error
	prefix := "claims/tenant=" + tenant + "/"
	for key, err := range store.List(ctx, prefix) {
		if err != nil {
			return done, errors.Join(append(errs, err)...)
		}
		r, err := ParseKey(key)
		switch {
		case err != nil || !strings.HasPrefix(key, prefix):
			done.Undated = append(done.Undated, key)
			continue
		case !o.All && !r.Time().Before(before):
			done.Kept++
			continue
		}
		if !o.DryRun {
			if err := store.Delete(ctx, key); errors.Is(err, ErrForbidden) {
				if done.Forbidden = append(done.Forbidden, key); len(errs) == 0 {
					errs = append(errs, err)
				}
				continue
			} else if err != nil {
				return done, errors.Join(append(errs, err)...)
			}
		}
		done.Deleted++
		if o.Deleted != nil {
			o.Deleted(key)
		}
	}
	return done, errors.Join(errs...)
}

var errBefore = errors.New("claimcheck: erase: the time is zero, or is not although all is to be erased")
