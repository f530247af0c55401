package bus

import "github.com/watermill-envelope/envelope/internal/typedjson"

// A Message is a Go type that travels as JSON under a stable name.
type Message interface {
	// MessageType returns the name: what AMQP carries as type, what handlers are chosen by, and
	// what a Rust service has as MESSAGE_TYPE. It must be the same for every value of the Go
	// type, the zero value included; of 1 to 255 bytes of UTF-8 (64 where the type also goes
	// through an outbox table); and never change, whatever the Go type is called. It is compared
	// byte by byte. Dots by convention: "orders.placed".
	MessageType() string
}

// TypeOf returns the name of the message type M, a struct or a pointer to one.
func TypeOf[M Message]() string {
	var m M
	typedjson.Target(&m)
	return m.MessageType()
}
