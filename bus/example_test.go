package bus_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
)

func ExampleDecode() {
	e := bus.Restore(messageID, "orders.placed", []byte(`{"order_id":"o-1","quantity":2}`), correlationID, "", nil, publishedAt)
	m, err := bus.Decode[orderPlaced](e)
	fmt.Println(m.OrderID, m.Quantity, err)

	_, err = bus.Decode[*orderPaid](e)
	fmt.Println(err)
	fmt.Println(errors.Is(err, bus.ErrTypeMismatch), envelope.IsPermanent(err))
	// Output:
	// o-1 2 <nil>
	// bus: type_mismatch: expected type "orders.paid", the message has "orders.placed"
	// true true
}

func ExampleNew() {
	e, err := bus.New(uuid.MustParse("0199a1c2-0000-7000-8000-00000000002a"), orderPlaced{OrderID: "<1>", Quantity: 2})
	if err != nil {
		panic(err)
	}
	e = e.WithHeaders(map[string]string{"tenant": "acme"})
	msg := e.Message() // for any Watermill publisher
	fmt.Println(string(msg.Payload))
	fmt.Println(msg.Metadata["hexeract_type"], msg.Metadata["correlation_id"], msg.Metadata["tenant"])
	// Output:
	// {"order_id":"<1>","quantity":2}
	// orders.placed 0199a1c2-0000-7000-8000-00000000002a acme
}

func ExampleMux() {
	handle := bus.Mux{
		bus.TypeOf[orderPlaced](): bus.TypedHandler(func(_ context.Context, m orderPlaced, _ *bus.Envelope) ([]*message.Message, error) {
			fmt.Println("placed:", m.OrderID)
			return nil, nil
		}),
		bus.TypeOf[*orderPaid](): bus.TypedHandler(func(context.Context, *orderPaid, *bus.Envelope) ([]*message.Message, error) {
			fmt.Println("paid")
			return nil, nil
		}),
	}.Consume // for the router's AddConsumerHandler

	for _, messageType := range []string{"orders.placed", "orders.paid", "orders.lost"} {
		e := bus.Restore(messageID, messageType, []byte(`{"order_id":"o-1"}`), correlationID, "", nil, publishedAt)
		if err := handle(e.Message()); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// placed: o-1
	// paid
	// bus: missing_handler: nothing handles type "orders.lost"
}
