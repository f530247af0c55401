package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
)

// day is when most objects of the suite were made.
var day = time.Date(2026, time.January, 15, 12, 0, 0, 0, time.UTC)

// key returns the key of the nth pack of a tenant and a time.
func key(tenant string, at time.Time, n int) string {
	ref, err := claimcheck.NewRef(tenant, claimID(at, n))
	if err != nil {
		panic("storetest: " + err.Error())
	}
	return ref.Key()
}

// claimID returns a claim id at position 0 whose random part is n.
func claimID(at time.Time, n int) string {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var s [26]byte
	hi, lo := uint64(at.UnixMilli())<<16, uint64(n)<<16
	for i := len(s) - 1; i >= 0; i-- {
		s[i] = digits[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(s[:])
}

// pattern returns n bytes that differ from those of another seed and of another offset.
func pattern(seed byte, n int) []byte {
	b := make([]byte, 0, n+8)
	for x := uint64(seed) + 1; len(b) < n; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b[:n:n]
}

// section returns data as the object of a Put.
func section(data []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
}

// sectionOf returns the n bytes of r as the object of a Put.
func sectionOf(r io.ReaderAt, n int) *io.SectionReader {
	return io.NewSectionReader(r, 0, int64(n))
}

// A hooked source calls before ahead of every read: with the range that is asked for, which
// may end after the data does. When before fails the read does.
type hooked struct {
	data   []byte
	before func(off, n int64) error
}

func (h *hooked) ReadAt(p []byte, off int64) (int, error) {
	if err := h.before(off, int64(len(p))); err != nil {
		return 0, err
	}
	return bytes.NewReader(h.data).ReadAt(p, off)
}

// yielding returns data as the object of a Put beside others, which get their turn whenever it
// is read.
func yielding(data []byte) *io.SectionReader {
	return sectionOf(&hooked{data, func(int64, int64) error {
		runtime.Gosched()
		return nil
	}}, len(data))
}

// store returns a new store, or ends the case.
func (c *check) store() claimcheck.Store {
	s := c.h.New(c.T)
	if s == nil {
		c.Fatalf("Harness.New returned nil")
	}
	return s
}

// put puts data, which must succeed, or ends the case.
func (c *check) put(s claimcheck.Store, key string, data []byte) {
	if err := s.Put(c.Ctx, key, section(data)); err != nil {
		c.Fatalf("Put of %d bytes under %q: %v", len(data), key, err)
	}
}

// get reads a range to its end.
func get(ctx context.Context, s claimcheck.Store, key string, off, n int64) ([]byte, error) {
	r, err := s.Get(ctx, key, off, n)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

// whole is a length of which no object has as much.
const whole = 1 << 40

// holds checks that the object is data.
func (c *check) holds(s claimcheck.Store, key string, data []byte) {
	r, err := s.Get(c.Ctx, key, 0, whole)
	if err != nil {
		c.Errorf("Get of %q: %v", key, err)
		return
	}
	defer r.Close()
	buf := make([]byte, 64<<10)
	for at := 0; ; {
		n, err := r.Read(buf)
		if rest := data[at:]; n > len(rest) || !bytes.Equal(buf[:n], rest[:n]) {
			c.Errorf("Get of %q: other bytes than those of the object, at or after %d of %d", key, at, len(data))
			return
		}
		at += n
		switch {
		case err == io.EOF && at == len(data):
			return
		case err == io.EOF:
			c.Errorf("Get of %q: ends after %d bytes of %d", key, at, len(data))
			return
		case err != nil:
			c.Errorf("Read of %q after %d bytes: %v", key, at, err)
			return
		}
	}
}

// difference says where got stops being want.
func difference(got, want []byte) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	return sprintf("%d bytes, want %d; the first %d agree", len(got), len(want), i)
}

// absent checks that there is no object.
func (c *check) absent(s claimcheck.Store, key string) {
	_, err := get(c.Ctx, s, key, 0, whole)
	c.wantErr(sprintf("Get of %q", key), err, claimcheck.ErrNotFound, key)
	if p, ok := s.(claimcheck.PrunableStore); ok {
		if keys := c.list(p, ""); slices.Contains(keys, key) {
			c.Errorf("List has %q, which Get does not find", key)
		}
	}
}

// list returns the keys of a prefix, in order, or ends the case.
func (c *check) list(s claimcheck.PrunableStore, prefix string) []string {
	var keys []string
	for key, err := range s.List(c.Ctx, prefix) {
		if err != nil {
			c.Fatalf("List of %q after %d keys: %v", prefix, len(keys), err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// wantErr checks that err, of an operation on a key, is an *Error with the code, the class and
// the fields that the comment of Store promises. An empty key is not checked.
func (c *check) wantErr(what string, err, want error, key string) {
	var e *claimcheck.Error
	switch {
	case err == nil:
		c.Errorf("%s succeeded, want %v", what, want)
	case !errors.Is(err, want):
		c.Errorf("%s failed with %v, want %v", what, err, want)
	case !errors.As(err, &e):
		c.Errorf("%s failed with a %T, want a *claimcheck.Error: %v", what, err, err)
	case e.Op == "":
		c.Errorf("%s failed with an Error without Op: %v", what, err)
	case key != "" && e.Key != key:
		c.Errorf("%s failed with an Error whose Key is %q: %v", what, e.Key, err)
	case envelope.IsPermanent(err) != slices.Contains(permanent, want):
		c.Errorf("%s failed with an error of the wrong class: %v", what, err)
	case envelope.IsTransient(err) != slices.Contains(transient, want):
		c.Errorf("%s failed with an error of the wrong class: %v", what, err)
	}
}

var (
	permanent = []error{claimcheck.ErrNotFound, claimcheck.ErrInvalidRef, claimcheck.ErrIntegrity}
	transient = []error{claimcheck.ErrForbidden, claimcheck.ErrUnavailable}
)

// wantContextErr checks that err is what an operation returns whose context has ended.
func (c *check) wantContextErr(what string, err, cause error, key string) {
	c.wantErr(what, err, claimcheck.ErrUnavailable, key)
	if err != nil && !errors.Is(err, cause) {
		c.Errorf("%s failed with an error in which errors.Is does not find %v: %v", what, cause, err)
	}
}

// each calls f with 0 to n-1, at the same time, and waits for all.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			f(i)
		})
	}
	close(begin)
	wg.Wait()
}
