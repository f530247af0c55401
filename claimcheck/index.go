package claimcheck

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
)

// A Location says where the bytes of a claim are. A pack never changes, so it stays true as
// long as the object is there.
type Location struct {
	Key    string // of the object
	Offset int64  // in the object, in bytes
	Length int64  // of the claim, in bytes; there is nothing to read when it is 0
}

// firstRead is what is read of an object at first, in bytes, unless the row of the claim is
// farther in. A claim that ends within it is not asked for again.
const firstRead = 64 << 10

var (
	errNoPack   = errors.New("the object is not a pack")
	errInIndex  = errors.New("the claim begins in the index")
	errNoRow    = errors.New("the claim is after the end of the pack's index")
	errShort    = errors.New("the object ends before the claim does")
	errIsSigned = errors.New("only the gateway that signed it can check it: redeem it there")
)

// Locate finds the claim of ref in store, with one Get of the object's beginning. It does not
// read the claim: the object may be too short for it, or hold other bytes.
//
// The errors are those of [Redeemer]. A reference that is signed is a CodeSignedRef, and one
// whose time is after the year 9999 a CodeInvalidRef.
func Locate(ctx context.Context, store Store, ref Ref) (Location, error) {
	f, err := find(ctx, store, ref, nil)
	if err != nil {
		return Location{}, failure("locate", ref, err)
	}
	return f.Location, nil
}

// A finding is a claim that was located, with what was read of the object for it.
type finding struct {
	Location
	prefix []byte // the beginning of the object
	whole  bool   // it is all of the object
}

// find locates a claim. It reads into buf if that has room.
func find(ctx context.Context, store Store, ref Ref, buf []byte) (f finding, err error) {
	if ref.Signed() {
		return f, &Error{Code: CodeSignedRef, Err: errIsSigned}
	}
	if ref == (Ref{}) {
		return f, &Error{Code: CodeInvalidRef, Err: errNotRef}
	}
	if f.Key = ref.Key(); f.Key == "" {
		return f, &Error{Code: CodeInvalidRef, Err: errTime}
	}
	n := max(indexStart+rowLen*(ref.Index()+1), firstRead)
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	r, err := store.Get(ctx, f.Key, 0, int64(n))
	if err != nil {
		return f, err
	}
	defer r.Close()
	got, err := readFull(r, buf[:n])
	if err != nil {
		return f, err
	}
	f.prefix, f.whole = buf[:got], got < n
	f.Offset, f.Length, err = parseIndex(f.prefix, ref.Index())
	return f, err
}

// held returns the bytes of the claim when the prefix has them.
func (f *finding) held() (data []byte, ok bool, err error) {
	switch {
	case f.Length == 0:
		return nil, true, nil
	case f.Offset+f.Length <= int64(len(f.prefix)):
		return f.prefix[f.Offset:][:f.Length], true, nil
	case f.whole:
		return nil, false, &Error{Code: CodeNotFound, Err: errShort}
	}
	return nil, false, nil
}

// readFull reads until b is full or the reader ends with io.EOF. Unlike that of
// [io.ReadFull], its error is nil then, and io.ErrUnexpectedEOF is the reader's own: a
// connection that broke.
func readFull(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	if err == io.EOF || n == len(b) {
		err = nil
	}
	return n, err
}

// parseIndex returns what the index at the beginning of an object says about a claim. prefix
// has the claim's row, unless the object ends before it.
func parseIndex(prefix []byte, i int) (offset, length int64, err error) {
	if len(prefix) < indexStart {
		return 0, 0, &Error{Code: CodeNotFound, Err: errShort}
	}
	le := binary.LittleEndian
	if !bytes.HasPrefix(prefix, []byte("PK\x03\x04")) || le.Uint16(prefix[26:]) != uint16(len(indexName)) ||
		le.Uint16(prefix[28:]) != 0 || string(prefix[localLen:indexStart]) != indexName {
		return 0, 0, &Error{Code: CodeIntegrity, Err: errNoPack}
	}
	size := int64(le.Uint32(prefix[18:]))
	if int64(rowLen*(i+1)) > size {
		return 0, 0, &Error{Code: CodeNotFound, Err: errNoRow}
	}
	at := indexStart + rowLen*i
	if len(prefix) < at+rowLen {
		return 0, 0, &Error{Code: CodeNotFound, Err: errShort}
	}
	offset = int64(binary.BigEndian.Uint32(prefix[at:]))
	length = int64(binary.BigEndian.Uint32(prefix[at+4:]))
	if length > 0 && offset < int64(indexStart)+size {
		return 0, 0, &Error{Code: CodeIntegrity, Err: errInIndex}
	}
	return offset, length, nil
}
