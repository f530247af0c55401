package claimcheck_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"
	"testing/synctest"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
)

// TestOpenKeepsBackTheEnd: who reads as many bytes as the message speaks of, and not to the
// end, does not get a body that is another.
func TestOpenKeepsBackTheEnd(t *testing.T) {
	for _, n := range []int{5, 200_000} { // read at once, and from a Get of its own
		p := packOf(t, claimcheck.Body{Data: pattern(1, n)})
		object := objectOf(t, p)
		object[39+8+56+n-1] ^= 1
		store := &testStore{objects: map[string][]byte{p.Key(): object}}
		claim := p.Claims()[0]
		r, err := newChecker(t, store).Open(t.Context(), claim.Ref.String(), claim.SHA256, claim.Size)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadFull(r, make([]byte, n))
		if got >= n || !errors.Is(err, claimcheck.ErrIntegrity) || !envelope.IsPermanent(err) {
			t.Errorf("read %d bytes of %d, %v", got, n, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		store.inspect(t)
	}
}

func TestOpenClosedEarly(t *testing.T) {
	for _, n := range []int{0, 5, 200_000} {
		store := &testStore{}
		c := newChecker(t, store)
		claim := checkIn(t, c, claimcheck.Body{Tenant: "acme", Data: pattern(1, n)})[0]
		r, err := c.Open(t.Context(), claim.Ref.String(), claim.SHA256, claim.Size)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Read(make([]byte, 2)); got != min(n, 2) || n > 0 && err != nil {
			t.Errorf("%d bytes: read %d, %v", n, got, err)
		}
		for range 2 {
			if err := r.Close(); err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
		store.inspect(t) // a second Close of the store's reader would count too
		if got, err := r.Read(make([]byte, 2)); got != 0 || !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%d bytes: read %d, %v after Close", n, got, err)
		}
	}
}

// TestOpenKeepsItsBytes: what a reader gives is its own, whatever is redeemed before it is read.
func TestOpenKeepsItsBytes(t *testing.T) {
	store := &testStore{}
	c := newChecker(t, store)
	claim := checkIn(t, c, claimcheck.Body{Tenant: "acme", Data: pattern(1, 1000)})[0]
	other := checkIn(t, c, claimcheck.Body{Tenant: "acme", Data: pattern(2, 1000)})[0]
	for range 20 {
		r, err := c.Open(t.Context(), claim.Ref.String(), claim.SHA256, claim.Size)
		if err != nil {
			t.Fatal(err)
		}
		first, err := c.Redeem(t.Context(), claim.Ref.String(), claim.SHA256, claim.Size)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Redeem(t.Context(), other.Ref.String(), other.SHA256, other.Size); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || digestOf(got) != claim.SHA256 || digestOf(first) != claim.SHA256 {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpenNothingRead: an empty Read asks for nothing and says nothing.
func TestOpenNothingRead(t *testing.T) {
	store := &testStore{}
	c := newChecker(t, store)
	claim := checkIn(t, c, claimcheck.Body{Tenant: "acme", Data: pattern(1, 100_000)})[0]
	r, err := c.Open(t.Context(), claim.Ref.String(), claim.SHA256, claim.Size)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, err := r.Read(nil); n != 0 || err != nil {
		t.Errorf("Read(nil) = %d, %v", n, err)
	}
	if got, err := io.ReadAll(r); err != nil || digestOf(got) != claim.SHA256 {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if n, err := r.Read(nil); n != 0 || err != io.EOF {
		t.Errorf("Read(nil) at the end = %d, %v", n, err)
	}
}

// TestCancelledWhileReading: the context of a call governs the reading of the body.
func TestCancelledWhileReading(t *testing.T) {
	inAllWays(t, func(t *testing.T, redeem way) {
		synctest.Test(t, func(t *testing.T) {
			p := packOf(t, claimcheck.Body{Data: pattern(1, 200_000)})
			store := &testStore{objects: map[string][]byte{p.Key(): objectOf(t, p)}}
			store.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				r, err := store.load(ctx, key, off, n)
				if err == nil && off > 0 {
					rest := r.(*testReader)
					rest.Reader = io.MultiReader(io.LimitReader(rest.Reader, 10_000), hanging{ctx})
				}
				return r, err
			}
			ctx, cancel := context.WithCancel(t.Context())
			claim := p.Claims()[0]
			done := make(chan error)
			go func() {
				_, err := redeem(newChecker(t, store), ctx, claim.Ref.String(), claim.SHA256, claim.Size)
				done <- err
			}()
			synctest.Wait()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) || !errors.Is(err, claimcheck.ErrUnavailable) || !envelope.IsTransient(err) {
				t.Errorf("got %v", err)
			}
			store.inspect(t)
		})
	})
}

// hanging is a connection on which nothing comes.
type hanging struct{ ctx context.Context }

func (h hanging) Read([]byte) (int, error) {
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}
