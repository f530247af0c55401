package docs_test

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/gateway"
)

func claimGateway(store claimcheck.Store, acmeToken, auditToken string) error {
	tokens, err := gateway.NewBearerTokens([]gateway.BearerToken{
		{Token: acmeToken, Tenants: []string{"acme"}},
		{Token: auditToken, Tenants: []string{gateway.AllTenants}},
	})
	if err != nil {
		return err
	}
	g, err := gateway.New(gateway.Config{
		Store:     store,
		Authorize: tokens.Authorize,
		Logger:    slog.Default(),
	})
	if err != nil {
		return err
	}
	return g.Server("127.0.0.1:4001").ListenAndServe()
}

func redeemThroughGateway(ctx context.Context, e *envelope.Envelope, token string) ([]byte, error) {
	client, err := claimcheck.NewClient(claimcheck.ClientConfig{
		BaseURL: "https://claims.example.com",
		Header:  http.Header{"Authorization": {"Bearer " + token}},
	})
	if err != nil {
		return nil, err
	}
	return client.Redeem(ctx, e.Claim, e.SHA256, e.Size)
}
