// Package bus publishes and handles typed messages over any Watermill transport. On RabbitMQ,
// with bus/amqpwire, they are the messages of Hexeract: Rust services read what Go publishes,
// and the other way round.
//
// A [Message] is a Go type with a stable name. An [Envelope] is one message with what travels
// beside it: ids, type, headers, the queue for a reply. [New] makes one, [Decode] reads one,
// [Publisher] does it on the way.
//
// # The open form
//
// Inside the process an envelope is an ordinary Watermill message, which [Envelope.Message] and
// [FromMessage] convert: the payload is the JSON, the UUID the message id, and the rest metadata
// under the Metadata constants. Routers, middleware and CQRS components work on it unchanged, and
// transports that carry metadata carry all of it: a message may take Kafka and go on through
// RabbitMQ.
//
// # Chains
//
// The correlation id names a chain of messages that caused each other. [TypedHandler] hands it
// on: to the messages that a handler returns, and through its context to those that it publishes.
//
// # Errors
//
// Every error of a message is an [*Error] with a [Code]; envelope.IsPermanent and
// envelope.IsTransient tell the classes apart. No error, no printed envelope and no log line
// shows a payload or the value of a header.
package bus
