// Command http posts two orders to its own server and handles them, until an interrupt or
// SIGTERM. The second one is too large for a message: its body lies in a folder meanwhile. A
// post is answered when its order is handled: who sent it sees what fails, and no queue does.
//
//	go run ./http -listen localhost:8080
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	nethttp "net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-http/v2/pkg/http"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/go-chi/chi"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/marshaler"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func main() {
	listen := flag.String("listen", "localhost:8080", "`address` to take orders on")
	folder := flag.String("store", "claims", "`folder` for large bodies")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	logger := watermill.NewSlogLogger(slog.Default())

	posts := must(http.NewPublisher(http.PublisherConfig{MarshalMessageFunc: http.DefaultMarshalMessageFunc}, logger))
	mux := chi.NewRouter()
	requests := must(http.NewSubscriber("", http.SubscriberConfig{Router: mux}, logger))
	pub := must(marshaler.WrapPublisher(posts, marshaler.Options{Source: "shop"}))
	sub := must(marshaler.WrapSubscriber(requests, marshaler.Options{}))

	bodies := must(hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: must(filestore.New(*folder))}))
	chain := must(hookmw.NewChain(hookmw.ChainConfig{ClaimCheck: bodies, Logger: slog.Default()}))
	chained := must(chain.WrapPublisher(pub, nil))
	retry := wmmw.Retry{MaxRetries: 5, InitialInterval: time.Second, ShouldRetry: hookmw.ShouldRetry}
	router := must(message.NewRouter(message.RouterConfig{}, logger))
	router.AddMiddleware(retry.Middleware, wmmw.Recoverer, chain.Middleware)
	router.AddConsumerHandler("billing", "/orders", sub, func(msg *message.Message) error {
		fmt.Println("order", msg.UUID, "of", msg.Metadata.Get(envelope.MetadataSourceID), "has", len(msg.Payload), "bytes")
		return nil
	})
	go func() { defer stop(); check(router.Run(context.Background())) }()
	<-router.Running()
	server := nethttp.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	listener := must(net.Listen("tcp", *listen))
	go func() { _ = server.Serve(listener) }()

	orders := "http://" + listener.Addr().String() + "/orders"
	check(chained.Publish(orders, message.NewMessage(envelope.NewID(), []byte(`{"item":"A-1"}`))))
	check(chained.Publish(orders, message.NewMessage(envelope.NewID(), make([]byte, 3<<20))))
	<-ctx.Done()
	check(server.Shutdown(context.Background())) // posts under way are answered first
	check(errors.Join(router.Close(), pub.Close()))
	fmt.Println("stopped")
}

func must[T any](value T, err error) T { check(err); return value }

func check(err error) {
	if err != nil {
		slog.Error("stopped", "error", err)
		os.Exit(1)
	}
}
