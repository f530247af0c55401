package docs_test

import (
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
)

// counts is a marshaler.Observer. Export the numbers as your other metrics.
type counts struct{ fallback, malformed atomic.Int64 }

func (c *counts) Fallback(topic string)                      { c.fallback.Add(1) }
func (c *counts) Malformed(topic string, code envelope.Code) { c.malformed.Add(1) }

func kafkaFallback() kafkawire.Marshaler {
	var seen counts
	m := kafkawire.Marshaler{Source: "orders", Fallback: kafka.DefaultMarshaler{}, Observer: &seen}
	return m
}

func rabbitmqFallback() amqpwire.Marshaler {
	var seen counts
	m := amqpwire.Marshaler{Source: "orders", Fallback: amqp.DefaultMarshaler{}, Observer: &seen}
	return m
}

func redisFallback() rediswire.Marshaler {
	var seen counts
	m := rediswire.Marshaler{Source: "orders", Fallback: redisstream.DefaultMarshallerUnmarshaller{}, Observer: &seen}
	return m
}

func passThrough(inner message.Subscriber) (message.Subscriber, error) {
	var seen counts
	sub, err := marshaler.WrapSubscriber(inner, marshaler.Options{PassThrough: true, Observer: &seen})
	return sub, err
}
