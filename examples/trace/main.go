// Command trace follows a webhook through two transports with OpenTelemetry: HTTP, Kafka, and a
// GoChannel, each time in the envelope. Everything runs in this process; the spans go to a
// collector in it, which prints them as a tree in the end.
//
//	go run ./trace
//	go run ./trace -parent
//
// The order is refused at the first attempt, so that there are two.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/examples/internal/tracetree"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
	"github.com/watermill-envelope/envelope/webhook"
)

func main() {
	parent := flag.Bool("parent", false, "make one trace of it all, instead of one for each consumer")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *parent); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run sends one webhook and writes the tree of what came of it.
func run(ctx context.Context, out io.Writer, parent bool) (err error) {
	spans := new(tracetree.Collector)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	defer func() { err = errors.Join(err, provider.Shutdown(ctx)) }()
	otel.SetTracerProvider(provider) // which every Trace takes, unless told otherwise

	if err := follow(ctx, hookmw.Trace{Parent: parent}); err != nil {
		return err
	}
	return spans.Write(out)
}

// follow returns once the webhook has gone all the way, and nothing runs any more.
func follow(ctx context.Context, tracing hookmw.Trace) (err error) {
	log := watermill.NewSlogLogger(slog.New(slog.DiscardHandler))
	onKafka, onChannel := tracing, tracing
	onKafka.System, onChannel.System = "kafka", "gochannel"

	pub, sub, stop, err := openKafka(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	pub = onKafka.WrapPublisher(pub)

	channel := gochannel.NewGoChannel(gochannel.Config{}, log)
	shipped, err := marshaler.WrapPublisher(channel, marshaler.Options{Source: "shop"})
	if err != nil {
		return err
	}
	fromChannel, err := marshaler.WrapSubscriber(channel, marshaler.Options{})
	if err != nil {
		return err
	}

	router, err := message.NewRouter(message.RouterConfig{}, log)
	if err != nil {
		return err
	}
	router.AddMiddleware(
		wmmw.Retry{MaxRetries: 1, InitialInterval: time.Millisecond, ShouldRetry: hookmw.ShouldRetry}.Middleware,
		wmmw.Recoverer,
	)
	attempts := 0
	router.AddHandler("ship", "orders", sub, "shipped", onChannel.WrapPublisher(shipped), func(msg *message.Message) ([]*message.Message, error) {
		if attempts++; attempts == 1 {
			return nil, errors.New("the warehouse is closed")
		}
		return []*message.Message{envelope.Derive(msg, "parcel", []byte(`{"parcel":"P-1"}`))}, nil
	}).AddMiddleware(onKafka.Middleware, hookmw.Malformed{}.Middleware)
	arrived := make(chan struct{}, 1)
	router.AddConsumerHandler("notify", "shipped", fromChannel, func(*message.Message) error {
		arrived <- struct{}{}
		return nil
	}).AddMiddleware(onChannel.Middleware, hookmw.Malformed{}.Middleware)

	done := make(chan error, 1)
	go func() { done <- router.Run(ctx) }()
	// Messages under way are handled first: their spans have ended then.
	defer func() { err = errors.Join(err, router.Close(), <-done) }()
	<-router.Running()

	if err := receive(ctx, pub); err != nil {
		return err
	}
	select {
	case <-arrived:
		return nil
	case <-time.After(time.Minute):
		return errors.New("the order is lost")
	}
}

// receive takes a webhook that a provider sends.
func receive(ctx context.Context, pub message.Publisher) error {
	receiver, err := webhook.NewReceiver(webhook.ReceiverConfig{
		Publisher: pub, Topic: "orders", Request: webhook.RequestOptions{Source: "shop", Tenant: "acme"},
	})
	if err != nil {
		return err
	}
	server := httptest.NewServer(traced(receiver))
	defer server.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/hooks", strings.NewReader(`{"order":"A-1"}`))
	if err != nil {
		return err
	}
	answer, err := server.Client().Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		return fmt.Errorf("the webhook was answered %s", answer.Status)
	}
	return nil
}

// traced gives each request a span, as otelhttp does with more of it.
func traced(h http.Handler) http.Handler {
	tracer := otel.Tracer("example")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := tracer.Start(r.Context(), "webhook "+r.Method+" "+r.URL.Path, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// openKafka starts a Kafka inside this process and connects to it.
func openKafka(log watermill.LoggerAdapter) (message.Publisher, message.Subscriber, func() error, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		return nil, nil, nil, err
	}
	wire := kafkawire.Marshaler{}
	pub, err := kafka.NewPublisher(kafka.PublisherConfig{Brokers: cluster.ListenAddrs(), Marshaler: wire}, log)
	if err != nil {
		cluster.Close()
		return nil, nil, nil, err
	}
	config := kafka.DefaultSaramaSubscriberConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	sub, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: cluster.ListenAddrs(), Unmarshaler: wire, ConsumerGroup: "shop", OverwriteSaramaConfig: config,
	}, log)
	if err != nil {
		err = errors.Join(err, pub.Close())
		cluster.Close()
		return nil, nil, nil, err
	}
	return pub, sub, func() error {
		defer cluster.Close()
		return errors.Join(pub.Close(), sub.Close())
	}, nil
}
