package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// What an Authorize function answers, as such or wrapped.
var (
	// ErrUnauthorized: nobody knows who asks. The answer is 401 unauthorized.
	ErrUnauthorized = errors.New("gateway: no valid credentials")
	// ErrForbidden: whoever asks may not read this tenant's bodies. The answer is 403
	// forbidden_tenant.
	ErrForbidden = errors.New("gateway: not a tenant of these credentials")
)

// AllTenants stands for all of them, as the only tenant of a [BearerToken].
const AllTenants = "*"

// minToken is the length of the shortest token, in bytes: 128 bits in base64 have 22.
const minToken = 16

// A BearerToken is a secret that opens the bodies of some tenants to whoever sends it
// (RFC 6750, in an Authorization header only).
type BearerToken struct {
	// Token is the secret, at least 16 characters of A-Z a-z 0-9 - . _ ~ + / and = at its
	// end. Make it from at least 16 random bytes: it is compared, not slowed down.
	Token string
	// Tenants may be read with it: names, or [AllTenants] alone.
	Tenants []string
}

// BearerTokens is a set of tokens. Its method Authorize is for [Config.Authorize]. It does
// not change: to take a token out of use, make a new set and a new Gateway with it. It keeps
// digests of the tokens and not the tokens, and prints their number.
type BearerTokens struct {
	tokens []scope
}

type scope struct {
	digest  [sha256.Size]byte
	tenants []string // nil for all
}

// NewBearerTokens returns the set of tokens, or everything that is wrong with them. Errors
// name a token by its place in the list.
func NewBearerTokens(tokens []BearerToken) (*BearerTokens, error) {
	var errs []error
	if len(tokens) == 0 {
		errs = append(errs, errors.New("gateway: no tokens"))
	}
	set := &BearerTokens{tokens: make([]scope, 0, len(tokens))}
	for i, t := range tokens {
		bad := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("gateway: token %d "+format, append([]any{i}, args...)...))
		}
		s := scope{digest: sha256.Sum256([]byte(t.Token))}
		if len(t.Token) < minToken {
			bad("is shorter than %d characters", minToken)
		} else if !isToken68(t.Token) {
			bad("has characters that no bearer token has")
		}
		if j := slices.IndexFunc(set.tokens, func(o scope) bool { return o.digest == s.digest }); j >= 0 {
			bad("is the same as token %d", j)
		}
		switch {
		case len(t.Tenants) == 0:
			bad("has no tenants")
		case len(t.Tenants) == 1 && t.Tenants[0] == AllTenants:
		default:
			s.tenants = slices.Clone(t.Tenants)
			for _, tenant := range t.Tenants {
				if !claimcheck.ValidTenant(tenant) {
					bad("has a tenant %.80q that can be none", tenant)
				}
			}
		}
		set.tokens = append(set.tokens, s)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return set, nil
}

// Authorize returns nil when r has a token of the tenant, [ErrForbidden] when it has one of
// others only, and else [ErrUnauthorized]. How long it takes tells nothing about the tokens:
// it compares digests, in constant time, with all of them.
func (b *BearerTokens) Authorize(r *http.Request, tenant string) error {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return ErrUnauthorized
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ErrUnauthorized
	}
	digest := sha256.Sum256([]byte(strings.Trim(token, " ")))
	var found *scope
	for i := range b.tokens {
		if subtle.ConstantTimeCompare(digest[:], b.tokens[i].digest[:]) == 1 {
			found = &b.tokens[i]
		}
	}
	switch {
	case found == nil:
		return ErrUnauthorized
	case found.tenants != nil && !slices.Contains(found.tenants, tenant):
		return ErrForbidden
	}
	return nil
}

// String says how many tokens there are.
func (b *BearerTokens) String() string {
	return fmt.Sprintf("gateway.BearerTokens(%d tokens)", len(b.tokens))
}

// Format implements fmt.Formatter: no verb shows more than String.
func (b *BearerTokens) Format(f fmt.State, _ rune) { io.WriteString(f, b.String()) }

// String shows the tenants and not the token.
func (t BearerToken) String() string {
	return "gateway.BearerToken(<token> for " + strings.Join(t.Tenants, ",") + ")"
}

// Format implements fmt.Formatter: no verb shows more than String.
func (t BearerToken) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

// LogValue implements [slog.LogValuer].
func (t BearerToken) LogValue() slog.Value { return slog.StringValue(t.String()) }

// isToken68 reports whether s has the form that RFC 6750 gives a token.
func isToken68(s string) bool {
	s = strings.TrimRight(s, "=")
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("-._~+/", rune(c)) {
			return false
		}
	}
	return s != ""
}
