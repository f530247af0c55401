package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/gateway"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
)

// The path of a body is its reference's.
func ExampleGateway() {
	store := &memstore.Store{}
	checker, err := claimcheck.New(claimcheck.Config{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	claim := checker.CheckIn(context.Background(), []claimcheck.Body{{Tenant: "acme", Data: []byte("Hello, World!")}})[0]

	g, err := gateway.New(gateway.Config{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := httptest.NewServer(g) // in a service: g.Server("127.0.0.1:4001").ListenAndServe()
	defer srv.Close()

	for _, path := range []string{claim.Ref.Path(), "/v1/claims/a.b/" + claim.Ref.ClaimID()} {
		resp, err := srv.Client().Get(srv.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, string(body), err)
	}
	// Output:
	// 200 Hello, World! <nil>
	// 400 {"error":"invalid_tenant"} <nil>
}

// Signatures are checked by a function of yours.
func ExampleConfig_verifySignature() {
	g, err := gateway.New(gateway.Config{
		Store: &memstore.Store{},
		VerifySignature: func(s gateway.Signature) error {
			return gateway.ErrForbidden // none is genuine
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/v1/claims/acme/01M39VMD8RA3C5HR4RBV67Y000?exp=1999999999&sig=zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", nil)
	g.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)
	// Output:
	// 400 {"error":"bad_signature"}
}
