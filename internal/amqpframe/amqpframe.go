// Package amqpframe counts what github.com/rabbitmq/amqp091-go writes of a publishing, and knows
// the headers that are RabbitMQ's own.
package amqpframe

import (
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// DefaultFrameMax is RabbitMQ's frame_max when it is not configured, in bytes.
	DefaultFrameMax = 131_072
	// MinFrameMax is what the protocol guarantees.
	MinFrameMax = 4096
	// Overhead is what a frame has beside its content. A content header must fit into one frame:
	// over that the broker closes the connection with 501.
	Overhead = 8
	// MaxShortString is the most bytes of a property, and of the name of a header.
	MaxShortString = 255
	// LongString is what a header of text takes beside name and value: the length of the name,
	// the type, and the length of the value.
	LongString = 1 + 1 + 4
	// Table is what a table takes beside its fields.
	Table = 4
)

// ContentHeader returns the bytes of the content header of p: properties and headers.
func ContentHeader(p *amqp.Publishing) int64 {
	const start = 2 + 2 + 8 + 2 // class, weight, body size, flags
	size := int64(start)
	for _, s := range [...]string{
		p.ContentType, p.ContentEncoding, p.CorrelationId, p.ReplyTo, p.Expiration, p.MessageId,
		p.Type, p.UserId, p.AppId,
	} {
		if s != "" {
			size += 1 + int64(len(s))
		}
	}
	if p.DeliveryMode > 0 {
		size++
	}
	if p.Priority > 0 {
		size++
	}
	if !p.Timestamp.IsZero() {
		size += 8
	}
	if len(p.Headers) > 0 { // an empty table is left out
		size += table(p.Headers)
	}
	return size
}

func table(t amqp.Table) int64 {
	size := int64(Table)
	for name, value := range t {
		size += 1 + int64(len(name)) + field(value)
	}
	return size
}

// field is a value with its type.
func field(value any) int64 {
	switch v := value.(type) {
	case string:
		return 1 + 4 + int64(len(v))
	case []byte:
		return 1 + 4 + int64(len(v))
	case bool, byte, int8:
		return 1 + 1
	case int16, uint16:
		return 1 + 2
	case int, int32, uint32, float32:
		return 1 + 4
	case amqp.Decimal:
		return 1 + 1 + 4
	case int64, float64, time.Time:
		return 1 + 8
	case amqp.Table:
		return 1 + table(v)
	case []any:
		size := int64(1 + 4)
		for _, e := range v {
			size += field(e)
		}
		return size
	}
	return 1 // nil; the client refuses anything else
}

// Routes reports whether RabbitMQ routes by the header of this name. As text it closes the
// channel.
func Routes(name string) bool { return name == "CC" || name == "BCC" }

// BrokerOwned reports whether RabbitMQ writes the header of this name into what it delivers:
// facts about one stored copy. A copy that is published again must not bring them along as text,
// for the broker would leave x-first-death-queue as it is when that copy dies.
func BrokerOwned(name string) bool {
	if !strings.HasPrefix(name, "x-") {
		return false
	}
	switch name {
	case "x-death", "x-delivery-count", "x-acquired-count", "x-stream-offset":
		return true
	}
	return strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}
