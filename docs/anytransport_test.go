package docs_test

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
)

func wrapped(logger watermill.LoggerAdapter, use func(message.Publisher, message.Subscriber) error) error {
	inner := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 16}, logger)

	pub, err := marshaler.WrapPublisher(inner, marshaler.Options{Source: "orders"})
	if err != nil {
		return err
	}
	sub, err := marshaler.WrapSubscriber(inner, marshaler.Options{})
	if err != nil {
		return err
	}
	return use(pub, sub)
}

// A handler sees the body that was published, and what the envelope says about it.
func Example_anyTransport() {
	err := wrapped(watermill.NopLogger{}, func(pub message.Publisher, sub message.Subscriber) error {
		hooks, err := sub.Subscribe(context.Background(), "hooks")
		if err != nil {
			return err
		}
		msg := message.NewMessage("019fc6ff-ac19-7c35-9d02-4b7a51e0c3f8", []byte(`{"total":1200}`))
		msg.Metadata.Set("correlation_id", "c-1")
		if err := pub.Publish("hooks", msg); err != nil {
			return err
		}
		received := <-hooks
		received.Ack()
		fmt.Println(received.UUID, string(received.Payload))
		for _, name := range []string{envelope.MetadataSourceID, envelope.MetadataSize, "correlation_id"} {
			fmt.Println(name, received.Metadata[name])
		}
		return sub.Close()
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 019fc6ff-ac19-7c35-9d02-4b7a51e0c3f8 {"total":1200}
	// ankusa_source_id orders
	// ankusa_size 14
	// correlation_id c-1
}
