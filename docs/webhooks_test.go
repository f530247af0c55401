package docs_test

import (
	"net/http"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/webhook"
)

func receiver(mux *http.ServeMux, pub message.Publisher, secret string) error {
	rcv, err := webhook.NewReceiver(webhook.ReceiverConfig{
		Publisher: pub,
		Topic:     "hooks",
		Request: webhook.RequestOptions{
			Source: "github",
			Tenant: "acme",
			Verify: webhook.GitHub(secret),
		},
	})
	if err != nil {
		return err
	}
	mux.Handle("/hooks/github", rcv)
	return nil
}

func server(mux *http.ServeMux) *http.Server {
	srv := &http.Server{
		Addr:              ":8080",
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	return srv
}

func delivery(r *http.Request, secret string) (*envelope.Envelope, error) {
	e, err := webhook.FromDelivery(r, webhook.DeliveryOptions{
		Verify: webhook.StandardWebhooks(secret),
	})
	return e, err
}
