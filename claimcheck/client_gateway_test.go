package claimcheck_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/gateway"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
)

// failingStore fails half way through every body.
type failingStore struct{ claimcheck.Store }

func (s failingStore) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, err := s.Store.Get(ctx, key, off, n)
	if off > 0 && err == nil {
		r = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(r, n/2), brokenReader{}), r}
	}
	return r, err
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// What is checked in is redeemed through a gateway as it is from the store, and fails the same
// way.
func TestClientThroughGateway(t *testing.T) {
	store := &memstore.Store{}
	checker, err := claimcheck.New(claimcheck.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := gateway.NewBearerTokens([]gateway.BearerToken{
		{Token: "t0ken-of-acme-0123456789", Tenants: []string{"acme"}},
		{Token: "t0ken-of-other-123456789", Tenants: []string{"other"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	serve := func(s claimcheck.Store) string {
		g, err := gateway.New(gateway.Config{
			Store: s, Authorize: tokens.Authorize,
			VerifySignature: func(sig gateway.Signature) error {
				if sig.Value != clientSig {
					return gateway.ErrUnauthorized
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewUnstartedServer(nil)
		srv.Config = g.Server("")
		srv.Start()
		t.Cleanup(srv.Close)
		return srv.URL
	}
	as := func(token string) func(*claimcheck.ClientConfig) {
		return func(c *claimcheck.ClientConfig) { c.Header = http.Header{"Authorization": {"Bearer " + token}} }
	}
	base := serve(store)
	acme := newClient(t, base, as("t0ken-of-acme-0123456789"))
	bodies := []string{"", "small", strings.Repeat("middle", 20_000), strings.Repeat("large", 1_000_000)}
	var in []claimcheck.Body
	for i, b := range bodies {
		in = append(in, claimcheck.Body{Tenant: "acme", ID: fmt.Sprint(i), Data: []byte(b)})
	}
	claims := checker.CheckIn(context.Background(), in)
	if err := acme.Health(context.Background()); err != nil {
		t.Error(err)
	}
	for i, c := range claims {
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		signed := strings.Replace(c.Ref.String(), ":v1:", ":v2:", 1)
		for _, open := range []bool{false, true} {
			for _, ref := range []string{c.Ref.String(), signed + ":1999999999:" + clientSig} {
				if got, err := fetch(acme, open, ref, c.SHA256, c.Size); got != bodies[i] || err != nil {
					t.Errorf("body %d: %d bytes, %v", i, len(got), err)
				}
			}
			for _, tt := range []struct {
				name string
				from *claimcheck.Client
				ref  string
				code claimcheck.Code
			}{
				{"no token", newClient(t, base, func(c *claimcheck.ClientConfig) { c.Header = nil }), c.Ref.String(), claimcheck.CodeRejected},
				{"token of another", newClient(t, base, as("t0ken-of-other-123456789")), c.Ref.String(), claimcheck.CodeRejected},
				{"forged", acme, signed + ":1999999999:" + strings.ToUpper(clientSig), claimcheck.CodeRejected},
				{"expired", acme, signed + ":1:" + clientSig, claimcheck.CodeRefExpired},
				{"unknown", acme, clientRef, claimcheck.CodeNotFound},
			} {
				_, err := fetch(tt.from, open, tt.ref, c.SHA256, c.Size)
				checkError(t, tt.name, err, tt.code)
			}
			if c.Size > 0 {
				_, err := fetch(newClient(t, serve(failingStore{store}), as("t0ken-of-acme-0123456789")), open, c.Ref.String(), c.SHA256, c.Size)
				checkError(t, "store fails", err, claimcheck.CodeUnavailable)
			}
		}
	}
}
