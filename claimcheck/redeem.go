package claimcheck

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
)

// hashBlock is how much is hashed at a time, while it is in the cache.
const hashBlock = 64 << 10

var (
	errDigest = errors.New("the body has another sha256")
	errClosed = fmt.Errorf("claimcheck: reader: %w", fs.ErrClosed)
)

// Redeem implements [Redeemer]. It reads the object once, or twice when the claim does not end
// within its first 64 KiB, and holds no more than the body and 64 KiB: what the message says
// about the size is not believed before the index of the pack confirms it. A body of more than
// MaxBodyBytes is a CodeTooLarge, and a signed reference a CodeSignedRef: only its gateway can
// check it, see [Client].
func (c *Checker) Redeem(ctx context.Context, ref, sha256 string, size int64) ([]byte, error) {
	const op = "redeem"
	r, err := parseClaim(op, ref, sha256)
	if err != nil {
		return nil, err
	}
	body, err := c.redeem(ctx, r, sha256, size)
	if err != nil {
		return nil, failure(op, r, err)
	}
	return body, nil
}

func (c *Checker) redeem(ctx context.Context, ref Ref, digest string, size int64) ([]byte, error) {
	limit := c.config.MaxBodyBytes
	if size > limit {
		return nil, tooLarge(size, limit)
	}
	f, done, err := c.find(ctx, ref, size)
	if err != nil {
		return nil, err
	}
	defer done()
	data, ok, err := f.held()
	if err != nil {
		return nil, err
	}
	if f.Length > limit {
		return nil, tooLarge(f.Length, limit)
	}
	h := sha256.New()
	var body []byte
	if ok {
		h.Write(data)
		body = append([]byte{}, data...)
	} else if body, err = c.read(ctx, f.Location, h); err != nil {
		return nil, err
	}
	if hex.EncodeToString(h.Sum(nil)) != digest {
		return nil, &Error{Code: CodeIntegrity, Err: errDigest}
	}
	return body, nil
}

// read reads a claim, and hashes it on the way.
func (c *Checker) read(ctx context.Context, loc Location, h hash.Hash) ([]byte, error) {
	r, err := c.config.Store.Get(ctx, loc.Key, loc.Offset, loc.Length)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	body := make([]byte, loc.Length)
	for rest := body; len(rest) > 0; {
		block := rest[:min(hashBlock, len(rest))]
		n, err := readFull(r, block)
		if err != nil {
			return nil, err
		}
		if n < len(block) {
			return nil, &Error{Code: CodeNotFound, Err: errShort}
		}
		h.Write(block)
		rest = rest[n:]
	}
	return body, nil
}

// Open implements [Redeemer]. It reads the object as Redeem does, and holds 64 KiB at most
// (the index up to the claim, where that is longer: 8 bytes per claim). It is not limited by
// MaxBodyBytes. The reader is one goroutine's; its Close may be called again.
func (c *Checker) Open(ctx context.Context, ref, sha256 string, size int64) (io.ReadCloser, error) {
	const op = "open"
	r, err := parseClaim(op, ref, sha256)
	if err != nil {
		return nil, err
	}
	body, err := c.open(ctx, r, sha256, size)
	if err != nil {
		return nil, failure(op, r, err)
	}
	return body, nil
}

func (c *Checker) open(ctx context.Context, ref Ref, digest string, size int64) (io.ReadCloser, error) {
	f, done, err := c.find(ctx, ref, size)
	if err != nil {
		return nil, err
	}
	defer done()
	data, ok, err := f.held()
	if err != nil {
		return nil, err
	}
	body := &bodyReader{ref: ref, digest: digest, left: f.Length, hash: sha256.New()}
	if ok {
		body.r = io.NopCloser(bytes.NewReader(bytes.Clone(data)))
	} else if body.r, err = c.config.Store.Get(ctx, f.Key, f.Offset, f.Length); err != nil {
		return nil, err
	}
	return body, nil
}

// find finds a claim of the size that a message speaks of. What it read is valid until done.
func (c *Checker) find(ctx context.Context, ref Ref, size int64) (f finding, done func(), err error) {
	buf, _ := c.firsts.Get().(*[firstRead]byte)
	if buf == nil {
		buf = new([firstRead]byte)
	}
	done = func() { c.firsts.Put(buf) }
	f, err = find(ctx, c.config.Store, ref, buf[:])
	if err == nil && size >= 0 && size != f.Length {
		err = &Error{Code: CodeIntegrity, Err: fmt.Errorf("the message says %d bytes, the pack %d", size, f.Length)}
	}
	if err != nil {
		done()
	}
	return f, done, err
}

// A bodyReader reads a claim and verifies it at its end.
type bodyReader struct {
	r      io.ReadCloser
	ref    Ref
	digest string
	hash   hash.Hash
	left   int64
	err    error // of the next Read
	closed bool
}

// Read keeps back the last bytes of a body that is not the message's, so that who reads
// exactly its size learns of it too.
func (b *bodyReader) Read(p []byte) (n int, err error) {
	if b.err != nil || len(p) == 0 && b.left > 0 {
		return 0, b.err
	}
	if b.left > 0 {
		n, err = b.r.Read(p[:min(int64(len(p)), b.left)])
		b.hash.Write(p[:n])
		b.left -= int64(n)
	}
	switch {
	case b.left == 0:
		b.err = io.EOF
		if hex.EncodeToString(b.hash.Sum(nil)) != b.digest {
			b.err = failure("read", b.ref, &Error{Code: CodeIntegrity, Err: errDigest})
			return 0, b.err
		}
		if n == 0 {
			return 0, b.err
		}
		return n, nil
	case err == io.EOF:
		b.err = failure("read", b.ref, &Error{Code: CodeNotFound, Err: errShort})
	case err != nil:
		b.err = failure("read", b.ref, err)
	}
	return n, b.err
}

// Close implements io.Closer. Another Close does nothing.
func (b *bodyReader) Close() error {
	if b.closed {
		return nil
	}
	b.closed, b.err = true, errClosed
	return b.r.Close()
}

// parseClaim parses what a message says about its body.
func parseClaim(op, ref, digest string) (Ref, error) {
	r, err := ParseRef(ref)
	if err == nil && !validDigest(digest) {
		err = &Error{Code: CodeInvalidRef, Err: errNotDigest}
	}
	if err != nil {
		return Ref{}, failure(op, r, err)
	}
	return r, nil
}

func tooLarge(size, limit int64) error {
	return &Error{Code: CodeTooLarge, Err: fmt.Errorf("%d bytes, at most %d", size, limit)}
}
