package claimcheck_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/gateway"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
)

// A consumer that has no access to the store redeems through a gateway.
func ExampleClient() {
	store := &memstore.Store{}
	checker, err := claimcheck.New(claimcheck.Config{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	claim := checker.CheckIn(context.Background(), []claimcheck.Body{{Tenant: "acme", Data: []byte("Hello, World!")}})[0]

	tokens, err := gateway.NewBearerTokens([]gateway.BearerToken{{Token: "xUwBl8O0ZP2J-dMkSfx0MQ", Tenants: []string{"acme"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := gateway.New(gateway.Config{Store: store, Authorize: tokens.Authorize})
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := httptest.NewServer(g) // in a service: g.Server(addr)
	defer srv.Close()

	for _, token := range []string{"xUwBl8O0ZP2J-dMkSfx0MQ", "another"} {
		client, err := claimcheck.NewClient(claimcheck.ClientConfig{
			BaseURL: srv.URL,
			Header:  http.Header{"Authorization": {"Bearer " + token}},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		body, err := client.Redeem(context.Background(), claim.Ref.String(), claim.SHA256, claim.Size)
		var rejected *claimcheck.RejectedError
		if errors.As(err, &rejected) {
			fmt.Println(rejected.Status, rejected.Body, envelope.IsPermanent(err))
			continue
		}
		fmt.Println(string(body), err)
	}
	// Output:
	// Hello, World! <nil>
	// 401 map[error:unauthorized] true
}
