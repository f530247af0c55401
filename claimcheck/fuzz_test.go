package claimcheck_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
)

func FuzzParseRef(f *testing.F) {
	for _, tt := range refs {
		f.Add(tt.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := claimcheck.ParseRef(text)
		checkParseRef(t, text, err == nil)
		if err != nil {
			return
		}
		plain, err := claimcheck.NewRef(r.Tenant(), r.ClaimID())
		if key := r.Key(); (err == nil) != (key != "") {
			t.Fatalf("NewRef: %v, but the key is %q", err, key)
		} else if err == nil {
			first, err := claimcheck.ParseKey(key)
			if err != nil || first.ClaimID() != r.PackID() || first.Index() != 0 || !first.Time().Equal(r.Time()) {
				t.Errorf("%q has the key %q, which is %v, %v", text, key, first, err)
			}
			if plain.Index() != r.Index() || plain.Signed() || r.Signed() == (plain == r) {
				t.Errorf("%q and %q", plain, text)
			}
		}
	})
}

// FuzzPackReader redeems claims from objects that are anything.
func FuzzPackReader(f *testing.F) {
	golden := goldenPack(f)
	f.Add(golden, uint16(2), int64(256))
	f.Add(golden, uint16(0), int64(-1))
	f.Add([]byte(twoClaims), uint16(0), int64(5))
	f.Add([]byte(twoClaims), uint16(1), int64(0))
	f.Add([]byte(twoClaims)[:111], uint16(0), int64(5))
	f.Add([]byte(twoClaims)[:39], uint16(65535), int64(1<<62))
	huge := []byte(twoClaims)
	copy(huge[18:], "\xff\xff\xff\xff")
	f.Add(huge, uint16(1), int64(-1))
	huge = []byte(twoClaims)
	copy(huge[39:], "\xff\xff\xff\xff\xff\xff\xff\xff")
	f.Add(huge, uint16(0), int64(-1))
	f.Fuzz(func(t *testing.T, object []byte, index uint16, size int64) {
		base := mustRef(t, packID).String()
		claimID := claimIDAt(index)
		r, err := claimcheck.ParseRef(base[:len(base)-len(claimID)] + claimID)
		if err != nil || r.Index() != int(index) {
			t.Fatalf("%v is not claim %d: %v", r, index, err)
		}
		store := &testStore{objects: map[string][]byte{r.Key(): object}}
		c, err := claimcheck.New(claimcheck.Config{Store: store, MaxBodyBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		loc, err := claimcheck.Locate(t.Context(), store, r)
		if err != nil && !envelope.IsPermanent(err) {
			t.Fatalf("Locate: %v", err)
		}
		var want []byte
		lost := err != nil || loc.Length > 0 && loc.Offset+loc.Length > int64(len(object))
		if !lost && loc.Length > 0 {
			want = object[loc.Offset:][:loc.Length]
		}
		for name, redeem := range ways {
			got, err := redeem(c, t.Context(), r.String(), digestOf(want), size)
			switch {
			case err == nil:
				if lost || !bytes.Equal(got, want) || size >= 0 && size != int64(len(got)) {
					t.Errorf("%s: got %d bytes of %+v", name, len(got), loc)
				}
			case !envelope.IsPermanent(err):
				t.Errorf("%s: %v", name, err)
			case !lost && (size < 0 || size == loc.Length):
				t.Errorf("%s: %v, but it is at %+v", name, err, loc)
			}
			if _, err := redeem(c, t.Context(), r.String(), digestOf([]byte("another")), size); err == nil || errors.Is(err, claimcheck.ErrUnavailable) {
				t.Errorf("%s with another digest: %v", name, err)
			}
		}
		store.inspect(t)
	})
}

// claimIDAt returns the id of a claim of the pack packID.
func claimIDAt(index uint16) string {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	id := []byte(packID)
	for i, shift := range []int{10, 5, 0} {
		id[len(id)-3+i] = digits[index>>shift&31]
	}
	if index >= 1<<15 {
		id[len(id)-4] = 'Z' // after Y
	}
	return string(id)
}
