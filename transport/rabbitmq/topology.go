package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/internal/amqpframe"
)

const (
	// MaxNameBytes is the most that the name of an exchange or a queue takes. It leaves room
	// for the suffixes of the queues that a subscriber declares.
	MaxNameBytes = 127
	// MaxRoutingKeyBytes is the most that a routing key takes.
	MaxRoutingKeyBytes = amqpframe.MaxShortString
)

// An ExchangeKind says how an exchange routes.
type ExchangeKind string

// The kinds of exchanges.
const (
	Direct  ExchangeKind = "direct"
	Topic   ExchangeKind = "topic"
	Fanout  ExchangeKind = "fanout"
	Headers ExchangeKind = "headers"
)

// An Exchange is durable, unless it is said to be transient.
type Exchange struct {
	Name       string
	Kind       ExchangeKind
	Transient  bool // gone when the broker restarts
	AutoDelete bool // gone with its last binding
}

// Validate reports everything that is wrong with e.
func (e Exchange) Validate() error {
	var kind error
	switch e.Kind {
	case Direct, Topic, Fanout, Headers:
	default:
		kind = invalid("exchange kind", fmt.Sprintf("%.32q is none of direct, topic, fanout and headers", string(e.Kind)))
	}
	return errors.Join(validateName("exchange name", e.Name), kind)
}

// A Queue is durable, unless it is said to be transient.
type Queue struct {
	Name       string
	Transient  bool // gone when the broker restarts
	Exclusive  bool // this connection's only, and gone with it
	AutoDelete bool // gone with its last consumer
	// Arguments are x-queue-type, x-dead-letter-exchange and the like. A queue that exists
	// with other arguments is refused by the broker. Rust workers declare with none.
	Arguments amqp.Table
}

// Validate reports everything that is wrong with q.
func (q Queue) Validate() error {
	var arguments error
	if err := q.Arguments.Validate(); err != nil {
		arguments = &bus.Error{Code: bus.CodeInvalidTopology, Field: "queue arguments", Err: err}
	}
	return errors.Join(validateName("queue name", q.Name), arguments)
}

// A Binding sends what an exchange gets under a routing key to a queue. The key may be empty.
type Binding struct {
	Queue, Exchange, RoutingKey string
}

// Validate reports everything that is wrong with b.
func (b Binding) Validate() error {
	return errors.Join(
		validateName("queue name of a binding", b.Queue),
		validateName("exchange name of a binding", b.Exchange),
		ValidateRoutingKey(b.RoutingKey),
	)
}

// ValidateRoutingKey reports a key over [MaxRoutingKeyBytes], with control characters of
// ASCII, or that is not UTF-8. An empty key is valid.
func ValidateRoutingKey(key string) error {
	if hasControl(key) {
		return invalid("routing key", "a control character")
	}
	return bus.CheckShortString("routing key", key)
}

func validateName(what, name string) error {
	switch {
	case name == "":
		return invalid(what, "empty")
	case len(name) > MaxNameBytes:
		return &bus.Error{Code: bus.CodeInvalidTopology, Field: what, Size: int64(len(name)), Max: MaxNameBytes}
	case hasControl(name):
		return invalid(what, "a control character")
	}
	return bus.CheckShortString(what, name)
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// invalid is the permanent error of a name or a key. It names what it is about and what is
// wrong with it.
func invalid(what, reason string) error {
	return &bus.Error{Code: bus.CodeInvalidTopology, Field: what, Reason: reason}
}

// A Topology is what a service needs to exist on a broker.
type Topology struct {
	Exchanges []Exchange
	Queues    []Queue
	Bindings  []Binding
}

// Validate reports everything that is wrong with t.
func (t Topology) Validate() error {
	var errs []error
	add := func(section string, i int, name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s[%d] %.64q: %w", section, i, name, err))
		}
	}
	for i, e := range t.Exchanges {
		add("exchanges", i, e.Name, e.Validate())
	}
	for i, q := range t.Queues {
		add("queues", i, q.Name, q.Validate())
	}
	for i, b := range t.Bindings {
		add("bindings", i, b.Queue, b.Validate())
	}
	return errors.Join(errs...)
}

// Declare declares t on a channel: exchanges, queues, bindings, in their order. What exists
// with the same settings is left as it is; what exists with others is an error of the broker
// (406), after which the channel is closed. Nothing is declared of a t that is not valid.
func (t Topology) Declare(channel *amqp.Channel) error {
	if err := t.Validate(); err != nil {
		return err
	}
	for _, e := range t.Exchanges {
		if err := channel.ExchangeDeclare(e.Name, string(e.Kind), !e.Transient, e.AutoDelete, false, false, nil); err != nil {
			return fmt.Errorf("rabbitmq: declare exchange %q: %w", e.Name, said(err))
		}
	}
	for _, q := range t.Queues {
		if _, err := channel.QueueDeclare(q.Name, !q.Transient, q.AutoDelete, q.Exclusive, false, q.Arguments); err != nil {
			return fmt.Errorf("rabbitmq: declare queue %q: %w", q.Name, said(err))
		}
	}
	for _, b := range t.Bindings {
		if err := channel.QueueBind(b.Queue, b.RoutingKey, b.Exchange, false, nil); err != nil {
			return fmt.Errorf("rabbitmq: bind queue %q to exchange %q: %w", b.Queue, b.Exchange, said(err))
		}
	}
	return nil
}

// EnsureTopology connects to the broker, declares t ([Topology.Declare]) and closes the
// connection. Until ctx ends it waits for a broker that is down. Exclusive queues go with
// the connection: declare those on one of your own.
func EnsureTopology(ctx context.Context, uri URI, t Topology) (err error) {
	if err := errors.Join(uri.Validate(), t.Validate()); err != nil {
		return err
	}
	l := newLink(uri, nil, slog.New(slog.DiscardHandler))
	defer l.close()
	conn, err := l.get(ctx)
	if err != nil {
		return err
	}
	defer conn.within(ctx)()
	channel, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("rabbitmq: open a channel: %w", said(err))
	}
	return t.Declare(channel)
}
