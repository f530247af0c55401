package peers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/gateway"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
	"github.com/watermill-envelope/envelope/integration/peers"
)

const (
	acmeToken   = "acme-token-0123456789"
	globexToken = "globex-token-0123456789"
)

// ourGateway serves a store to whoever has a token.
func ourGateway(t *testing.T, store claimcheck.Store, verify func(gateway.Signature) error) string {
	t.Helper()
	tokens, err := gateway.NewBearerTokens([]gateway.BearerToken{
		{Token: acmeToken, Tenants: []string{"acme"}}, {Token: globexToken, Tenants: []string{"globex"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{Store: store, Authorize: tokens.Authorize, VerifySignature: verify})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	return server.URL
}

// checkIn checks bodies in, in one call.
func checkIn(t *testing.T, store claimcheck.Store, bodies []claimcheck.Body) []claimcheck.Claim {
	t.Helper()
	checker, err := claimcheck.New(claimcheck.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	claims := checker.CheckIn(t.Context(), bodies)
	for _, c := range claims {
		if c.Err != nil {
			t.Fatal(c.Err)
		}
	}
	return claims
}

// readers are the two SDKs and ours, redeeming with a token. Each returns its verdict, which
// is accept for the body that is wanted.
func readers(t *testing.T) map[string]func(t *testing.T, base, token string, c claimcheck.Claim, ref string, want []byte) string {
	t.Helper()
	all := map[string]func(t *testing.T, base, token string, c claimcheck.Claim, ref string, want []byte) string{
		"Client": func(t *testing.T, base, token string, c claimcheck.Claim, ref string, want []byte) string {
			t.Helper()
			config := claimcheck.ClientConfig{BaseURL: base, Timeout: time.Minute}
			if token != "" {
				config.Header = http.Header{"Authorization": {"Bearer " + token}}
			}
			client, err := claimcheck.NewClient(config)
			if err != nil {
				t.Fatal(err)
			}
			body, err := client.Redeem(t.Context(), ref, c.SHA256, c.Size)
			if err != nil {
				return verdict(t, body, err)
			}
			if !bytes.Equal(body, want) {
				t.Errorf("redeemed %d other bytes", len(body))
			}
			return accept
		},
	}
	for _, p := range []*peers.Peer{peers.Python(t), peers.Rust(t)} {
		all[string(p.SDK)] = func(t *testing.T, base, token string, c claimcheck.Claim, ref string, want []byte) string {
			t.Helper()
			claim := peers.Claim{BaseURL: base, Timeout: time.Minute, Ref: ref, SHA256: c.SHA256}
			if token != "" {
				claim.Headers = map[string]string{"Authorization": "Bearer " + token}
			}
			got, _ := theirVerdict(t, p, claim, string(want))
			return got
		}
	}
	return all
}

// What we check in, both SDKs redeem through our gateway.
func TestSDKsRedeemThroughOurGateway(t *testing.T) {
	readers := readers(t)
	for name, bodies := range packs() {
		t.Run(name, func(t *testing.T) {
			var store memstore.Store
			base := ourGateway(t, &store, nil)
			claims := checkIn(t, &store, bodies)
			for reader, redeem := range readers {
				for i, c := range claims {
					if got := redeem(t, base, acmeToken, c, c.Ref.String(), bodies[i].Data); got != accept {
						t.Errorf("%s: claim %d of %d bytes: %s", reader, i, c.Size, got)
					}
				}
			}
		})
	}
}

// What our gateway refuses has one verdict with all readers, and so has what it cannot do.
func TestOurGatewaysRefusals(t *testing.T) {
	const newer = "invalid_ref" // what Python 0.5.0 says of a signed reference
	readers := readers(t)
	hour := fmt.Sprint(time.Now().Add(time.Hour).Unix())
	signature := signedRef[len(signedRef)-43:]
	for _, r := range []struct {
		name   string
		store  func(claimcheck.Store) claimcheck.Store
		token  string
		ref    func(claimcheck.Ref) string // nil: the claim's own
		digest string                      // empty: the claim's own
		verify func(gateway.Signature) error
		want   string
		python string // where it differs
	}{
		{name: "no token", want: "rejected 401"},
		{name: "a token of nobody", token: "nobody-token-0123456789", want: "rejected 401"},
		{name: "another tenant's token", token: globexToken, want: "rejected 403"},
		{name: "no such pack", token: acmeToken, ref: func(claimcheck.Ref) string { return claimRef }, want: "not_found"},
		{name: "past the end of the pack", token: acmeToken, ref: func(r claimcheck.Ref) string {
			return "urn:ankusa:claim:v1:acme:" + r.ClaimID()[:25] + "9"
		}, want: "not_found"},
		{name: "another digest", token: acmeToken, digest: helloSHA256, want: "integrity"},

		{name: "signed, and nobody verifies", token: acmeToken, ref: func(r claimcheck.Ref) string {
			return "urn:ankusa:claim:v2:acme:" + r.ClaimID() + ":" + hour + ":" + signature
		}, want: "rejected 400", python: newer},
		{name: "signed and genuine", token: acmeToken, ref: func(r claimcheck.Ref) string {
			return "urn:ankusa:claim:v2:acme:" + r.ClaimID() + ":" + hour + ":" + signature
		}, verify: func(s gateway.Signature) error {
			if s.Tenant != "acme" || s.Expires != hour || s.Value != signature {
				return errors.New("another signature")
			}
			return nil
		}, want: accept, python: newer},
		{name: "signed and forged", token: acmeToken, ref: func(r claimcheck.Ref) string {
			return "urn:ankusa:claim:v2:acme:" + r.ClaimID() + ":" + hour + ":" + signature
		}, verify: func(gateway.Signature) error { return errors.New("forged") }, want: "rejected 400", python: newer},
		{name: "signed and expired", token: acmeToken, ref: func(r claimcheck.Ref) string {
			return "urn:ankusa:claim:v2:acme:" + r.ClaimID() + ":1:" + signature
		}, verify: func(gateway.Signature) error { return nil }, want: "rejected 410", python: newer},

		{name: "the store is down", token: acmeToken, store: broken(claimcheck.CodeUnavailable, 0), want: "unavailable"},
		{name: "the store refuses the gateway", token: acmeToken, store: broken(claimcheck.CodeForbidden, 0), want: "unavailable"},
		{name: "the object was removed", token: acmeToken, store: broken(claimcheck.CodeNotFound, 0), want: "not_found"},
		{name: "the store breaks within the body", token: acmeToken, store: broken(claimcheck.CodeUnavailable, 1<<20), want: "unavailable"},
	} {
		t.Run(r.name, func(t *testing.T) {
			var mem memstore.Store
			body := bytes.Repeat(allBytes(), 12_288) // 3 MiB
			claim := checkIn(t, &mem, []claimcheck.Body{{Tenant: "acme", ID: "h", Data: body}})[0]
			var store claimcheck.Store = &mem
			if r.store != nil {
				store = r.store(store)
			}
			base := ourGateway(t, store, r.verify)
			ref := claim.Ref.String()
			if r.ref != nil {
				ref = r.ref(claim.Ref)
			}
			if r.digest != "" {
				claim.SHA256 = r.digest
			}
			for name, redeem := range readers {
				want := r.want
				if name == string(peers.Python050) && r.python != "" {
					want = r.python
				}
				if got := redeem(t, base, r.token, claim, ref, body); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
		})
	}
}

// broken returns a store that fails with a code once it has given this many bytes of a body.
func broken(code claimcheck.Code, after int64) func(claimcheck.Store) claimcheck.Store {
	return func(s claimcheck.Store) claimcheck.Store { return &brokenStore{s, code, after} }
}

type brokenStore struct {
	claimcheck.Store
	code  claimcheck.Code
	after int64
}

func (s *brokenStore) err(key string) error {
	return &claimcheck.Error{Code: s.code, Op: "get", Key: key, Err: errors.New("broken on purpose")}
}

func (s *brokenStore) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if s.after == 0 {
		return nil, s.err(key)
	}
	r, err := s.Store.Get(ctx, key, off, n)
	if err != nil {
		return nil, err
	}
	return &brokenReader{r, s.after, s.err(key)}, nil
}

type brokenReader struct {
	io.ReadCloser
	left int64
	err  error
}

func (r *brokenReader) Read(b []byte) (int, error) {
	if r.left <= 0 {
		return 0, r.err
	}
	n, err := r.ReadCloser.Read(b[:min(int64(len(b)), r.left)])
	r.left -= int64(n)
	return n, err
}
