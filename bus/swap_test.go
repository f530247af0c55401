package bus_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/IBM/sarama"
	amqp3 "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/bus"
	busamqp "github.com/watermill-envelope/envelope/bus/amqpwire"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

// A carrier is what a transport makes of a message.
type carrier func(*message.Message) (*message.Message, error)

type kafkaMarshaler interface {
	kafka.Marshaler
	kafka.Unmarshaler
}

func kafkaCarrier(m kafkaMarshaler) carrier {
	return func(msg *message.Message) (*message.Message, error) {
		p, err := m.Marshal("orders", msg)
		if err != nil {
			return nil, err
		}
		value, err := p.Value.Encode()
		if err != nil {
			return nil, err
		}
		received := &sarama.ConsumerMessage{Topic: "orders", Value: value}
		for i := range p.Headers {
			received.Headers = append(received.Headers, &p.Headers[i])
		}
		return m.Unmarshal(received)
	}
}

func amqpCarrier(m amqp3.Marshaler) carrier {
	return func(msg *message.Message) (*message.Message, error) {
		p, err := m.Marshal(msg)
		if err != nil {
			return nil, err
		}
		return m.Unmarshal(amqp.Delivery{
			DeliveryTag: 1, Headers: p.Headers, ContentType: p.ContentType, DeliveryMode: p.DeliveryMode, CorrelationId: p.CorrelationId,
			ReplyTo: p.ReplyTo, MessageId: p.MessageId, Timestamp: p.Timestamp, Type: p.Type, Body: p.Body,
		})
	}
}

// Another transport is another constructor: nothing of a message is lost on any, nor on the way
// from one through another to RabbitMQ.
func TestSwapTheTransport(t *testing.T) {
	rabbitMQ := amqpCarrier(busamqp.Marshaler{})
	carriers := map[string]carrier{
		"bus/amqpwire":      rabbitMQ,
		"stock Kafka":       kafkaCarrier(kafka.DefaultMarshaler{}),
		"kafkawire":         kafkaCarrier(kafkawire.Marshaler{Source: "orders"}),
		"stock AMQP":        amqpCarrier(amqp3.DefaultMarshaler{}),
		"amqpwire":          amqpCarrier(amqpwire.Marshaler{Source: "orders"}),
		"in memory, copied": func(msg *message.Message) (*message.Message, error) { return msg.Copy(), nil },
	}
	e := order()
	e.PublishedAt = time.Unix(1737500000, 0).UTC() // AMQP has whole seconds
	e.Headers = reserved()
	e.Headers["tenant"], e.Headers["traceparent"] = "acme", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for name, carry := range carriers {
		for way, legs := range map[string][]carrier{
			"there": {carry}, "to RabbitMQ": {carry, rabbitMQ}, "from RabbitMQ": {rabbitMQ, carry}, "back": {carry, rabbitMQ, carry},
		} {
			t.Run(fmt.Sprint(name, ", ", way), func(t *testing.T) {
				msg := e.Message()
				for _, leg := range legs {
					var err error
					if msg, err = leg(msg); err != nil {
						t.Fatal(err)
					}
				}
				got, err := bus.FromMessage(msg)
				if err != nil || !reflect.DeepEqual(got, e) {
					t.Errorf("%#v %v, error %v, want\n%#v %v", got, got.Headers, err, e, e.Headers)
				}
			})
		}
	}
}
