package middleware_test

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope/marshaler"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// The stack to use, around a handler that knows nothing of envelopes. Here both topics are
// in memory; on Kafka and RabbitMQ only the publisher and the subscriber are others.
func Example() {
	log := watermill.NopLogger{}
	broker := gochannel.NewGoChannel(gochannel.Config{}, log)
	pub, err := marshaler.WrapPublisher(broker, marshaler.Options{Source: "shop"})
	if err != nil {
		panic(err)
	}
	sub, err := marshaler.WrapSubscriber(broker, marshaler.Options{})
	if err != nil {
		panic(err)
	}

	poison, err := wmmw.PoisonQueueWithFilter(pub, "orders.poison", hookmw.ShouldPoison)
	if err != nil {
		panic(err)
	}
	router, err := message.NewRouter(message.RouterConfig{}, log)
	if err != nil {
		panic(err)
	}
	router.AddMiddleware(
		poison,
		wmmw.Retry{MaxRetries: 5, InitialInterval: time.Second, ShouldRetry: hookmw.ShouldRetry}.Middleware,
		wmmw.Recoverer,
		hookmw.Malformed{}.Middleware,
	)
	handled := make(chan string)
	router.AddConsumerHandler("ship", "orders", sub, func(msg *message.Message) error {
		handled <- string(msg.Payload)
		return nil
	})
	poisoned, err := broker.Subscribe(context.Background(), "orders.poison")
	if err != nil {
		panic(err)
	}
	go func() { _ = router.Run(context.Background()) }()
	<-router.Running()
	defer router.Close()

	// Another program puts something on the topic that is no envelope, before our order.
	_ = broker.Publish("orders", message.NewMessage("broken", []byte(`{"v":1,"id":7}`)))
	dead := <-poisoned
	dead.Ack()
	fmt.Printf("poisoned %s because of %s\n", dead.Payload, dead.Metadata[wmmw.ReasonForPoisonedKey])

	_ = pub.Publish("orders", message.NewMessage(watermill.NewUUID(), []byte(`{"order":1}`)))
	fmt.Println("handled", <-handled)

	// Output:
	// poisoned {"v":1,"id":7} because of envelope: invalid_field "id"
	// handled {"order":1}
}
