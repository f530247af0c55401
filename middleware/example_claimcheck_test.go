package middleware_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
	"github.com/watermill-envelope/envelope/marshaler"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// A body of 3 MiB goes through a transport that takes 1 MiB, and neither side notices. On Kafka
// or RabbitMQ pub is the transport's publisher, given to WrapPublisher with its marshaler, and
// the store is one that both processes reach.
func ExampleClaimCheck() {
	store := new(memstore.Store)
	cc, err := hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: store})
	if err != nil {
		panic(err)
	}
	log := watermill.NopLogger{}
	broker := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, log)
	sealing, err := marshaler.WrapPublisher(broker, marshaler.Options{Source: "scanner", Tenant: "acme"})
	if err != nil {
		panic(err)
	}
	pub, err := cc.WrapPublisher(sealing, nil)
	if err != nil {
		panic(err)
	}
	sub, err := marshaler.WrapSubscriber(broker, marshaler.Options{})
	if err != nil {
		panic(err)
	}

	router, err := message.NewRouter(message.RouterConfig{}, log)
	if err != nil {
		panic(err)
	}
	router.AddMiddleware(cc.Middleware, hookmw.Malformed{}.Middleware)
	handled := make(chan string)
	router.AddConsumerHandler("archive", "scans", sub, func(msg *message.Message) error {
		handled <- fmt.Sprintf("%s: %d bytes", msg.UUID, len(msg.Payload))
		return nil
	})
	go func() { _ = router.Run(context.Background()) }()
	<-router.Running()
	defer router.Close()

	scan := message.NewMessage("scan-1", make([]byte, 3<<20))
	if err := pub.Publish("scans", scan, message.NewMessage("scan-2", []byte("a small one"))); err != nil {
		panic(err)
	}
	fmt.Println(<-handled)
	fmt.Println(<-handled)
	objects := 0
	for _, err := range store.List(context.Background(), "claims/tenant=acme/") {
		if err != nil {
			panic(err)
		}
		objects++
	}
	fmt.Println(objects, "object in the store")
	// Unordered output:
	// scan-1: 3145728 bytes
	// scan-2: 11 bytes
	// 1 object in the store
}

// A handler of a lazy claim check reads its body as a stream, wherever it is.
func ExampleClaimCheck_OpenBody() {
	cc, err := hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: new(memstore.Store), Lazy: true})
	if err != nil {
		panic(err)
	}
	handler := func(msg *message.Message) ([]*message.Message, error) {
		body, err := cc.OpenBody(msg)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		digest := sha256.New()
		if _, err := io.Copy(digest, body); err != nil {
			return nil, err // also when the body turns out to be another one
		}
		fmt.Printf("%x\n", digest.Sum(nil)[:4])
		return nil, nil
	}
	// PassClaims, since the payload of a claim stays empty.
	handler = cc.Middleware(hookmw.Malformed{PassClaims: true}.Middleware(handler))
	if _, err := handler(message.NewMessage("scan-1", []byte("an inline body"))); err != nil {
		panic(err)
	}
	// Output:
	// 55200e4d
}

// What went wrong, with which message, and whether trying again can help.
func ExampleMessageError() {
	cc, err := hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: new(memstore.Store)})
	if err != nil {
		panic(err)
	}
	// The object is not in the store: retention has removed it.
	e := envelope.Envelope{
		ID: "scan-1", SourceID: "scanner", TenantID: "acme", Size: 3 << 20, SHA256: strings.Repeat("0", 64),
		Claim: "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002",
	}
	_, err = cc.Middleware(message.PassthroughHandler)(e.Message())

	var failed *hookmw.MessageError
	if errors.As(err, &failed) {
		fmt.Println(failed.ID, failed.Claim)
	}
	fmt.Println(errors.Is(err, claimcheck.ErrNotFound), envelope.IsPermanent(err))
	// Output:
	// scan-1 urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002
	// true true
}
