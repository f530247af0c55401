package claimcheck_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
)

const packID = "01M39VMD8RA3C5HR4RBV67Y000"

// packOf returns the pack of bodies under packID.
func packOf(t testing.TB, bodies ...claimcheck.Body) *claimcheck.Pack {
	t.Helper()
	first, err := claimcheck.NewRef("acme", packID)
	if err != nil {
		t.Fatal(err)
	}
	for i := range bodies {
		bodies[i].Tenant = "acme"
	}
	p, err := claimcheck.NewPack(first, bodies)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func objectOf(t testing.TB, p *claimcheck.Pack) []byte {
	t.Helper()
	object, err := io.ReadAll(p.Object())
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// twoClaims is the object of two bodies, "hello" and "", written out.
const twoClaims = "" +
	// at 0: local header of index.bin: version 2.0, no flags, stored, 1980-01-01
	"PK\x03\x04" + "\x14\x00" + "\x00\x00" + "\x00\x00" + "\x00\x00" + "\x21\x00" +
	"\xe6\x73\x78\x3a" + "\x10\x00\x00\x00" + "\x10\x00\x00\x00" + "\x09\x00" + "\x00\x00" + "index.bin" +
	// at 39: the index: 5 bytes at 111, 0 bytes at 172
	"\x00\x00\x00\x6f" + "\x00\x00\x00\x05" + "\x00\x00\x00\xac" + "\x00\x00\x00\x00" +
	// at 55: the first claim
	"PK\x03\x04" + "\x14\x00" + "\x00\x00" + "\x00\x00" + "\x00\x00" + "\x21\x00" +
	"\x86\xa6\x10\x36" + "\x05\x00\x00\x00" + "\x05\x00\x00\x00" + "\x1a\x00" + "\x00\x00" + "01M39VMD8RA3C5HR4RBV67Y000" +
	"hello" +
	// at 116: the second claim
	"PK\x03\x04" + "\x14\x00" + "\x00\x00" + "\x00\x00" + "\x00\x00" + "\x21\x00" +
	"\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x1a\x00" + "\x00\x00" + "01M39VMD8RA3C5HR4RBV67Y001" +
	// at 172: the manifest
	"PK\x03\x04" + "\x14\x00" + "\x00\x00" + "\x00\x00" + "\x00\x00" + "\x21\x00" +
	"\xd3\xee\xb6\x9e" + "\x9f\x01\x00\x00" + "\x9f\x01\x00\x00" + "\x0d\x00" + "\x00\x00" + "manifest.json" +
	`{"v":1,"claims":[` +
	`{"claim_id":"01M39VMD8RA3C5HR4RBV67Y000","id":"a","offset":111,"length":5,` +
	`"sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",` +
	`"content_type":"text/plain","received_at":1737500000000},` +
	`{"claim_id":"01M39VMD8RA3C5HR4RBV67Y001","id":"b","offset":172,"length":0,` +
	`"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",` +
	`"content_type":null,"received_at":null}]}` +
	// at 630: the directory
	"PK\x01\x02" + "\x14\x00" + "\x14\x00" + "\x00\x00" + "\x00\x00" + "\x00\x00" + "\x21\x00" +
	"\xe6\x73\x78\x3a" + "\x10\x00\x00\x00" + "\x10\x00\x00\x00" + "\x09\x00" + "\x00\x00" + "\x00\x00" +
	"\x00\x00" + "\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "index.bin" +
	"PK\x01\x02" + "\x14\x00" + "\x14\x00" + "\x00\x00" + "\x00\x00" + "\x00\x00" + "\x21\x00" +
	"\x86\xa6\x10\x36" + "\x05\x00\x00\x00" + "\x05\x00\x00\x00" + "\x1a\x00" + "\x00\x00" + "\x00\x00" +
	"\x00\x00" + "\x00\x00" + "\x00\x00\x00\x00" + "\x37\x00\x00\x00" + "01M39VMD8RA3C5HR4RBV67Y000" +
	"PK\x01\x02" + "\x14\x00" + "\x14\x00" + "\x00\x00" + "\x00\x00" + "\x00\x00" + "\x21\x00" +
	"\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x1a\x00" + "\x00\x00" + "\x00\x00" +
	"\x00\x00" + "\x00\x00" + "\x00\x00\x00\x00" + "\x74\x00\x00\x00" + "01M39VMD8RA3C5HR4RBV67Y001" +
	"PK\x01\x02" + "\x14\x00" + "\x14\x00" + "\x00\x00" + "\x00\x00" + "\x00\x00" + "\x21\x00" +
	"\xd3\xee\xb6\x9e" + "\x9f\x01\x00\x00" + "\x9f\x01\x00\x00" + "\x0d\x00" + "\x00\x00" + "\x00\x00" +
	"\x00\x00" + "\x00\x00" + "\x00\x00\x00\x00" + "\xac\x00\x00\x00" + "manifest.json" +
	// its end: 4 entries, 258 bytes at 630
	"PK\x05\x06" + "\x00\x00" + "\x00\x00" + "\x04\x00" + "\x04\x00" + "\x02\x01\x00\x00" + "\x76\x02\x00\x00" + "\x00\x00"

func TestPackBytes(t *testing.T) {
	p := packOf(t,
		claimcheck.Body{ID: "a", ContentType: "text/plain", ReceivedAt: time.UnixMilli(1737500000000), Data: []byte("hello")},
		claimcheck.Body{ID: "b"},
	)
	if got := string(objectOf(t, p)); got != twoClaims {
		t.Errorf("got\n%s\nwant\n%s", hex.Dump([]byte(got)), hex.Dump([]byte(twoClaims)))
	}
	if want := "claims/tenant=acme/dt=2026-09-24/" + packID; p.Key() != want {
		t.Errorf("the key is %s, want %s", p.Key(), want)
	}
	const (
		hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
		empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	)
	want := fmt.Sprint([]claimcheck.Claim{
		{Ref: mustRef(t, packID), SHA256: hello, Size: 5},
		{Ref: mustRef(t, "01M39VMD8RA3C5HR4RBV67Y001"), SHA256: empty},
	})
	if got := fmt.Sprint(p.Claims()); got != want {
		t.Errorf("the claims are %s, want %s", got, want)
	}
}

func mustRef(t testing.TB, claimID string) claimcheck.Ref {
	t.Helper()
	r, err := claimcheck.NewRef("acme", claimID)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// goldenBodies are those of testdata/wire/v0.1/pack.zip.
func goldenBodies() []claimcheck.Body {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return []claimcheck.Body{
		{
			ID: "evt_1", ContentType: "application/json; charset=utf-8", ReceivedAt: time.UnixMilli(1790258590999),
			Data: []byte("{\"amount\":100}\n"),
		},
		{ID: "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10"},
		{ID: "é & <\"\\中文\">", ContentType: "application/octet-stream", ReceivedAt: time.UnixMilli(-1), Data: all},
		{ID: "evt_1", ReceivedAt: time.UnixMilli(0), Data: []byte("{\"amount\":100}\n")},
	}
}

// goldenPack is the pack of goldenBodies, made by another program.
func goldenPack(t testing.TB) []byte {
	t.Helper()
	object, err := os.ReadFile("../testdata/wire/v0.1/pack.zip")
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func TestGoldenPack(t *testing.T) {
	want := goldenPack(t)
	p := packOf(t, goldenBodies()...)
	if got := objectOf(t, p); !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", hex.Dump(got), hex.Dump(want))
	}
	store := &testStore{objects: map[string][]byte{p.Key(): want}}
	for i, claim := range p.Claims() {
		got, err := newChecker(t, store).Redeem(t.Context(), claim.Ref.String(), claim.SHA256, claim.Size)
		if err != nil || !bytes.Equal(got, goldenBodies()[i].Data) {
			t.Errorf("claim %d: got %q, %v", i, got, err)
		}
	}
}

// TestPackIsZIP reads a pack with the standard library, which checks every CRC.
func TestPackIsZIP(t *testing.T) {
	bodies := goldenBodies()
	bodies = append(bodies, claimcheck.Body{ID: "large", Data: pattern(1, 300<<10)})
	p := packOf(t, bodies...)
	z, err := zip.NewReader(p.Object(), p.Object().Size())
	if err != nil {
		t.Fatal(err)
	}
	if len(z.File) != len(bodies)+2 || z.File[0].Name != "index.bin" || z.File[len(bodies)+1].Name != "manifest.json" {
		t.Fatalf("the entries are %v", z.File)
	}
	content := func(f *zip.File) []byte {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		return data
	}
	var manifest struct {
		V      int
		Claims []struct {
			ClaimID        string `json:"claim_id"`
			ID, SHA256     string
			Offset, Length int64
		}
	}
	if err := json.Unmarshal(content(z.File[len(bodies)+1]), &manifest); err != nil {
		t.Fatal(err)
	}
	for i, b := range bodies {
		f, m := z.File[i+1], manifest.Claims[i]
		if got := content(f); !bytes.Equal(got, b.Data) {
			t.Errorf("entry %d has %d bytes, not those of its body", i, len(got))
		}
		if f.Name != p.Claims()[i].Ref.ClaimID() || m.ClaimID != f.Name || m.ID != b.ID || m.SHA256 != p.Claims()[i].SHA256 {
			t.Errorf("entry %d is %s, in the manifest %+v", i, f.Name, m)
		}
		if at, err := f.DataOffset(); err != nil || at != m.Offset || m.Length != int64(len(b.Data)) {
			t.Errorf("entry %d is at %d, %v, in the manifest %+v", i, at, err, m)
		}
	}
}

// TestPackReader reads a pack in all the ways a store may: from anywhere, in parts, as one.
func TestPackReader(t *testing.T) {
	for name, bodies := range map[string][]claimcheck.Body{
		"one empty":           {{}},
		"one":                 {{Data: []byte("hello")}},
		"empty ones between":  {{}, {Data: []byte("hello")}, {}, {}, {Data: []byte("x")}, {}},
		"one byte after each": {{Data: []byte("a")}, {Data: []byte("b")}, {Data: []byte("c")}},
	} {
		t.Run(name, func(t *testing.T) {
			p := packOf(t, bodies...)
			want := objectOf(t, p)
			if int64(len(want)) != p.Object().Size() {
				t.Fatalf("%d bytes of %d", len(want), p.Object().Size())
			}
			if err := iotest.TestReader(p.Object(), want); err != nil {
				t.Error(err)
			}
			for off := range len(want) + 1 {
				for _, n := range []int{0, 1, 5, 60, len(want)} {
					b := make([]byte, n)
					got, err := p.Object().ReadAt(b, int64(off))
					end := min(off+n, len(want))
					if !bytes.Equal(b[:got], want[off:end]) || (err == io.EOF) != (got < n || off == len(want)) {
						t.Fatalf("ReadAt(%d bytes, %d) = %d, %v", n, off, got, err)
					}
				}
			}
		})
	}
}

func TestPackOf65000(t *testing.T) {
	bodies := make([]claimcheck.Body, claimcheck.MaxPackClaims)
	for i := range bodies {
		bodies[i].Data = fmt.Append(nil, i)
	}
	p := packOf(t, bodies...)
	store := &testStore{objects: map[string][]byte{p.Key(): objectOf(t, p)}}
	c := newChecker(t, store)
	for _, i := range []int{0, 1, 8186, 8187, 8188, 64_998, 64_999} {
		claim := p.Claims()[i]
		if claim.Ref.Index() != i || claim.Ref.Key() != p.Key() {
			t.Errorf("claim %d is %v", i, claim.Ref)
		}
		got, err := c.Redeem(t.Context(), claim.Ref.String(), claim.SHA256, claim.Size)
		if err != nil || string(got) != fmt.Sprint(i) {
			t.Errorf("claim %d: got %q, %v", i, got, err)
		}
	}
	if z, err := zip.NewReader(p.Object(), p.Object().Size()); err != nil || len(z.File) != len(bodies)+2 {
		t.Errorf("not a ZIP file of all: %v", err)
	}
	first := mustRef(t, packID)
	if _, err := claimcheck.NewPack(first, append(slices.Clip(bodies), bodies[0])); !errors.Is(err, claimcheck.ErrTooLarge) {
		t.Errorf("65,001 claims: %v", err)
	}
}

func TestNewPackRefuses(t *testing.T) {
	big := make([]byte, 64<<20)
	fourGiB := make([]claimcheck.Body, 64)
	for i := range fourGiB {
		fourGiB[i] = claimcheck.Body{Tenant: "acme", Data: big} // the same bytes, never read
	}
	overByHeaders := append(fourGiB[:63:63], claimcheck.Body{Tenant: "acme", Data: big[:len(big)-64*56-39-64*8]})
	one := []claimcheck.Body{{Tenant: "acme"}}
	signed, err := claimcheck.ParseRef(strings.Replace(signedRef, claimID, packID, 1))
	if err != nil {
		t.Fatal(err)
	}
	late, err := claimcheck.ParseRef("urn:ankusa:claim:v1:acme:7ZZZZZZZZZZZZZZZZZZZZZY000")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		why    string
		first  claimcheck.Ref
		bodies []claimcheck.Body
		want   error
	}{
		{"no reference", claimcheck.Ref{}, one, claimcheck.ErrInvalidRef},
		{"a reference to another claim than the first", mustRef(t, claimID), one, claimcheck.ErrInvalidRef},
		{"a signed reference", signed, one, claimcheck.ErrInvalidRef},
		{"a time after the year 9999", late, one, claimcheck.ErrInvalidRef},
		{"no body", mustRef(t, packID), nil, claimcheck.ErrTooLarge},
		{"a body without a tenant", mustRef(t, packID), []claimcheck.Body{{}}, claimcheck.ErrInvalidTenant},
		{"a body of another tenant", mustRef(t, packID), append(one[:1:1], claimcheck.Body{Tenant: "b"}), claimcheck.ErrInvalidTenant},
		{
			"a digest in upper case", mustRef(t, packID),
			[]claimcheck.Body{{Tenant: "acme", SHA256: strings.Repeat("A", 64)}},
			claimcheck.ErrInvalidRef,
		},
		{"4 GiB", mustRef(t, packID), fourGiB, claimcheck.ErrTooLarge},
		{"4 GiB with the headers of the claims", mustRef(t, packID), overByHeaders, claimcheck.ErrTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			if p, err := claimcheck.NewPack(tt.first, tt.bodies); !errors.Is(err, tt.want) || p != nil {
				t.Errorf("got %v, %v; want %v", p, err, tt.want)
			}
		})
	}
}

// TestPackEndOver4GiB is for an object that what comes after the bodies makes too large.
func TestPackEndOver4GiB(t *testing.T) {
	big := make([]byte, 64<<20)
	digest := hex.EncodeToString(sha256.New().Sum(nil)) // not of big; nobody reads it
	bodies := make([]claimcheck.Body, 64)
	for i := range bodies {
		bodies[i] = claimcheck.Body{Tenant: "acme", Data: big, SHA256: digest}
	}
	bodies[63].Data = big[:len(big)-64*56-39-64*8-1000] // room for 1,000 bytes more
	if p, err := claimcheck.NewPack(mustRef(t, packID), bodies); !errors.Is(err, claimcheck.ErrTooLarge) {
		t.Errorf("got %v, %v", p, err)
	}
	bodies[63].Data = big[:len(big)-64*56-39-64*8-64*400-1000]
	p, err := claimcheck.NewPack(mustRef(t, packID), bodies)
	if err != nil {
		t.Fatal(err)
	}
	if z, err := zip.NewReader(p.Object(), p.Object().Size()); err != nil || len(z.File) != 66 {
		t.Errorf("a pack of %d bytes is not a ZIP file of all: %v", p.Object().Size(), err)
	}
}

func TestNewPackRef(t *testing.T) {
	now := time.Date(2026, 9, 24, 23, 59, 59, 999_999_999, time.FixedZone("", -3600)) // the 25th in UTC
	seen := make(map[claimcheck.Ref]bool)
	for range 1000 {
		r, err := claimcheck.NewPackRef("acme", now)
		if err != nil {
			t.Fatal(err)
		}
		if seen[r] {
			t.Fatalf("%v twice", r)
		}
		seen[r] = true
		if r.Index() != 0 || r.PackID() != r.ClaimID() || !r.Time().Equal(now.Truncate(time.Millisecond)) ||
			!strings.HasPrefix(r.Key(), "claims/tenant=acme/dt=2026-09-25/") {
			t.Fatalf("%v: index %d, time %v, key %s", r, r.Index(), r.Time(), r.Key())
		}
	}
	for _, tt := range []struct {
		tenant string
		t      time.Time
		want   error
	}{
		{"a/b", now, claimcheck.ErrInvalidTenant},
		{"", now, claimcheck.ErrInvalidTenant},
		{"acme", time.UnixMilli(-1), claimcheck.ErrInvalidRef},
		{"acme", time.UnixMilli(253402300800000), claimcheck.ErrInvalidRef},
	} {
		if r, err := claimcheck.NewPackRef(tt.tenant, tt.t); !errors.Is(err, tt.want) {
			t.Errorf("NewPackRef(%q, %v) = %v, %v", tt.tenant, tt.t, r, err)
		}
	}
}
