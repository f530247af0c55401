package amqpwire_test

import (
	amqp2 "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp3 "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"

	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
)

// The marshaler fits where watermill-amqp takes one, and its marshalers fit as a Fallback.
var (
	_ amqp2.Marshaler  = amqpwire.Marshaler{}
	_ amqp3.Marshaler  = amqpwire.Marshaler{}
	_ marshaler.Sealer = amqpwire.Marshaler{}
	_                  = amqpwire.Marshaler{Fallback: amqp2.DefaultMarshaler{}}
	_                  = amqpwire.Marshaler{Fallback: amqp3.DefaultMarshaler{}}
)
