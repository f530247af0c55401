package docs_test

import (
	"io"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/claimcheck/s3store"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func largeBodies(brokers []string, store claimcheck.Store, router *message.Router, sub message.Subscriber, handle message.HandlerFunc, logger watermill.LoggerAdapter) error {
	m := kafkawire.Marshaler{Source: "orders"}
	pub, err := kafka.NewPublisher(kafka.PublisherConfig{Brokers: brokers, Marshaler: m}, logger)
	if err != nil {
		return err
	}
	cc, err := hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: store})
	if err != nil {
		return err
	}
	large, err := cc.WrapPublisher(pub, m)
	if err != nil {
		return err
	}
	router.AddMiddleware(cc.Middleware, hookmw.Malformed{}.Middleware)
	router.AddHandler("invoices", "orders", sub, "invoices", large, handle)
	return nil
}

func largeBodiesInAFolder() (claimcheck.Store, error) {
	store, err := filestore.New("/srv/claims")
	return store, err
}

func largeBodiesInABucket(client *s3.Client) (claimcheck.Store, error) {
	store, err := s3store.New(s3store.Config{Client: client, Bucket: "claims"})
	return store, err
}

func largeBodiesStack(router *message.Router, poison message.HandlerMiddleware, cc *hookmw.ClaimCheck) {
	router.AddMiddleware(
		poison,
		wmmw.Retry{MaxRetries: 5, InitialInterval: time.Second, ShouldRetry: hookmw.ShouldRetry}.Middleware,
		wmmw.Recoverer,
		cc.Middleware,
		hookmw.Malformed{}.Middleware,
	)
}

func largeBodiesLazily(cc *hookmw.ClaimCheck, archive io.Writer) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		body, err := cc.OpenBody(msg)
		if err != nil {
			return err
		}
		defer body.Close()
		_, err = io.Copy(archive, body)
		return err
	}
}
