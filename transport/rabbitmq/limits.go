package rabbitmq

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/internal/amqpframe"
)

// unknown is a frame size that no connection has told yet.
const unknown = -1

// check reports what the protocol or a consumer in another language could not carry of p,
// before anything is sent.
func check(key string, p *amqp.Publishing) error {
	for _, s := range [...]struct{ name, value string }{
		{"routing key", key},
		{"content type", p.ContentType},
		{"content encoding", p.ContentEncoding},
		{"correlation id", p.CorrelationId},
		{"reply_to", p.ReplyTo},
		{"expiration", p.Expiration},
		{"message id", p.MessageId},
		{"message type", p.Type},
		{"user id", p.UserId},
		{"app id", p.AppId},
	} {
		if err := bus.CheckShortString(s.name, s.value); err != nil {
			return err
		}
	}
	if err := p.Headers.Validate(); err != nil {
		return &bus.Error{Code: bus.CodeInvalidTopology, Field: "headers", Err: err}
	}
	return checkNames(p.Headers)
}

// checkHeaderSize reports a content header that does not fit into one frame of frameMax
// bytes (0: no limit), over which the broker closes the connection.
func checkHeaderSize(p *amqp.Publishing, frameMax int64) error {
	if frameMax <= 0 {
		return nil
	}
	if size := amqpframe.ContentHeader(p); size > frameMax-amqpframe.Overhead {
		return &envelope.TooLargeError{Size: size, Max: frameMax - amqpframe.Overhead, What: "content header"}
	}
	return nil
}

func checkNames(t amqp.Table) error {
	for name, value := range t {
		if err := bus.CheckShortString("header key", name); err != nil {
			return err
		}
		if err := checkNamesIn(value); err != nil {
			return err
		}
	}
	return nil
}

func checkNamesIn(value any) error {
	switch v := value.(type) {
	case amqp.Table:
		return checkNames(v)
	case []any:
		for _, element := range v {
			if err := checkNamesIn(element); err != nil {
				return err
			}
		}
	}
	return nil
}

// repaired returns the time that goes out: a time before 1970 is written as a number of
// seconds over 2^63, which ends a consumer on Hexeract, so it is 1970.
func repaired(t time.Time) time.Time {
	if !t.IsZero() && t.Unix() < 0 {
		return time.Unix(0, 0)
	}
	return t
}

// An amount is a number of a configuration, of which 0 is the default.
type amount struct {
	name  string
	value int64
}

// notNegative returns an error for each amount that is negative.
func notNegative(amounts ...amount) []error {
	var errs []error
	for _, a := range amounts {
		if a.value < 0 {
			errs = append(errs, fmt.Errorf("rabbitmq: %s is negative", a.name))
		}
	}
	return errs
}
