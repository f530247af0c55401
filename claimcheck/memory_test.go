package claimcheck_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"runtime"
	"testing"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// zeros are a store with one pack of one claim, of size bytes that are 0, in no memory.
type zeros struct{ size uint32 }

func (z zeros) Put(context.Context, string, *io.SectionReader) error {
	return &claimcheck.Error{Code: claimcheck.CodeForbidden}
}

func (z zeros) Get(_ context.Context, _ string, off, n int64) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(z, off, n)), nil
}

func (z zeros) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	if at < 47 {
		head := []byte(twoClaims[:39])
		binary.LittleEndian.PutUint32(head[18:], 8)
		head = binary.BigEndian.AppendUint32(head, 103)
		head = binary.BigEndian.AppendUint32(head, z.size)
		copy(b, head[at:])
	}
	if rest := 103 + int64(z.size) - at; rest < int64(len(b)) {
		return int(max(rest, 0)), io.EOF
	}
	return len(b), nil
}

func zerosDigest(size uint32) string {
	h := sha256.New()
	for block := make([]byte, 1<<20); size > 0; size -= min(size, 1<<20) {
		h.Write(block[:min(size, 1<<20)])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// allocated returns how many bytes f allocates. What of it is in use at the same time is at
// most that.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestRedeemMemory(t *testing.T) {
	const size = 64 << 20
	digest := zerosDigest(size)
	c := newChecker(t, zeros{size})
	for _, known := range []int64{size, -1} {
		bytes := allocated(func() {
			if body, err := c.Redeem(t.Context(), ref[:len(ref)-1]+"0", digest, known); err != nil || len(body) != size {
				t.Errorf("got %d bytes, %v", len(body), err)
			}
		})
		t.Logf("%d bytes beside the body", bytes-size)
		if limit := uint64(size*11/10 + 1<<20); bytes > limit {
			t.Errorf("allocated %d bytes, at most %d", bytes, limit)
		}
	}
}

func TestOpenMemory(t *testing.T) {
	for _, size := range []uint32{1 << 20, 256 << 20} {
		digest := zerosDigest(size)
		c := newChecker(t, zeros{size})
		bytes := allocated(func() {
			r, err := c.Open(t.Context(), ref[:len(ref)-1]+"0", digest, int64(size))
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			if n, err := io.Copy(struct{ io.Writer }{io.Discard}, r); n != int64(size) || err != nil {
				t.Errorf("read %d bytes, %v", n, err)
			}
		})
		t.Logf("%d bytes for a body of %d", bytes, size)
		if bytes > 2<<20 {
			t.Errorf("allocated %d bytes for a body of %d", bytes, size)
		}
	}
}

// TestHostileMemory: neither a message nor an index makes a reader allocate what is not there.
func TestHostileMemory(t *testing.T) {
	p := packOf(t, claimcheck.Body{Data: []byte("hello")})
	object := objectOf(t, p)
	hostile := append([]byte(nil), object...)
	binary.BigEndian.PutUint32(hostile[39+4:], 60<<20)
	claim := p.Claims()[0]
	last := "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67ZZZZ" // in the longest index
	tests := []struct {
		why    string
		object []byte
		ref    string
		size   int64
		want   error
	}{
		{"a size over the limit", object, claim.Ref.String(), math.MaxInt64, claimcheck.ErrTooLarge},
		{"a size under the limit", object, claim.Ref.String(), 60 << 20, claimcheck.ErrIntegrity},
		{"an index that has it from the message", hostile, claim.Ref.String(), 60 << 20, claimcheck.ErrNotFound},
		{"an index, and a message that does not say", hostile, claim.Ref.String(), -1, claimcheck.ErrNotFound},
		{"the longest index", object, last, -1, claimcheck.ErrNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			c := newChecker(t, &testStore{objects: map[string][]byte{p.Key(): tt.object}})
			bytes := allocated(func() {
				if _, err := c.Redeem(t.Context(), tt.ref, claim.SHA256, tt.size); !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
			if bytes > 1<<20 {
				t.Errorf("allocated %d bytes", bytes)
			}
		})
	}
}

// TestPackMemory: a pack is no second copy of its bodies.
func TestPackMemory(t *testing.T) {
	body := claimcheck.Body{Tenant: "acme", Data: make([]byte, 16<<20)}
	c := newChecker(t, discard{})
	bytes := allocated(func() { checkIn(t, c, body) })
	t.Logf("%d bytes beside the body", bytes)
	if bytes > 1<<20 {
		t.Errorf("allocated %d bytes for a body of 16 MiB", bytes)
	}
}

// discard is a store that reads what it is given and forgets it.
type discard struct{}

func (discard) Put(_ context.Context, _ string, obj *io.SectionReader) error {
	_, err := io.Copy(struct{ io.Writer }{io.Discard}, obj)
	return err
}

func (discard) Get(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return nil, &claimcheck.Error{Code: claimcheck.CodeNotFound}
}
