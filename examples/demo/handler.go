package main

import "github.com/ThreeDotsLabs/watermill/message"

const (
	handledBy   = "handled_by"
	handlerName = "demo"
)

// handle is an ordinary Watermill handler. It knows nothing of envelopes: it sees the body
// that the provider sent, and what it returns goes to RabbitMQ.
func handle(msg *message.Message) ([]*message.Message, error) {
	msg.Metadata.Set(handledBy, handlerName)
	return message.Messages{msg}, nil
}
