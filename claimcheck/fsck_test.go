package claimcheck_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// objects is a store of what a test puts into it, whole or not.
type objects struct {
	m   map[string][]byte
	get func(key string, off int64) (io.ReadCloser, error) // in its place, where it answers
}

func (s *objects) Put(_ context.Context, key string, obj *io.SectionReader) error {
	data, err := io.ReadAll(obj)
	s.m[key] = data
	return err
}

func (s *objects) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "get", Key: key, Err: err}
	}
	if s.get != nil {
		if r, err := s.get(key, off); r != nil || err != nil {
			return r, err
		}
	}
	data, ok := s.m[key]
	if !ok {
		return nil, &claimcheck.Error{Code: claimcheck.CodeNotFound, Op: "get", Key: key}
	}
	size := int64(len(data))
	return io.NopCloser(bytes.NewReader(data[min(off, size):min(off+n, size)])), nil
}

// checkedIn returns a store with the bodies in one pack, and its claims.
func checkedIn(t testing.TB, bodies ...string) (*objects, []claimcheck.Claim) {
	t.Helper()
	s := &objects{m: make(map[string][]byte)}
	c, err := claimcheck.New(claimcheck.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	var in []claimcheck.Body
	for _, b := range bodies {
		in = append(in, claimcheck.Body{Tenant: "acme", Data: []byte(b)})
	}
	claims := c.CheckIn(context.Background(), in)
	for _, c := range claims {
		if c.Err != nil {
			t.Fatal(c.Err)
		}
	}
	return s, claims
}

func TestFsck(t *testing.T) {
	big := strings.Repeat("b", 200_000)
	fails := func(code claimcheck.Code) func(*objects, string) {
		return func(s *objects, _ string) {
			s.get = func(string, int64) (io.ReadCloser, error) { return nil, &claimcheck.Error{Code: code, Op: "get"} }
		}
	}
	body := func(r io.Reader, err error) func(*objects, string) {
		return func(s *objects, _ string) {
			s.get = func(_ string, off int64) (io.ReadCloser, error) {
				if off == 0 {
					return nil, nil
				}
				return io.NopCloser(r), err
			}
		}
	}
	notFound := &claimcheck.Error{Code: claimcheck.CodeNotFound, Op: "get"}
	for _, tt := range []struct {
		name   string
		spoil  func(s *objects, key string)
		change func(c *claimcheck.FsckClaim)
		want   claimcheck.FsckState
	}{
		{"as it should be", nil, nil, claimcheck.FsckOK},
		{"of no known size", nil, func(c *claimcheck.FsckClaim) { c.Size = -1 }, claimcheck.FsckOK},
		{"signed", nil, func(c *claimcheck.FsckClaim) {
			c.Ref = strings.Replace(c.Ref, ":v1:", ":v2:", 1) + ":1:" + signature
		}, claimcheck.FsckOK},

		{"object deleted", func(s *objects, key string) { delete(s.m, key) }, nil, claimcheck.FsckMissing},
		{"object deleted meanwhile", body(nil, notFound), nil, claimcheck.FsckMissing},
		{"no such claim in the pack", nil, func(c *claimcheck.FsckClaim) { c.Ref = c.Ref[:len(c.Ref)-1] + "9" }, claimcheck.FsckMissing},
		{"of another tenant", nil, func(c *claimcheck.FsckClaim) { c.Ref = strings.Replace(c.Ref, "acme", "other", 1) }, claimcheck.FsckMissing},

		{"object empty", func(s *objects, key string) { s.m[key] = nil }, nil, claimcheck.FsckShort},
		{"object ends in the index", func(s *objects, key string) { s.m[key] = s.m[key][:40] }, nil, claimcheck.FsckShort},
		{"object ends before the body", func(s *objects, key string) { s.m[key] = s.m[key][:100] }, nil, claimcheck.FsckShort},
		{"object ends a byte early", func(s *objects, key string) { s.m[key] = s.m[key][:bytes.Index(s.m[key], []byte(big))+len(big)-1] }, nil, claimcheck.FsckShort},

		{"a bit flipped", func(s *objects, key string) { s.m[key][100_000] ^= 1 }, nil, claimcheck.FsckCorrupt},
		{"not a pack", func(s *objects, key string) { s.m[key][0] = 'Q' }, nil, claimcheck.FsckCorrupt},
		{"digest of another", nil, func(c *claimcheck.FsckClaim) { c.SHA256 = textDigest("other") }, claimcheck.FsckCorrupt},
		{"size of another", nil, func(c *claimcheck.FsckClaim) { c.Size++ }, claimcheck.FsckCorrupt},

		{"no reference", nil, func(c *claimcheck.FsckClaim) { c.Ref = "s3://bucket/key" }, claimcheck.FsckInvalid},
		{"empty reference", nil, func(c *claimcheck.FsckClaim) { c.Ref = "" }, claimcheck.FsckInvalid},
		{"reference to a time without a day", nil, func(c *claimcheck.FsckClaim) {
			c.Ref = "urn:ankusa:claim:v1:acme:7ZZZZZZZZZZZZZZZZZZZZZZZZZ"
		}, claimcheck.FsckInvalid},
		{"no digest", nil, func(c *claimcheck.FsckClaim) { c.SHA256 = "" }, claimcheck.FsckInvalid},

		{"store down", fails(claimcheck.CodeUnavailable), nil, claimcheck.FsckUnchecked},
		{"store forbids", fails(claimcheck.CodeForbidden), nil, claimcheck.FsckUnchecked},
		{"store down at the body", body(nil, &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "get"}), nil, claimcheck.FsckUnchecked},
		{"connection breaks in the body", body(io.MultiReader(strings.NewReader(big[:100_000]), brokenReader{}), nil), nil, claimcheck.FsckUnchecked},
		{"store breaks its word", body(nil, errors.New("anything")), nil, claimcheck.FsckUnchecked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, claims := checkedIn(t, big)
			c := claimcheck.FsckClaim{Ref: claims[0].Ref.String(), SHA256: claims[0].SHA256, Size: claims[0].Size, ID: "hook-1"}
			if tt.spoil != nil {
				tt.spoil(s, claims[0].Ref.Key())
			}
			if tt.change != nil {
				tt.change(&c)
			}
			results := slices.Collect(claimcheck.Fsck(context.Background(), s, slices.Values([]claimcheck.FsckClaim{c})))
			if len(results) != 1 {
				t.Fatalf("%d results", len(results))
			}
			got := results[0]
			if got.State != tt.want || got.ID != "hook-1" || (got.Err == nil) != (tt.want == claimcheck.FsckOK) {
				t.Errorf("%+v, want %s", got, tt.want)
			}
			if bad := tt.want != claimcheck.FsckOK && tt.want != claimcheck.FsckUnchecked; got.State.Bad() != bad {
				t.Errorf("%s is bad: %t", got.State, got.State.Bad())
			}
			r, err := claimcheck.ParseRef(c.Ref)
			if err == nil && c.SHA256 != "" && (got.Tenant != r.Tenant() || got.Key != r.Key() || got.Ref != r.Masked()) {
				t.Errorf("%+v is not about %s", got, r.Masked())
			}
			if strings.Contains(got.Ref, signature) {
				t.Errorf("%s shows the signature", got.Ref)
			}
		})
	}
}

// There is one result for each claim, in order, whatever comes before; a reader that has seen
// enough ends it.
func TestFsckMany(t *testing.T) {
	s, claims := checkedIn(t, "one", "", strings.Repeat("three", 50_000), "four")
	var list []claimcheck.FsckClaim
	for _, c := range claims {
		list = append(list, claimcheck.FsckClaim{Ref: c.Ref.String(), SHA256: c.SHA256, Size: c.Size})
	}
	list = slices.Insert(list, 1, claimcheck.FsckClaim{Ref: "none"}, claimcheck.FsckClaim{Ref: "urn:ankusa:claim:v1:acme:" + packID, SHA256: textDigest("")})
	states := func(ctx context.Context) (states []claimcheck.FsckState) {
		for res := range claimcheck.Fsck(ctx, s, slices.Values(list)) {
			states = append(states, res.State)
		}
		return states
	}
	want := []claimcheck.FsckState{"ok", "invalid", "missing", "ok", "ok", "ok"}
	if got := states(context.Background()); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got, want := states(ctx), []claimcheck.FsckState{"unchecked", "invalid", "unchecked", "unchecked", "unchecked", "unchecked"}; !slices.Equal(got, want) {
		t.Errorf("with a context that is done: %q, want %q", got, want)
	}
	taken := 0
	for range claimcheck.Fsck(context.Background(), s, func(yield func(claimcheck.FsckClaim) bool) {
		for _, c := range list {
			if taken++; !yield(c) {
				return
			}
		}
	}) {
		break
	}
	if taken != 1 {
		t.Errorf("took %d claims for one result", taken)
	}
}

// A body is not held in memory.
func TestFsckMemory(t *testing.T) {
	const size = 32 << 20
	s, claims := checkedIn(t, strings.Repeat("b", size))
	c := claimcheck.FsckClaim{Ref: claims[0].Ref.String(), SHA256: claims[0].SHA256, Size: size}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for res := range claimcheck.Fsck(context.Background(), s, slices.Values([]claimcheck.FsckClaim{c})) {
		if res.Err != nil {
			t.Error(res.Err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 2<<20 {
		t.Errorf("allocates %d bytes for a body of %d", got, size)
	}
}
