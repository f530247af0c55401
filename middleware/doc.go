// Package middleware holds Watermill middlewares for open messages. They know nothing of a
// transport and compose with anyone's. Import it as hookmw, beside Watermill's own package
// of the same name:
//
//	import (
//		wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
//		hookmw "github.com/watermill-envelope/envelope/middleware"
//	)
//
// # Dead letters
//
// This is the stack to use, outermost first:
//
//	poison, err := wmmw.PoisonQueueWithFilter(pub, "orders.poison", hookmw.ShouldPoison)
//	router.AddMiddleware(
//		poison,
//		wmmw.Retry{MaxRetries: 5, InitialInterval: time.Second, ShouldRetry: hookmw.ShouldRetry}.Middleware,
//		wmmw.Recoverer,
//		hookmw.Malformed{}.Middleware,
//	)
//
// Recoverer makes an error of a handler's panic, which would be nacked and come again for
// ever. What becomes of a message whose handler fails depends on the class of the error:
//
//	class      examples                                     retried  in the end
//	permanent  a malformed message, envelope.Permanent(err) no       poison topic, once
//	transient  an outage, envelope.Transient(err)           yes      nacked: it waits in the broker
//	unknown    the handler's own errors                     yes      poison topic
//
// Nothing is lost when the poison topic's broker is down as well: PoisonQueue then returns
// the error, the router nacks, and the message is delivered again. How soon is the
// transport's business: Kafka waits SubscriberConfig.NackResendSleep, 100 ms unless set;
// AMQP requeues at once.
//
// # Large bodies
//
// A [ClaimCheck] keeps bodies that are too large for their messages in a store. Its Middleware
// belongs between Recoverer and Malformed, and its WrapPublisher around every publisher.
//
// # Long metadata
//
// [HeaderCaps] keep the headers of providers within bounds: their WrapPublisher belongs outside of
// a claim check's. [Diagnostics] cut what PoisonQueue says of a failure, so that every message can
// be dead-lettered: they wrap the publisher of the poison topic.
//
// # Traces
//
// A [Trace] makes OpenTelemetry spans of what is published and handled. Its Middleware belongs
// between Recoverer and all others, and its WrapPublisher outside of the other wrappers.
//
// # All of them
//
// A [Chain] is all middlewares of this package in the order that they belong in, on both sides,
// with a log of what fails. In the stack above its Middleware takes the place of Malformed's.
package middleware
