package rabbitmq

import (
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/bus/amqpwire"
)

// HeaderExpiration is the header of a dead letter that holds the expiration that its message
// had, which would expire it out of the dead-letter queue.
const HeaderExpiration = "hexeract_expiration"

// HeaderUserID is the header of a copy that holds the user id of its message: the broker
// takes a property of that name only from that user.
const HeaderUserID = "hexeract_user_id"

func retryQueue(queue string) string { return queue + ".retry" }

// attempts is how many attempts a message has behind it: the larger of what the broker
// counts in x-death (which RabbitMQ 4 starts again with each copy) and our own count.
func attempts(h amqp.Table, retryQueue string) int64 {
	return max(deaths(h["x-death"], retryQueue), integer(h[amqpwire.HeaderAttempts]), 0)
}

// deaths is how often a message expired in the retry queue, by the first entry about that.
func deaths(header any, retryQueue string) int64 {
	events, _ := header.([]any)
	for _, event := range events {
		t, _ := event.(amqp.Table)
		count, ok := t["count"].(int64)
		if ok && t["queue"] == retryQueue && t["reason"] == "expired" {
			return min(max(count, 0), maxAttempts)
		}
	}
	return 0
}

const maxAttempts = 1<<32 - 1 // the original's counter has 32 bits

// integer is a number of any of AMQP's integer types, 0 for anything else.
func integer(value any) int64 {
	var n int64
	switch v := value.(type) {
	case int8:
		n = int64(v)
	case byte:
		n = int64(v)
	case int16:
		n = int64(v)
	case uint16:
		n = int64(v)
	case int32:
		n = int64(v)
	case uint32:
		n = int64(v)
	case int64:
		n = v
	}
	return min(max(n, 0), maxAttempts)
}

// retryCopy is what goes to the retry queue after the nth attempt.
func retryCopy(d amqp.Delivery, n int64) amqp.Publishing { return copyOf(d, n) }

// deadCopy is what goes to the dead-letter queue after n attempts. It never expires.
func deadCopy(d amqp.Delivery, n int64) amqp.Publishing {
	p := copyOf(d, n)
	if p.Expiration != "" {
		p.Headers[HeaderExpiration] = p.Expiration
		p.Expiration = ""
	}
	return p
}

// copyOf is the delivery as it came, but persistent, with our count of attempts, without
// what a consumer in another language does not survive (see check), and without the user id,
// which would have to be ours.
func copyOf(d amqp.Delivery, n int64) amqp.Publishing {
	headers := make(amqp.Table, len(d.Headers)+2)
	for name, value := range d.Headers {
		headers[valid(name)] = validNames(value)
	}
	headers[amqpwire.HeaderAttempts] = min(n, maxAttempts)
	if d.UserId != "" {
		headers[HeaderUserID] = d.UserId
	}
	return amqp.Publishing{
		Headers:         headers,
		ContentType:     valid(d.ContentType),
		ContentEncoding: valid(d.ContentEncoding),
		DeliveryMode:    amqp.Persistent,
		Priority:        d.Priority,
		CorrelationId:   valid(d.CorrelationId),
		ReplyTo:         valid(d.ReplyTo),
		Expiration:      valid(d.Expiration),
		MessageId:       valid(d.MessageId),
		Timestamp:       repaired(d.Timestamp),
		Type:            valid(d.Type),
		AppId:           valid(d.AppId),
		Body:            d.Body,
	}
}

// valid is s with a question mark for each run of bytes that is not UTF-8, so that it does
// not become longer.
func valid(s string) string { return strings.ToValidUTF8(s, "?") }

// validNames is a header's value with valid names in its tables.
func validNames(value any) any {
	switch v := value.(type) {
	case amqp.Table:
		t := make(amqp.Table, len(v))
		for name, element := range v {
			t[valid(name)] = validNames(element)
		}
		return t
	case []any:
		a := make([]any, len(v))
		for i, element := range v {
			a[i] = validNames(element)
		}
		return a
	}
	return value
}
