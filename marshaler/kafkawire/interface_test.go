package kafkawire_test

import (
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"

	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

// The marshaler fits where watermill-kafka takes one, and its marshalers fit as a Fallback.
var (
	_ kafka.MarshalerUnmarshaler = kafkawire.Marshaler{}
	_ marshaler.Sealer           = kafkawire.Marshaler{}
	_                            = kafkawire.Marshaler{Fallback: kafka.DefaultMarshaler{}}
	_                            = kafkawire.Marshaler{Fallback: kafka.NewWithPartitioningMarshaler(nil)}
)
