package claimcheck

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"

	"github.com/watermill-envelope/envelope"
)

// An FsckClaim is a claim to check, as a message has it.
type FsckClaim struct {
	Ref    string // signed or not: the signature has no part in it
	SHA256 string // of the body, 64 lower-case hex digits
	Size   int64  // of the body, in bytes; less than 0 for not known
	ID     string // of the message, for the report
}

// An FsckState is what [Fsck] found out about a claim. States are stable: they appear in
// reports.
type FsckState string

// The states.
const (
	// FsckOK: the body is there, and is the one the message speaks of.
	FsckOK FsckState = "ok"
	// FsckMissing: there is no object, or its index has no such claim.
	FsckMissing FsckState = "missing"
	// FsckShort: the object is there, and ends before the claim does.
	FsckShort FsckState = "short"
	// FsckCorrupt: the bytes are not the message's, by their number or digest, or the object
	// is no pack.
	FsckCorrupt FsckState = "corrupt"
	// FsckInvalid: the reference or the digest is none, so that there is nothing to look for.
	FsckInvalid FsckState = "invalid"
	// FsckUnchecked: not known. The store could not be reached, or refused us, or the context
	// ended. It is worth another try later.
	FsckUnchecked FsckState = "unchecked"
)

// Bad reports whether the body cannot be redeemed, now or later. A claim that is unchecked is
// not known to be.
func (s FsckState) Bad() bool { return s != FsckOK && s != FsckUnchecked }

// An FsckResult is what became of one FsckClaim.
type FsckResult struct {
	ID     string // of the message, as it was given
	Ref    string // as [Ref.Masked] writes it, or what [envelope.MaskClaim] makes of no reference
	Tenant string // of the reference, or ""
	Key    string // of the object, or ""
	State  FsckState
	Err    error // why State is not FsckOK; nil when it is
}

// Fsck compares what messages say with what is in a store: it reads the body of every claim,
// with a fixed amount of memory whatever its size, and compares size and digest. Take the
// claims from the messages of a queue, dead letters or an archive. There is one result for each,
// in order, the good ones included. It reads one body at a time: to go faster, divide the claims
// among several goroutines.
//
// The store is not changed. Once ctx has ended, what is left is FsckUnchecked.
func Fsck(ctx context.Context, store Store, claims iter.Seq[FsckClaim]) iter.Seq[FsckResult] {
	return func(yield func(FsckResult) bool) {
		buf := make([]byte, hashBlock)
		for c := range claims {
			if !yield(fsck(ctx, store, c, buf)) {
				return
			}
		}
	}
}

func fsck(ctx context.Context, store Store, c FsckClaim, buf []byte) FsckResult {
	const op = "fsck"
	res := FsckResult{ID: c.ID, Ref: envelope.MaskClaim(c.Ref)}
	end := func(state FsckState, err error) FsckResult {
		res.State, res.Err = state, err
		return res
	}
	r, err := parseClaim(op, c.Ref, c.SHA256)
	if err != nil {
		return end(FsckInvalid, err)
	}
	r = Ref{tenant: r.tenant, claimID: r.claimID} // where it is does not depend on who may read it
	res.Tenant, res.Key = r.Tenant(), r.Key()
	loc, err := Locate(ctx, store, r)
	if err != nil {
		return end(fsckState(err), err)
	}
	corrupt := func(err error) FsckResult {
		return end(FsckCorrupt, failure(op, r, &Error{Code: CodeIntegrity, Err: err}))
	}
	if c.Size >= 0 && c.Size != loc.Length {
		return corrupt(fmt.Errorf("the message says %d bytes, the pack %d", c.Size, loc.Length))
	}
	h := sha256.New()
	if loc.Length > 0 {
		body, err := store.Get(ctx, loc.Key, loc.Offset, loc.Length)
		if err != nil {
			return end(fsckState(err), failure(op, r, err))
		}
		defer body.Close()
		for left := loc.Length; left > 0; {
			n, err := readFull(body, buf[:min(left, int64(len(buf)))])
			h.Write(buf[:n])
			if left -= int64(n); err == nil && n == 0 {
				err = &Error{Code: CodeNotFound, Err: errShort}
			}
			if err != nil {
				err = failure(op, r, err)
				return end(fsckState(err), err)
			}
		}
	}
	if hex.EncodeToString(h.Sum(nil)) != c.SHA256 {
		return corrupt(errDigest)
	}
	return end(FsckOK, nil)
}

// fsckState returns what an error of reading a claim means.
func fsckState(err error) FsckState {
	switch {
	case errors.Is(err, errShort):
		return FsckShort
	case errors.Is(err, ErrNotFound):
		return FsckMissing
	case errors.Is(err, ErrIntegrity):
		return FsckCorrupt
	case errors.Is(err, ErrInvalidRef):
		return FsckInvalid
	}
	return FsckUnchecked
}
