// Package marshaler seals and opens Watermill messages: what every transport has in common.
//
// For Kafka and RabbitMQ take the Marshaler of packages kafkawire and amqpwire. For any
// other transport wrap its publisher and its subscriber:
//
//	pub, err := marshaler.WrapPublisher(inner, marshaler.Options{Source: "orders"})
//	sub, err := marshaler.WrapSubscriber(inner, marshaler.Options{})
//
// # Publishing
//
// A message is prepared (defaults, a minted id, the rules of open messages in package
// envelope), measured as the transport counts, and sealed: one JSON object, and beside it
// the attributes, which serve routers, filters and people. A message that is over the
// transport's limit is refused with [envelope.TooLargeError] and one that cannot be sealed
// with [envelope.Error], both permanent and both before the broker is called.
//
// # Receiving
//
// Opening is total. An error of an unmarshaler reaches neither middleware nor poison queue
// (Kafka reads the record again for ever, RabbitMQ requeues it in a hot loop), so a message
// that cannot be read is opened as malformed, with an empty payload:
// middleware.Malformed keeps it from the handler. Metadata of the user come back from the
// transport's headers and from the JSON, which wins. Reserved names ([envelope.IsReserved])
// are never believed from outside, and neither are names or values that are not valid UTF-8:
// they are dropped, so that passing a message on cannot fail because of a foreign header.
//
// # Your own transport
//
// [Wire] is the core that all of these are made of. A marshaler for another transport is a
// struct with the fields of [Options] that returns a Wire for them, and moves a [Sealed]
// into the transport's own message and a [Received] out of it: see the example.
package marshaler
