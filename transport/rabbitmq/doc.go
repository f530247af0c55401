// Package rabbitmq is a Watermill transport over RabbitMQ (AMQP 0-9-1): a [Publisher] that
// knows when a message did not arrive, and a [Subscriber] that works as the workers of
// Hexeract do, so that Go and Rust services can share queues. Both take any marshaler with
// the methods of watermill-amqp's: marshaler/amqpwire for webhooks, bus/amqpwire for typed
// messages.
//
//	pub, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{
//		URI: "amqp://orders:secret@broker/", Exchange: "shop", Marshaler: amqpwire.Marshaler{},
//	})
//	sub, err := rabbitmq.NewSubscriber(rabbitmq.SubscriberConfig{
//		URI: "amqp://orders:secret@broker/", Unmarshaler: amqpwire.Marshaler{}, DeadLetterQueue: "orders.dead",
//	})
//	router.AddMiddleware(rabbitmq.Middleware)
//
// # Queues of a subscription
//
// The queue itself is declared by whoever owns it ([EnsureTopology]). The subscriber declares
// two more, both durable:
//
//   - <queue>.retry, without consumers: RetryDelay after a message was put there it expires, and
//     the broker puts it back into the queue (x-message-ttl, x-dead-letter-exchange "",
//     x-dead-letter-routing-key <queue>);
//   - DeadLetterQueue, without arguments.
//
// # What becomes of a delivery
//
//	acked                            it is acknowledged
//	nacked, attempts left            a copy goes to the retry queue
//	nacked for good (see Middleware),
//	or the last attempt              a copy goes to the dead-letter queue, or it is dropped
//	no handler can be given it       a copy goes to the dead-letter queue, or it is rejected
//	   (body too large, no type)
//
// A copy is confirmed by the broker before the delivery is acknowledged, so at any moment at
// least one of the two exists: messages may come twice and are not lost. If the copy cannot be
// routed, the delivery is rejected without requeueing; after any other failure it is requeued.
//
// A copy has the body and all properties of its message (an expiration of a dead letter moves
// into the header [HeaderExpiration], a user id into [HeaderUserID]) and is persistent. The
// attempts are counted in the integer header [amqpwire.HeaderAttempts], since the count that
// the broker keeps in x-death starts again with each copy on RabbitMQ 4; the larger of the two
// counts.
//
// # Credentials
//
// No error, no log line and no printed form of a value of this package shows user, password
// or parameters of a [URI].
package rabbitmq
