package claimcheck

import (
	"context"
	"io"
	"iter"
	"strings"
)

// A Store keeps objects under keys. It is the little of an object store that a claim check
// needs: an object is written once, under a key that was never used, and read in ranges. This
// comment is what every Store promises; package storetest checks it.
//
// # Callers
//
// Any number of goroutines call any methods at the same time. Keys are those that [Ref.Key]
// makes: at most 119 characters of A-Z a-z 0-9 _ - = and /, never empty. A Store refuses what
// [ParseKey] refuses, before it touches anything: in many of them another key, one with ".."
// for example, would lead elsewhere.
//
// # Put
//
// Put stores what obj has, from its start to its end, under key. The caller does not write
// the bytes below obj until Put has returned; Put does not keep obj or read from it after
// that. Put may read obj in any way and as often as it likes: in one pass, by ranges at the
// same time, again for a retry. It does not hold a copy of the whole.
//
//   - All or nothing. No reader ever sees a part of an object, whatever becomes of the
//     process, and an object that was seen once does not change.
//   - Durable. When Put returns nil the object is as safe as the medium makes it: a crash of
//     the process or the machine right after does not lose it, and every Get that begins
//     after Put has returned finds it.
//   - Only if absent. When key is taken, Put fails with CodeExists and leaves the object as
//     it was, even if its bytes are the same. Of many Puts of one key at a time exactly one
//     succeeds. A Store on a medium that cannot tell says so in its documentation; the keys
//     of a Checker are random, so that two are equal only when one Put is tried twice.
//   - Any other error may mean that the object was stored all the same, complete: the answer
//     may have been lost. It never means that a part of it was. What a failed Put leaves
//     behind is not visible to Get and List.
//
// # Get
//
// Get returns a reader of the bytes [off, off+n) of the object. The caller asks for off >= 0
// and n >= 1 with off+n within an int64. Where the object ends before off+n the reader ends
// with it, and where it ends at or before off there is nothing to read: neither is an error,
// unlike an object that is missing, which is CodeNotFound from Get itself.
//
//   - The reader ends with io.EOF only when it has given all of the range that the object
//     has. A connection that breaks before is CodeUnavailable, or whatever the cause was:
//     who takes it for the end would take a body for lost.
//   - It never gives more than n bytes, and does not read the whole object to give a part.
//   - One goroutine reads. Close may come before the end; it frees everything, and is called
//     exactly once.
//
// # Contexts
//
// The context of a call governs it to the end, and for Get until the reader is closed. When
// it ends, the call or the Read returns soon, with an error in which errors.Is finds
// context.Canceled or context.DeadlineExceeded, and whose code is CodeUnavailable. A context
// that is done before the call begins fails it without a change to the store.
//
// # Errors
//
// Every error but io.EOF is an [*Error] with Op, Key and one of these codes, and the client's
// error in Err, so that callers never need the client's package to tell them apart:
//
//   - CodeNotFound: Get of a key that is not there.
//   - CodeExists: Put of a key that is there.
//   - CodeForbidden: the store knows us not, or refuses us (HTTP 401 and 403, EACCES).
//   - CodeInvalidRef: a key that [ParseKey] refuses.
//   - CodeUnavailable: everything else, time-outs, throttling and a missing bucket included.
//     It is always worth another try later.
//
// Neither the texts nor Err hold a credential.
type Store interface {
	// Put stores obj under key, durably, all or nothing, unless the key is taken.
	Put(ctx context.Context, key string, obj *io.SectionReader) error

	// Get returns the bytes [off, off+n) of the object, or as many of them as it has. The
	// caller closes the reader.
	Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)
}

// A PrunableStore is a Store that can also list and delete, for retention. Nothing else needs
// it: a process that checks in and redeems can be given a store without these rights.
type PrunableStore interface {
	Store

	// List returns the keys that begin with prefix, each once, in no order that is promised.
	// The prefix is compared as text: "claims/tenant=a" also finds the keys of a tenant "ab",
	// "claims/tenant=a/" does not. An empty one finds all. Whatever in the store has a key
	// that [ParseKey] refuses is left out. A key that is put or deleted while the list is read
	// may be in it or not; to delete the keys that were given already is fine.
	//
	// An error, with an empty key, ends the list. Without one the list is complete.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]

	// Delete removes the object. When it returns nil, every Get that begins after it answers
	// CodeNotFound. That there is no such key is no error. A reader that is open may go on to
	// its end or fail with CodeUnavailable.
	Delete(ctx context.Context, key string) error
}

// ParseKey returns the reference to the first claim of the pack under key, which [Ref.Key]
// made: the tenant and the time of a key can be read from it. It refuses any other text, with
// an [ErrInvalidRef]. So a key that it takes leads out of no folder, is not the beginning of
// another, and its day is that of its pack.
func ParseKey(key string) (Ref, error) {
	if rest, ok := strings.CutPrefix(key, "claims/tenant="); ok {
		tenant, rest, _ := strings.Cut(rest, "/dt=")
		_, packID, _ := strings.Cut(rest, "/")
		if r := (Ref{tenant: tenant, claimID: packID}); ValidTenant(tenant) && validClaimID(packID) && r.Key() == key {
			return r, nil
		}
	}
	return Ref{}, &Error{Code: CodeInvalidRef, Key: key, Err: errNotKey}
}
