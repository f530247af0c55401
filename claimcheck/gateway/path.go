package gateway

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
)

const (
	healthPath   = "/health"
	claimsPrefix = "/v1/claims/"
)

// parsePath returns the claim at an escaped path, or what is wrong with it. Nothing is
// decoded or cleaned: what is not literally the path of a claim leads nowhere.
func parsePath(path string) (claimcheck.Ref, Code) {
	rest, ok := strings.CutPrefix(path, claimsPrefix)
	tenant, claimID, two := strings.Cut(rest, "/")
	if !ok || !two || tenant == "" || claimID == "" || strings.Contains(claimID, "/") {
		return claimcheck.Ref{}, CodeNotFound
	}
	ref, err := claimcheck.NewRef(tenant, claimID)
	switch {
	case errors.Is(err, claimcheck.ErrInvalidTenant):
		return claimcheck.Ref{}, CodeInvalidTenant
	case err != nil:
		return claimcheck.Ref{}, CodeInvalidID
	}
	return ref, ""
}

// A Signature is what a signed reference carries, which only the gateway that made it can
// check. It is well-formed, and not checked otherwise.
type Signature struct {
	Tenant  string
	ClaimID string
	Expires string // Unix seconds, 1 to 12 digits of which the first is not 0, as they are signed
	Value   string // 43 characters of A-Z a-z 0-9 _ and -
}

// parseQuery returns the signature in a query, and whether there is one at all, good or bad.
// A query that cannot be read may hide one.
func parseQuery(ref claimcheck.Ref, query string) (s Signature, expires time.Time, signed, ok bool) {
	if query == "" {
		return s, expires, false, true
	}
	q, err := url.ParseQuery(query)
	exp, sig := q["exp"], q["sig"]
	if err == nil && exp == nil && sig == nil {
		return s, expires, false, true
	}
	if err != nil || len(exp) != 1 || len(sig) != 1 {
		return s, expires, true, false
	}
	s = Signature{Tenant: ref.Tenant(), ClaimID: ref.ClaimID(), Expires: exp[0], Value: sig[0]}
	// One grammar, kept in one place.
	r, err := claimcheck.ParseRef("urn:ankusa:claim:v2:" + s.Tenant + ":" + s.ClaimID + ":" + s.Expires + ":" + s.Value)
	if err != nil {
		return Signature{}, expires, true, false
	}
	return s, r.Expires(), true, true
}
