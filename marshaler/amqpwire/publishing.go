package amqpwire

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/amqpframe"
)

const contentType = "application/json"

// propertyBytes is what a content header takes beside its header fields, of which there always
// are some.
func propertyBytes(msg *message.Message) int64 {
	if msg == nil {
		return 0
	}
	p := amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: messageID(msg.UUID)}
	if !envelope.IsMalformed(msg) {
		p.ContentType, p.Timestamp = contentType, time.Unix(0, 0)
	}
	return amqpframe.ContentHeader(&p) + amqpframe.Table
}

// timestamp is ReceivedAt in seconds, 1970 where it is before.
func timestamp(prepared *message.Message) time.Time {
	text := prepared.Metadata[envelope.MetadataReceivedAt]
	if text == "" {
		return time.Now()
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 {
		ms = 0
	}
	return time.Unix(ms/1000, 0)
}

// native reports whether this name may be a header: it has room, and is none that RabbitMQ
// routes by (as text these close the channel) or writes itself.
func native(name, _ string) bool {
	return len(name) <= amqpframe.MaxShortString && utf8.ValidString(name) &&
		!amqpframe.Routes(name) && !amqpframe.BrokerOwned(name)
}
