package storetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/watermill-envelope/envelope/claimcheck"
)

var packCases = []Case{
	rule("pack-bodies", "What a Checker has checked in can be redeemed and opened, an empty body too", packBodies),
	rule("pack-65000", "A pack of 65,000 claims can be redeemed from anywhere in it", pack65000),
	rule("pack-short", "A claim of an object that ends too early is not found, wherever the object ends", packShort),
	rule("pack-index", "A claim past the end of its pack's index is not found", packIndex),
	rule("pack-size", "A claim of another size or digest than the message's is an integrity error", packSize),
	rule("pack-damaged", "One bit that flipped in a body is an integrity error", packDamaged),
}

func (c *check) checker(s claimcheck.Store) *claimcheck.Checker {
	checker, err := claimcheck.New(claimcheck.Config{Store: s, PackMaxBytes: 1 << 30})
	if err != nil {
		c.Fatalf("claimcheck.New: %v", err)
	}
	return checker
}

func bodies(tenant string, sizes ...int) []claimcheck.Body {
	var list []claimcheck.Body
	for i, size := range sizes {
		list = append(list, claimcheck.Body{
			Tenant: tenant, ID: strconv.Itoa(i), ContentType: "text/plain", ReceivedAt: day, Data: pattern(byte(i), size),
		})
	}
	return list
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func packBodies(c *check) {
	s := c.store()
	checker := c.checker(s)
	list := slices.Concat(bodies("a", 0, 1, 70_000, 0, 2<<20), bodies("b", 500, 0))
	for i, claim := range checker.CheckIn(c.Ctx, list) {
		want := list[i].Data
		if claim.Err != nil {
			c.Errorf("check-in of body %d: %v", i, claim.Err)
			continue
		}
		c.redeems(checker, claim.Ref.String(), want)
		r, err := checker.Open(c.Ctx, claim.Ref.String(), digest(want), int64(len(want)))
		if err != nil {
			c.Errorf("Open of body %d: %v", i, err)
			continue
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			c.Errorf("Open of body %d: %s, %v", i, difference(got, want), err)
		}
		r.Close()
	}
}

func (c *check) redeems(checker *claimcheck.Checker, ref string, want []byte) {
	got, err := checker.Redeem(c.Ctx, ref, digest(want), int64(len(want)))
	if err != nil {
		c.Errorf("Redeem of %d bytes: %v", len(want), err)
	} else if !bytes.Equal(got, want) {
		c.Errorf("Redeem: %s", difference(got, want))
	}
}

func (c *check) redeemFails(checker *claimcheck.Checker, what, ref string, body []byte, want error) {
	_, err := checker.Redeem(c.Ctx, ref, digest(body), int64(len(body)))
	c.wantErr("Redeem of "+what, err, want, "")
}

func pack65000(c *check) {
	s := c.store()
	checker := c.checker(s)
	list := make([]claimcheck.Body, claimcheck.MaxPackClaims)
	for i := range list {
		list[i] = claimcheck.Body{Tenant: "a", ID: strconv.Itoa(i), Data: []byte("body " + strconv.Itoa(i))}
	}
	claims := checker.CheckIn(c.Ctx, list)
	for i, claim := range claims {
		if claim.Err != nil {
			c.Fatalf("check-in of body %d: %v", i, claim.Err)
		}
	}
	for _, i := range []int{0, 1, 2, 255, 256, 8191, 8192, 32_767, 32_768, 64_998, 64_999} {
		if claims[i].Ref.Key() != claims[0].Ref.Key() {
			c.Fatalf("body %d is in another pack", i)
		}
		c.redeems(checker, claims[i].Ref.String(), list[i].Data)
	}
}

// pack returns the claims of bodies of one tenant and the pack that they are in, which is in
// no store yet.
func (c *check) pack(list []claimcheck.Body) (claims []claimcheck.Claim, key string, object []byte) {
	first, err := claimcheck.NewPackRef(list[0].Tenant, day)
	if err != nil {
		c.Fatalf("NewPackRef: %v", err)
	}
	p, err := claimcheck.NewPack(first, list)
	if err != nil {
		c.Fatalf("NewPack: %v", err)
	}
	object, err = io.ReadAll(p.Object())
	if err != nil {
		c.Fatalf("the object of a pack: %v", err)
	}
	return p.Claims(), p.Key(), object
}

func packShort(c *check) {
	s := c.store()
	checker := c.checker(s)
	// The header of the index has 39 bytes, a row of it 8, the header of an entry 56. The last
	// body begins at 39+16 + 56+100 + 56.
	for _, size := range []int{0, 1, 38, 39, 46, 47, 54, 55, 200, 266, 267, 268, 100_000, 300_266} {
		list := bodies("short", 100, 300_000)
		claims, k, object := c.pack(list)
		c.put(s, k, object[:size])
		c.redeemFails(checker, sprintf("a body whose pack ends after %d bytes", size), claims[1].Ref.String(), list[1].Data, claimcheck.ErrNotFound)
	}
	// That it is whole when nothing is missing.
	list := bodies("short", 100, 300_000)
	claims, k, object := c.pack(list)
	c.put(s, k, object[:300_267])
	c.redeems(checker, claims[1].Ref.String(), list[1].Data)
}

func packIndex(c *check) {
	s := c.store()
	checker := c.checker(s)
	list := bodies("index", 10, 20, 30)
	claims, k, object := c.pack(list)
	c.put(s, k, object)
	first := claims[0].Ref.ClaimID()
	for _, i := range []int{3, 4, 1000, 64_999, math.MaxUint16} {
		ref, err := claimcheck.NewRef("index", atPosition(first, i))
		if err != nil {
			c.Fatalf("NewRef: %v", err)
		}
		c.redeemFails(checker, sprintf("claim %d of 3", i), ref.String(), nil, claimcheck.ErrNotFound)
	}
	for i, claim := range claims {
		c.redeems(checker, claim.Ref.String(), list[i].Data)
	}
}

// atPosition returns the id of the claim at a position of the pack whose id is packID: the
// last 16 of its 130 bits.
func atPosition(packID string, position int) string {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	s := []byte(packID)
	for i := len(s) - 1; i > len(s)-4; i-- {
		s[i] = digits[position&31]
		position >>= 5
	}
	// The fourth digit from the end has one bit of the position, its lowest.
	at := len(s) - 4
	s[at] = digits[bytes.IndexByte([]byte(digits), s[at])|position]
	return string(s)
}

func packSize(c *check) {
	s := c.store()
	checker := c.checker(s)
	list := bodies("size", 1000, 0)
	claims, k, object := c.pack(list)
	c.put(s, k, object)
	for i, claim := range claims {
		body := list[i].Data
		for _, size := range []int64{int64(len(body)) - 1, int64(len(body)) + 1, 70_000} {
			if size < 0 {
				continue // would mean that it is not known
			}
			_, err := checker.Redeem(c.Ctx, claim.Ref.String(), digest(body), size)
			c.wantErr(sprintf("Redeem of %d bytes as %d", len(body), size), err, claimcheck.ErrIntegrity, "")
		}
		_, err := checker.Redeem(c.Ctx, claim.Ref.String(), digest([]byte("other")), int64(len(body)))
		c.wantErr("Redeem with another digest", err, claimcheck.ErrIntegrity, "")
		c.redeems(checker, claim.Ref.String(), body)
	}
}

func packDamaged(c *check) {
	s := c.store()
	checker := c.checker(s)
	list := bodies("damaged", 100_000)
	claims, k, object := c.pack(list)
	c.put(s, k, object)
	c.redeems(checker, claims[0].Ref.String(), list[0].Data)
	for _, at := range []int{0, 50_000, 99_999} {
		claims, k, object := c.pack(list)
		object[bytes.Index(object, list[0].Data)+at] ^= 0x10
		c.put(s, k, object)
		c.redeemFails(checker, sprintf("a body whose byte %d is damaged", at), claims[0].Ref.String(), list[0].Data, claimcheck.ErrIntegrity)
	}
}
