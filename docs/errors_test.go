package docs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func deadLetters(router *message.Router, pub message.Publisher) error {
	poison, err := wmmw.PoisonQueueWithFilter(pub, "hooks.poison", hookmw.ShouldPoison)
	if err != nil {
		return err
	}
	router.AddMiddleware(
		poison,
		wmmw.Retry{
			MaxRetries:      5,
			InitialInterval: time.Second,
			ShouldRetry:     hookmw.ShouldRetry,
		}.Middleware,
		wmmw.Recoverer,
		hookmw.Malformed{}.Middleware,
	)
	return nil
}

func quarantine(router *message.Router, pub message.Publisher) error {
	gate := hookmw.Malformed{
		Quarantine:      pub,
		QuarantineTopic: "hooks.malformed",
		Logger:          slog.Default(),
	}
	if err := gate.Validate(); err != nil {
		return err
	}
	router.AddMiddleware(gate.Middleware)
	return nil
}

func cutDiagnostics(router *message.Router, brokers []string, log watermill.LoggerAdapter) error {
	m := kafkawire.Marshaler{Source: "orders"}
	pub, err := kafka.NewPublisher(kafka.PublisherConfig{Brokers: brokers, Marshaler: m}, log)
	if err != nil {
		return err
	}
	dead, err := hookmw.Diagnostics{}.WrapPublisher(pub, m)
	if err != nil {
		return err
	}
	poison, err := wmmw.PoisonQueueWithFilter(dead, "hooks.poison", hookmw.ShouldPoison)
	if err != nil {
		return err
	}
	router.AddMiddleware(poison)
	return nil
}

func redrive(router *message.Router, poisonSub message.Subscriber, pub message.Publisher) {
	router.AddHandler("redrive", "hooks.poison", poisonSub, "hooks", pub,
		func(msg *message.Message) ([]*message.Message, error) {
			return message.Messages{msg}, nil
		})
}

func classify(err error) error {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return envelope.Permanent(err)
	case errors.Is(err, context.DeadlineExceeded):
		return envelope.Transient(err)
	}
	return err
}

// A handler says by a mark whether trying again can help.
func Example_classes() {
	for _, err := range []error{sql.ErrNoRows, context.DeadlineExceeded, errors.New("out of stock")} {
		err = fmt.Errorf("invoice: %w", classify(err))
		fmt.Println(envelope.IsPermanent(err), envelope.IsTransient(err), err)
	}
	// Output:
	// true false invoice: sql: no rows in result set
	// false true invoice: context deadline exceeded
	// false false invoice: out of stock
}
