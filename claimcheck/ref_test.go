package claimcheck_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
)

const (
	claimID   = "01M39VMD8RA3C5HR4RBV67Y002"
	ref       = "urn:ankusa:claim:v1:acme:" + claimID
	signature = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNO-_"
	signedRef = "urn:ankusa:claim:v2:acme:" + claimID + ":1737500000:" + signature
)

// refs are texts and whether they are references.
var refs = []struct {
	why, text string
	valid     bool
}{
	{"a reference", ref, true},
	{"a signed one", signedRef, true},
	{"every character of a tenant", "urn:ankusa:claim:v1:AZaz09_-:" + claimID, true},
	{"64 characters of a tenant", "urn:ankusa:claim:v1:" + strings.Repeat("t", 64) + ":" + claimID, true},
	{"the first id", "urn:ankusa:claim:v1:acme:00000000000000000000000000", true},
	{"the last id, whose time is after the year 9999", "urn:ankusa:claim:v1:acme:7ZZZZZZZZZZZZZZZZZZZZZZZZZ", true},
	{"an expiry of one digit", "urn:ankusa:claim:v2:acme:" + claimID + ":1:" + signature, true},
	{"an expiry of 12 digits", "urn:ankusa:claim:v2:acme:" + claimID + ":999999999999:" + signature, true},

	{"nothing", "", false},
	{"a URL", "https://example.com/v1/claims/acme/" + claimID, false},
	{"another case", strings.ToUpper(ref), false},
	{"a version that is not known", strings.Replace(ref, "v1", "v3", 1), false},
	{"space before", " " + ref, false},
	{"a newline after", ref + "\n", false},
	{"a newline after a signed one", signedRef + "\n", false},
	{"no tenant", "urn:ankusa:claim:v1::" + claimID, false},
	{"65 characters of a tenant", "urn:ankusa:claim:v1:" + strings.Repeat("t", 65) + ":" + claimID, false},
	{"a path for a tenant", "urn:ankusa:claim:v1:../acme:" + claimID, false},
	{"a dot in a tenant", "urn:ankusa:claim:v1:a.b:" + claimID, false},
	{"an escape in a tenant", "urn:ankusa:claim:v1:a%2Fb:" + claimID, false},
	{"a letter that is not of ASCII in a tenant", "urn:ankusa:claim:v1:acmé:" + claimID, false},
	{"no claim id", "urn:ankusa:claim:v1:acme", false},
	{"an empty claim id", "urn:ankusa:claim:v1:acme:", false},
	{"25 characters of a claim id", ref[:len(ref)-1], false},
	{"27 characters of a claim id", ref + "0", false},
	{"a claim id of 130 bits", "urn:ankusa:claim:v1:acme:8" + claimID[1:], false},
	{"a claim id in lower case", "urn:ankusa:claim:v1:acme:" + strings.ToLower(claimID), false},
	{"an I in a claim id", ref[:len(ref)-1] + "I", false},
	{"an L in a claim id", ref[:len(ref)-1] + "L", false},
	{"an O in a claim id", ref[:len(ref)-1] + "O", false},
	{"a U in a claim id", ref[:len(ref)-1] + "U", false},
	{"more after the claim id", ref + ":", false},
	{"a signature in the first form", strings.Replace(signedRef, "v2", "v1", 1), false},
	{"no signature in the second form", strings.Replace(ref, "v1", "v2", 1), false},
	{"no expiry", "urn:ankusa:claim:v2:acme:" + claimID + "::" + signature, false},
	{"an expiry that begins with 0", "urn:ankusa:claim:v2:acme:" + claimID + ":01:" + signature, false},
	{"an expiry of 0", "urn:ankusa:claim:v2:acme:" + claimID + ":0:" + signature, false},
	{"an expiry with a sign", "urn:ankusa:claim:v2:acme:" + claimID + ":+1:" + signature, false},
	{"an expiry of 13 digits", "urn:ankusa:claim:v2:acme:" + claimID + ":1000000000000:" + signature, false},
	{"a signature of 42 characters", signedRef[:len(signedRef)-1], false},
	{"a signature of 44 characters", signedRef + "A", false},
	{"padding of a signature", signedRef[:len(signedRef)-1] + "=", false},
	{"more after the signature", signedRef + ":x", false},
}

func TestParseRef(t *testing.T) {
	for _, tt := range refs {
		t.Run(tt.why, func(t *testing.T) { checkParseRef(t, tt.text, tt.valid) })
	}
}

// checkParseRef checks what ParseRef makes of text, and that the codec of messages is of the
// same opinion.
func checkParseRef(t *testing.T, text string, valid bool) {
	t.Helper()
	r, err := claimcheck.ParseRef(text)
	if (err == nil) != valid {
		t.Fatalf("ParseRef(%q) = %v, %v", text, r, err)
	}
	if valid {
		if r.String() != text {
			t.Errorf("%q became %q", text, r)
		}
	} else {
		if r != (claimcheck.Ref{}) || !errors.Is(err, claimcheck.ErrInvalidRef) || !envelope.IsPermanent(err) {
			t.Errorf("ParseRef(%q) = %v, %v", text, r, err)
		}
		// Whatever it was, it is not shown: it may be a signature.
		if want := "claimcheck: invalid_ref: not a claim reference"; err.Error() != want {
			t.Errorf("ParseRef(%q): %v", text, err)
		}
	}
	e := envelope.Envelope{ID: "id", SourceID: "s", Claim: text, SHA256: strings.Repeat("0", 64)}
	if _, err := e.AppendWire(nil); text != "" && (err == nil) != valid {
		t.Errorf("AppendWire with the claim %q: %v", text, err)
	}
	wire := fmt.Sprintf(`{"v":1,"id":"id","source_id":"s","received_at":0,"size":0,"claim":%s,"sha256":"%064d"}`, jsonText(text), 0)
	if _, err := envelope.ParseWire([]byte(wire)); (err == nil) != valid {
		t.Errorf("ParseWire of %s: %v", wire, err)
	}
}

func TestNewRef(t *testing.T) {
	const last = "76EZ91ZPZZZZZZZZZZZZZZZZZZ" // the last millisecond of 9999, and all other bits
	tests := []struct {
		why, tenant, id string
		want            error
	}{
		{"a claim", "acme", claimID, nil},
		{"the end of 9999", "acme", last, nil},
		{"a millisecond later", "acme", "76EZ91ZQ000000000000000000", claimcheck.ErrInvalidRef},
		{"the end of time", "acme", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", claimcheck.ErrInvalidRef},
		{"no id", "acme", "", claimcheck.ErrInvalidRef},
		{"an id in lower case", "acme", strings.ToLower(claimID), claimcheck.ErrInvalidRef},
		{"a path for an id", "acme", "../../../../../etc/passwd0", claimcheck.ErrInvalidRef},
		{"no tenant", "", claimID, claimcheck.ErrInvalidTenant},
		{"a path for a tenant", "..", claimID, claimcheck.ErrInvalidTenant},
		{"a tenant of 65 characters", strings.Repeat("t", 65), claimID, claimcheck.ErrInvalidTenant},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			r, err := claimcheck.NewRef(tt.tenant, tt.id)
			if tt.want != nil {
				if !errors.Is(err, tt.want) || !envelope.IsPermanent(err) || r != (claimcheck.Ref{}) {
					t.Errorf("got %v, %v; want %v", r, err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := "urn:ankusa:claim:v1:" + tt.tenant + ":" + tt.id; r.String() != want {
				t.Errorf("got %v, want %v", r, want)
			}
		})
	}
}

func TestRefParts(t *testing.T) {
	const ms = 1790258591000 // of claimID
	tests := []struct {
		text               string
		path, packID, key  string
		index              int
		millis             int64
		signed             bool
		expires            time.Time
		masked, tenant, id string
	}{
		{
			text: ref, tenant: "acme", id: claimID, packID: "01M39VMD8RA3C5HR4RBV67Y000", index: 2, millis: ms,
			path:   "/v1/claims/acme/" + claimID,
			key:    "claims/tenant=acme/dt=2026-09-24/01M39VMD8RA3C5HR4RBV67Y000",
			masked: ref,
		},
		{
			text: signedRef, tenant: "acme", id: claimID, packID: "01M39VMD8RA3C5HR4RBV67Y000", index: 2, millis: ms,
			path:    "/v1/claims/acme/" + claimID + "?exp=1737500000&sig=" + signature,
			key:     "claims/tenant=acme/dt=2026-09-24/01M39VMD8RA3C5HR4RBV67Y000",
			signed:  true,
			expires: time.Date(2025, 1, 21, 22, 53, 20, 0, time.UTC),
			masked:  strings.TrimSuffix(signedRef, signature) + "<signature>",
		},
		{
			// Position 65,535: three digits, and a bit of the fourth.
			text: "urn:ankusa:claim:v1:a:0000000000000000000000ZZZZ", tenant: "a", id: "0000000000000000000000ZZZZ",
			packID: "0000000000000000000000Y000", index: 65535,
			path:   "/v1/claims/a/0000000000000000000000ZZZZ",
			key:    "claims/tenant=a/dt=1970-01-01/0000000000000000000000Y000",
			masked: "urn:ankusa:claim:v1:a:0000000000000000000000ZZZZ",
		},
		{
			text: "urn:ankusa:claim:v1:a:76EZ91ZPZZZZZZZZZZZZZZZZZZ", tenant: "a", id: "76EZ91ZPZZZZZZZZZZZZZZZZZZ",
			packID: "76EZ91ZPZZZZZZZZZZZZZZY000", index: 65535, millis: 253402300799999,
			path:   "/v1/claims/a/76EZ91ZPZZZZZZZZZZZZZZZZZZ",
			key:    "claims/tenant=a/dt=9999-12-31/76EZ91ZPZZZZZZZZZZZZZZY000",
			masked: "urn:ankusa:claim:v1:a:76EZ91ZPZZZZZZZZZZZZZZZZZZ",
		},
		{
			// A year of five digits has no folder, so there is no key.
			text: "urn:ankusa:claim:v1:a:76EZ91ZQ000000000000000000", tenant: "a", id: "76EZ91ZQ000000000000000000",
			packID: "76EZ91ZQ000000000000000000", millis: 253402300800000,
			path:   "/v1/claims/a/76EZ91ZQ000000000000000000",
			masked: "urn:ankusa:claim:v1:a:76EZ91ZQ000000000000000000",
		},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			r, err := claimcheck.ParseRef(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			check := func(name string, got, want any) {
				if got != want {
					t.Errorf("%s is %v, want %v", name, got, want)
				}
			}
			check("Tenant", r.Tenant(), tt.tenant)
			check("ClaimID", r.ClaimID(), tt.id)
			check("Path", r.Path(), tt.path)
			check("PackID", r.PackID(), tt.packID)
			check("Index", r.Index(), tt.index)
			check("Time", r.Time(), time.UnixMilli(tt.millis).UTC())
			check("Key", r.Key(), tt.key)
			check("Signed", r.Signed(), tt.signed)
			check("Expires", r.Expires(), tt.expires)
			check("Masked", r.Masked(), tt.masked)
			check("LogValue", r.LogValue().String(), tt.masked)
			if tt.key == "" {
				return
			}
			pack, err := claimcheck.ParseKey(tt.key)
			if err != nil {
				t.Fatal(err)
			}
			check("ParseKey", pack.String(), "urn:ankusa:claim:v1:"+tt.tenant+":"+tt.packID)
		})
	}
}

func TestZeroRef(t *testing.T) {
	var r claimcheck.Ref
	if got := []any{r.String(), r.Masked(), r.Key(), r.PackID(), r.Index(), r.Signed(), r.Tenant(), r.ClaimID()}; !slices.Equal(got,
		[]any{"", "", "", "", 0, false, "", ""}) {
		t.Errorf("got %v", got)
	}
}

func TestParseKey(t *testing.T) {
	const packID = "01M39VMD8RA3C5HR4RBV67Y000"
	for _, tt := range []struct{ why, key string }{
		{"nothing", ""},
		{"a path out of the store", "claims/tenant=../dt=2026-09-24/" + packID},
		{"a path before it", "../claims/tenant=acme/dt=2026-09-24/" + packID},
		{"a slash before it", "/claims/tenant=acme/dt=2026-09-24/" + packID},
		{"a folder of a tenant", "claims/tenant=acme/"},
		{"a folder of a day", "claims/tenant=acme/dt=2026-09-24/"},
		{"no tenant", "claims/tenant=/dt=2026-09-24/" + packID},
		{"another day than the pack's", "claims/tenant=acme/dt=2026-09-22/" + packID},
		{"a claim that is not the first", "claims/tenant=acme/dt=2026-09-24/" + claimID},
		{"an extension", "claims/tenant=acme/dt=2026-09-24/" + packID + ".zip"},
		{"a day twice", "claims/tenant=acme/dt=2026-09-24/dt=2026-09-24/" + packID},
		{"a folder more", "claims/tenant=acme/dt=2026-09-24/x/" + packID},
		{"lower case", "claims/tenant=acme/dt=2026-09-24/" + strings.ToLower(packID)},
		{"a year after 9999", "claims/tenant=acme/dt=10000-01-01/76EZ91ZQ000000000000000000"},
		{"a newline", "claims/tenant=acme/dt=2026-09-24/" + packID + "\n"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			if r, err := claimcheck.ParseKey(tt.key); !errors.Is(err, claimcheck.ErrInvalidRef) || r != (claimcheck.Ref{}) {
				t.Errorf("ParseKey(%q) = %v, %v", tt.key, r, err)
			}
		})
	}
}

func TestRefOrder(t *testing.T) {
	inOrder := []string{
		"urn:ankusa:claim:v1:a:7ZZZZZZZZZZZZZZZZZZZZZZZZZ", // by tenant first
		"urn:ankusa:claim:v1:b:00000000000000000000000000",
		"urn:ankusa:claim:v1:b:00000000000000000000000001",
		"urn:ankusa:claim:v1:b:0000000000000000000000Y000",
		"urn:ankusa:claim:v1:b:" + claimID,
		"urn:ankusa:claim:v2:b:" + claimID + ":9:" + signature, // by number, not by text
		"urn:ankusa:claim:v2:b:" + claimID + ":10:" + signature,
		"urn:ankusa:claim:v2:b:" + claimID + ":10:b" + signature[1:],
	}
	all := make([]claimcheck.Ref, 0, len(inOrder))
	for _, s := range inOrder {
		r, err := claimcheck.ParseRef(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	for i, a := range all {
		for j, b := range all {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := a.Compare(b); got != want || (a == b) != (want == 0) {
				t.Errorf("%v Compare %v = %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestRefInALog(t *testing.T) {
	r, err := claimcheck.ParseRef(signedRef)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	slog.New(slog.NewTextHandler(&b, nil)).Info("redeemed", "claim", r)
	if strings.Contains(b.String(), signature) || !strings.Contains(b.String(), claimID) {
		t.Errorf("logged as %s", &b)
	}
}
