package claimcheck_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
)

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// A way is one of the ways to get at a body.
type way func(c *claimcheck.Checker, ctx context.Context, ref, sha256 string, size int64) ([]byte, error)

// ways are all of them. What holds for Redeem holds for Open and reading to the end.
var ways = map[string]way{
	"Redeem": (*claimcheck.Checker).Redeem,
	"Open": func(c *claimcheck.Checker, ctx context.Context, ref, sha256 string, size int64) ([]byte, error) {
		r, err := c.Open(ctx, ref, sha256, size)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(r)
		if again, errAgain := r.Read(make([]byte, 1)); again != 0 || err == nil && errAgain != io.EOF || err != nil && errAgain != err {
			return nil, fmt.Errorf("another Read gives %d, %w after %w", again, errAgain, err)
		}
		if err := r.Close(); err != nil {
			return nil, err
		}
		if err := r.Close(); err != nil {
			return nil, err
		}
		if err != nil {
			return nil, err
		}
		return body, nil
	},
}

// inAllWays runs f once for each way.
func inAllWays(t *testing.T, f func(t *testing.T, redeem way)) {
	t.Helper()
	for name, redeem := range ways {
		t.Run(name, func(t *testing.T) { f(t, redeem) })
	}
}

// inspect fails the test unless every reader has been closed.
func (s *testStore) inspect(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != 0 {
		t.Errorf("%d readers are open", s.open)
	}
}

func TestRedeem(t *testing.T) {
	const header = 39 + 8 + 56 // of a pack with one claim
	tests := []struct {
		why    string
		bodies []int // sizes
		i      int   // the one to redeem
		want   []span
	}{
		{"a small pack is read at once", []int{5}, 0, []span{{0, 65536}}},
		{"so is a claim that ends with the first read", []int{65536 - header - 8, 9}, 0, []span{{0, 65536}}},
		{
			"one byte more is another read",
			[]int{65536 - header + 1},
			0,
			[]span{{0, 65536}, {header, 65536 - header + 1}},
		},
		{
			"a claim after the first read",
			[]int{70_000, 7, 300_000},
			2,
			[]span{{0, 65536}, {39 + 3*8 + 3*56 + 70_007, 300_000}},
		},
		{"a claim within the first read of a large pack", []int{10, 70_000}, 0, []span{{0, 65536}}},
		{"an empty body is not read, wherever it is", []int{70_000, 0}, 1, []span{{0, 65536}}},
		{"an empty pack", []int{0}, 0, []span{{0, 65536}}},
		{
			"the row of claim 8,186 ends at 65,535", make([]int, 8188), 8186, []span{{0, 65536}},
		},
		{
			"that of claim 8,187 after the first 64 KiB", make([]int, 8188), 8187, []span{{0, 39 + 8*8188}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			inAllWays(t, func(t *testing.T, redeem way) {
				bodies := make([]claimcheck.Body, len(tt.bodies))
				for i, n := range tt.bodies {
					bodies[i] = claimcheck.Body{Tenant: "acme", Data: pattern(i, n)}
				}
				store := &testStore{}
				c := newChecker(t, store)
				claim := checkIn(t, c, bodies...)[tt.i]
				for _, size := range []int64{claim.Size, -1, math.MinInt64} {
					store.gets = nil
					got, err := redeem(c, t.Context(), claim.Ref.String(), claim.SHA256, size)
					if err != nil || got == nil || !bytes.Equal(got, bodies[tt.i].Data) {
						t.Fatalf("got %d bytes, %v", len(got), err)
					}
					if fmt.Sprint(store.gets) != fmt.Sprint(tt.want) {
						t.Errorf("read %v, want %v", store.gets, tt.want)
					}
				}
				store.inspect(t)
			})
		})
	}
}

// TestRedeemRefuses is for messages that speak of something else than what there is.
func TestRedeemRefuses(t *testing.T) {
	p := packOf(t, claimcheck.Body{Data: pattern(1, 70_000)})
	store := &testStore{objects: map[string][]byte{p.Key(): objectOf(t, p)}}
	c := newChecker(t, store)
	const ok = "urn:ankusa:claim:v1:acme:" + packID
	digest := p.Claims()[0].SHA256
	tests := []struct {
		why, ref, sha256 string
		size             int64
		want             error
		gets             int
	}{
		{"no reference", "", digest, -1, claimcheck.ErrInvalidRef, 0},
		{"a path", "../../etc/passwd", digest, -1, claimcheck.ErrInvalidRef, 0},
		{"a URL", "s3://other-bucket/claims/" + packID, digest, -1, claimcheck.ErrInvalidRef, 0},
		{"no digest", ok, "", -1, claimcheck.ErrInvalidRef, 0},
		{"a digest in upper case", ok, strings.ToUpper(digest), -1, claimcheck.ErrInvalidRef, 0},
		{"a digest of 63 digits", ok, digest[1:], -1, claimcheck.ErrInvalidRef, 0},
		{"a digest of 65 digits", ok, digest + "0", -1, claimcheck.ErrInvalidRef, 0},
		{"a signed reference", signedRef, digest, -1, claimcheck.ErrSignedRef, 0},
		{"a time after the year 9999", "urn:ankusa:claim:v1:acme:7ZZZZZZZZZZZZZZZZZZZZZZZZZ", digest, -1, claimcheck.ErrInvalidRef, 0},
		{"another digest", ok, digestOf(nil), -1, claimcheck.ErrIntegrity, 2},
		{"one byte less", ok, digest, 69_999, claimcheck.ErrIntegrity, 1},
		{"one byte more", ok, digest, 70_001, claimcheck.ErrIntegrity, 1},
		{"no byte", ok, digest, 0, claimcheck.ErrIntegrity, 1},
		{"another tenant", "urn:ankusa:claim:v1:other:" + packID, digest, -1, claimcheck.ErrNotFound, 1},
		{"another pack", "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV680000", digest, -1, claimcheck.ErrNotFound, 1},
		{"the claim after the last", "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y001", digest, -1, claimcheck.ErrNotFound, 1},
		{"the last claim there can be", "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67ZZZZ", digest, -1, claimcheck.ErrNotFound, 1},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			inAllWays(t, func(t *testing.T, redeem way) {
				store.gets = nil
				got, err := redeem(c, t.Context(), tt.ref, tt.sha256, tt.size)
				if !errors.Is(err, tt.want) || got != nil || !envelope.IsPermanent(err) {
					t.Errorf("got %d bytes, %v; want %v", len(got), err, tt.want)
				}
				if len(store.gets) != tt.gets {
					t.Errorf("read %v", store.gets)
				}
				var e *claimcheck.Error
				if !errors.As(err, &e) || strings.Contains(err.Error(), signature) {
					t.Errorf("the error is %v", err)
				}
				if r, err := claimcheck.ParseRef(tt.ref); err == nil && e.Ref != r.Masked() {
					t.Errorf("the error is about the reference %q", e.Ref)
				}
				store.inspect(t)
			})
		})
	}
}

func TestRedeemLimit(t *testing.T) {
	store := &testStore{}
	c, err := claimcheck.New(claimcheck.Config{Store: store, MaxBodyBytes: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	claims := checkIn(t, c,
		claimcheck.Body{Tenant: "acme", Data: pattern(1, 100_000)},
		claimcheck.Body{Tenant: "acme", Data: pattern(2, 100_001)})
	if got, err := c.Redeem(t.Context(), claims[0].Ref.String(), claims[0].SHA256, -1); err != nil || len(got) != 100_000 {
		t.Errorf("a body of the limit: %d bytes, %v", len(got), err)
	}
	over := claims[1]
	for _, tt := range []struct {
		why  string
		size int64
		gets int
	}{
		{"the message says it", over.Size, 0},
		{"the message says something else", math.MaxInt64, 0},
		{"the message does not say", -1, 1},
	} {
		store.gets = nil
		got, err := c.Redeem(t.Context(), over.Ref.String(), over.SHA256, tt.size)
		if !errors.Is(err, claimcheck.ErrTooLarge) || got != nil || !envelope.IsPermanent(err) || len(store.gets) != tt.gets {
			t.Errorf("%s: got %d bytes, %v, read %v", tt.why, len(got), err, store.gets)
		}
	}
	if got, err := ways["Open"](c, t.Context(), over.Ref.String(), over.SHA256, over.Size); err != nil || len(got) != 100_001 {
		t.Errorf("Open: %d bytes, %v", len(got), err)
	}
	store.inspect(t)
}

// TestDamagedPack redeems the claims of a pack that was cut at every byte of the index and the
// bodies, and of one in which each bit of them was flipped. No body is ever wrong, and what is lost is
// lost for good.
func TestDamagedPack(t *testing.T) {
	p := packOf(t, claimcheck.Body{Data: []byte("hello")}, claimcheck.Body{}, claimcheck.Body{Data: []byte("world!")})
	whole := objectOf(t, p)
	store := &testStore{objects: make(map[string][]byte)}
	c := newChecker(t, store)
	try := func(t *testing.T, redeem way, object []byte, what string) (lost int) {
		t.Helper()
		store.objects[p.Key()], store.gets = object, nil
		for i, claim := range p.Claims() {
			for _, size := range []int64{claim.Size, -1} {
				got, err := redeem(c, t.Context(), claim.Ref.String(), claim.SHA256, size)
				switch {
				case err == nil:
					if digestOf(got) != claim.SHA256 {
						t.Errorf("%s: claim %d is %q", what, i, got)
					}
				case !envelope.IsPermanent(err) || !errors.Is(err, claimcheck.ErrNotFound) && !errors.Is(err, claimcheck.ErrIntegrity):
					t.Errorf("%s: claim %d: %v", what, i, err)
				default:
					lost++
				}
			}
		}
		store.inspect(t)
		return lost
	}
	inAllWays(t, func(t *testing.T, redeem way) {
		if lost := try(t, redeem, whole, "the whole"); lost != 0 {
			t.Errorf("%d claims are lost in the whole", lost)
		}
		rows := 39 + 3*8
		end := rows + 3*56 + 11
		for n := range end {
			lost := try(t, redeem, whole[:n], fmt.Sprintf("%d bytes", n))
			if n < 39+8 && lost != 6 || n < end && lost < 2 {
				t.Errorf("%d bytes: %d failures", n, lost)
			}
		}
		for bit := range 8 * (end + 100) { // what comes after is the same
			object := bytes.Clone(whole)
			object[bit/8] ^= 1 << (bit % 8)
			at := bit / 8
			lost := try(t, redeem, object, fmt.Sprintf("bit %d of byte %d", bit%8, at))
			inRow := at >= 39 && at < rows && (at < 39+8 || at >= 39+16 || at%8 == 39%8+4)
			inBody := at >= rows+56 && at < rows+56+5 || at >= rows+3*56+5 && at < end
			if (inRow || inBody) && lost == 0 {
				t.Errorf("bit %d of byte %d: nobody sees it", bit%8, at)
			}
		}
	})
}

// TestHostileIndex is for objects that somebody made to harm the reader.
func TestHostileIndex(t *testing.T) {
	object := func(name string, size, offset, length uint32, more int) []byte {
		b := append([]byte(twoClaims[:30]), name...)
		binary.LittleEndian.PutUint32(b[18:], size)
		b = binary.BigEndian.AppendUint32(b, offset)
		b = binary.BigEndian.AppendUint32(b, length)
		return append(b, make([]byte, more)...)
	}
	extra := object("index.bin", 8, 47, 5, 100)
	extra[28] = 1
	noZIP := object("index.bin", 8, 47, 5, 100)
	noZIP[3] = 1
	longName := object("index.bin", 8, 47, 5, 100)
	longName[26] = 10
	tests := []struct {
		why    string
		object []byte
		want   error
	}{
		{"nothing", []byte{}, claimcheck.ErrNotFound},
		{"an error page", []byte("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>"), claimcheck.ErrIntegrity},
		{"another signature", noZIP, claimcheck.ErrIntegrity},
		{"another name", object("index.bim", 8, 47, 5, 100), claimcheck.ErrIntegrity},
		{"a name of another length", longName, claimcheck.ErrIntegrity},
		{"an extra field", extra, claimcheck.ErrIntegrity},
		{"an index that is too small", object("index.bin", 7, 47, 5, 100), claimcheck.ErrNotFound},
		{"an index of 4 GiB", object("index.bin", math.MaxUint32, 47, 5, 100), claimcheck.ErrIntegrity},
		{"a claim in the header", object("index.bin", 8, 0, 5, 100), claimcheck.ErrIntegrity},
		{"a claim in the index", object("index.bin", 8, 46, 5, 100), claimcheck.ErrIntegrity},
		{"a claim after the end", object("index.bin", 8, 147, 5, 100), claimcheck.ErrNotFound},
		{"a claim over the end", object("index.bin", 8, 143, 5, 100), claimcheck.ErrNotFound},
		{"a claim far after the end", object("index.bin", 8, math.MaxUint32, 5, 100), claimcheck.ErrNotFound},
		{"offset and length that overflow 32 bits", object("index.bin", 8, 1<<32-2, 3, 70_000), claimcheck.ErrNotFound},
		{"a claim over the end of a large object", object("index.bin", 8, 69_999, 50, 70_000), claimcheck.ErrNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			inAllWays(t, func(t *testing.T, redeem way) {
				r := mustRef(t, packID)
				store := &testStore{objects: map[string][]byte{r.Key(): tt.object}}
				// The digest is that of what there is: it is not what saves the reader.
				digest := digestOf(nil)
				if len(tt.object) > 47 {
					if at := int(binary.BigEndian.Uint32(tt.object[39:])); at+5 <= len(tt.object) {
						digest = digestOf(tt.object[at:][:5])
					}
				}
				got, err := redeem(newChecker(t, store), t.Context(), r.String(), digest, -1)
				if !errors.Is(err, tt.want) || got != nil || !envelope.IsPermanent(err) {
					t.Errorf("got %q, %v; want %v", got, err, tt.want)
				}
				store.inspect(t)
			})
		})
	}
}

// TestStoreFails is for stores that do not do their work: the message is worth another try.
func TestStoreFails(t *testing.T) {
	errClient := errors.New("a client's error")
	fail := func(code claimcheck.Code, err error) *claimcheck.Error {
		return &claimcheck.Error{Code: code, Op: "get", Status: 503, Err: err}
	}
	tests := []struct {
		why        string
		err        error
		want, also error
	}{
		{"down", fail(claimcheck.CodeUnavailable, errClient), claimcheck.ErrUnavailable, errClient},
		{"forbidden", fail(claimcheck.CodeForbidden, errClient), claimcheck.ErrForbidden, errClient},
		{"an error that nobody translated", errClient, claimcheck.ErrUnavailable, errClient},
		{"a code without a class", fail(claimcheck.CodeExists, errClient), claimcheck.ErrUnavailable, errClient},
		{"a connection that broke", io.ErrUnexpectedEOF, claimcheck.ErrUnavailable, io.ErrUnexpectedEOF},
		{"cancelled", fail(claimcheck.CodeUnavailable, context.Canceled), claimcheck.ErrUnavailable, context.Canceled},
		{"cancelled, says a bare error", context.Canceled, claimcheck.ErrUnavailable, context.Canceled},
		{"timed out", context.DeadlineExceeded, claimcheck.ErrUnavailable, context.DeadlineExceeded},
		{"cancelled, with a wrong code", fail(claimcheck.CodeNotFound, context.Canceled), claimcheck.ErrUnavailable, context.Canceled},
	}
	p := packOf(t, claimcheck.Body{Data: pattern(1, 200_000)})
	claim := p.Claims()[0]
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			inAllWays(t, func(t *testing.T, redeem way) {
				store := &testStore{objects: map[string][]byte{p.Key(): objectOf(t, p)}}
				calls, failing := 0, 0
				// Every call fails once: at its beginning, and after some bytes.
				store.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
					calls++
					r, err := store.load(ctx, key, off, n)
					switch {
					case err != nil:
						return nil, err
					case failing == 2*calls:
						return nil, errors.Join(tt.err, r.Close())
					case failing == 2*calls+1:
						r.(*testReader).Reader = io.MultiReader(io.LimitReader(r.(*testReader).Reader, 20_000), iotest.ErrReader(tt.err))
					}
					return r, nil
				}
				for _, failing = range []int{2, 3, 4, 5} {
					calls = 0
					got, err := redeem(newChecker(t, store), t.Context(), claim.Ref.String(), claim.SHA256, claim.Size)
					if !errors.Is(err, tt.want) || !errors.Is(err, tt.also) || !envelope.IsTransient(err) || got != nil {
						t.Errorf("failure %d: got %d bytes, %v; want %v", failing, len(got), err, tt.want)
					}
					var e *claimcheck.Error
					if errors.As(err, &e) && (e.Ref != claim.Ref.String() || errors.Is(tt.want, claimcheck.ErrForbidden) && e.Status != 503) {
						t.Errorf("failure %d: %#v", failing, e)
					}
				}
				store.inspect(t)
			})
		})
	}
}

// TestReadersInParts redeems from readers that give what they have in other ways.
func TestReadersInParts(t *testing.T) {
	p := packOf(t, claimcheck.Body{Data: pattern(1, 80_000)})
	claim := p.Claims()[0]
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"a byte at a time":         iotest.OneByteReader,
		"the end with the last":    iotest.DataErrReader,
		"half of what is asked":    iotest.HalfReader,
		"the last with the end, 1": func(r io.Reader) io.Reader { return iotest.DataErrReader(iotest.OneByteReader(r)) },
	} {
		t.Run(name, func(t *testing.T) {
			inAllWays(t, func(t *testing.T, redeem way) {
				store := &testStore{objects: map[string][]byte{p.Key(): objectOf(t, p)}}
				store.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
					r, err := store.load(ctx, key, off, n)
					if err == nil {
						r.(*testReader).Reader = wrap(r.(*testReader).Reader)
					}
					return r, err
				}
				got, err := redeem(newChecker(t, store), t.Context(), claim.Ref.String(), claim.SHA256, claim.Size)
				if err != nil || digestOf(got) != claim.SHA256 {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
				store.inspect(t)
			})
		})
	}
}

func TestLocate(t *testing.T) {
	p := packOf(t, claimcheck.Body{Data: pattern(1, 80_000)}, claimcheck.Body{Data: []byte("hello")})
	object := objectOf(t, p)
	store := &testStore{objects: map[string][]byte{p.Key(): object}}
	loc, err := claimcheck.Locate(t.Context(), store, p.Claims()[1].Ref)
	if err != nil || loc.Key != p.Key() || string(object[loc.Offset:][:loc.Length]) != "hello" {
		t.Errorf("got %+v, %v", loc, err)
	}
	signed, err := claimcheck.ParseRef(signedRef)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		ref  claimcheck.Ref
		want error
	}{
		{claimcheck.Ref{}, claimcheck.ErrInvalidRef},
		{signed, claimcheck.ErrSignedRef},
		{mustRef(t, claimID), claimcheck.ErrNotFound},
	} {
		if loc, err := claimcheck.Locate(t.Context(), store, tt.ref); !errors.Is(err, tt.want) || loc != (claimcheck.Location{}) {
			t.Errorf("Locate(%v) = %+v, %v; want %v", tt.ref, loc, err, tt.want)
		}
	}
	store.inspect(t)
}

// TestFewConnections redeems 200 messages at once from a store that has 4 readers at a time:
// whoever keeps one while waiting for another would wait for ever.
func TestFewConnections(t *testing.T) {
	inAllWays(t, func(t *testing.T, redeem way) {
		p := packOf(t, claimcheck.Body{Data: pattern(1, 100_000)}, claimcheck.Body{Data: pattern(2, 100_000)})
		object := objectOf(t, p)
		synctest.Test(t, func(t *testing.T) {
			store := &testStore{objects: map[string][]byte{p.Key(): object}}
			connections := make(chan struct{}, 4)
			store.get = func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
				connections <- struct{}{}
				r, err := store.load(ctx, key, off, n)
				return &connection{r, connections}, err
			}
			c := newChecker(t, store)
			var wg sync.WaitGroup
			for i := range 200 {
				claim := p.Claims()[i%2]
				wg.Go(func() {
					got, err := redeem(c, t.Context(), claim.Ref.String(), claim.SHA256, claim.Size)
					if err != nil || digestOf(got) != claim.SHA256 {
						t.Errorf("got %d bytes, %v", len(got), err)
					}
				})
			}
			wg.Wait()
			store.inspect(t)
		})
	})
}

// A connection is given back when its reader is closed.
type connection struct {
	io.ReadCloser
	all chan struct{}
}

func (c *connection) Close() error {
	<-c.all
	return c.ReadCloser.Close()
}
