package marshaler_test

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope/marshaler"
)

// Any transport of Watermill carries envelopes once its publisher and its subscriber are
// wrapped: here the one in memory.
func ExampleWrapPublisher() {
	channel := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	pub, err := marshaler.WrapPublisher(channel, marshaler.Options{Source: "orders", Tenant: "acme"})
	if err != nil {
		fmt.Println(err)
		return
	}
	sub, err := marshaler.WrapSubscriber(channel, marshaler.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	messages, err := sub.Subscribe(context.Background(), "orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := pub.Publish("orders", message.NewMessage("m-1", []byte(`{"order":7}`))); err != nil {
		fmt.Println(err)
		return
	}

	msg := <-messages
	fmt.Println(string(msg.Payload))
	fmt.Println(msg.UUID, msg.Metadata["ankusa_tenant_id"], msg.Metadata["ankusa_source_id"])
	msg.Ack()
	if err := sub.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"order":7}
	// m-1 acme orders
}
