package redispubsub_test

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope/marshaler/rediswire"
	"github.com/watermill-envelope/envelope/transport/redispubsub"
)

// A service that announces orders on a channel, and one that listens.
func Example() {
	server, err := startServer() // in the place of Redis
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.stop()
	client := redis.NewClient(&redis.Options{Addr: server.addr()})
	defer client.Close() // nothing else closes it
	m := rediswire.PubSubMarshaler{Source: "orders"}

	sub, err := redispubsub.NewSubscriber(redispubsub.SubscriberConfig{Client: client, Unmarshaler: m})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sub.Close()
	messages, err := sub.Subscribe(context.Background(), "orders")
	if err != nil {
		fmt.Println(err)
		return
	}

	pub, err := redispubsub.NewPublisher(redispubsub.PublisherConfig{Client: client, Marshaler: m})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pub.Close()
	if err := pub.Publish("orders", message.NewMessage("m-1", []byte(`{"order":7}`))); err != nil {
		fmt.Println(err) // nobody listens, or Redis is down
		return
	}
	msg := <-messages
	fmt.Println(msg.UUID, string(msg.Payload))
	msg.Ack()
	// Output:
	// m-1 {"order":7}
}
