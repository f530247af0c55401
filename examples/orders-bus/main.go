// Command orders-bus is a shop and its billing, which speak in typed messages: in one process
// by default, or over a RabbitMQ that Rust services on Hexeract may share.
//
//	go run ./orders-bus
//	go run ./orders-bus -amqp amqp://guest:guest@127.0.0.1:5672/
//
// Three orders are placed. The second one's card fails at first, so it is retried. The third
// message has a type that billing does not know, and becomes a dead letter.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/bus"
)

// OrderPlaced is the shop's message. A service in Rust has the same:
//
//	#[derive(Serialize, Deserialize)]
//	struct OrderPlaced { order: String, cents: i64 }
//	impl Message for OrderPlaced { const MESSAGE_TYPE: &'static str = "orders.placed"; }
type OrderPlaced struct {
	Order string `json:"order"`
	Cents int64  `json:"cents"`
}

// MessageType implements [bus.Message].
func (OrderPlaced) MessageType() string { return "orders.placed" }

// InvoiceIssued is billing's answer.
type InvoiceIssued struct {
	Order   string `json:"order"`
	Invoice string `json:"invoice"`
}

// MessageType implements [bus.Message].
func (InvoiceIssued) MessageType() string { return "invoices.issued" }

// The topics; on RabbitMQ the names of queues.
const (
	orders   = "example.orders"
	invoices = "example.invoices"
	dead     = "example.orders.dead"
)

var errCard = errors.New("the card's bank does not answer")

func main() {
	uri := flag.String("amqp", "", "the address of a RabbitMQ; empty runs within this process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *uri)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run places the orders and returns when all three are where they belong.
func run(ctx context.Context, out io.Writer, uri string) error {
	t, err := connect(ctx, uri)
	if err != nil {
		return err
	}
	defer t.close()
	s := &shop{out: out, done: make(chan struct{})}

	// Billing: a handler of values. What it returns belongs to the chain of the order.
	t.router.AddHandler("billing", orders, t.sub, invoices, t.pub, bus.Mux{
		bus.TypeOf[OrderPlaced](): bus.TypedHandler(func(ctx context.Context, m OrderPlaced, e *bus.Envelope) ([]*message.Message, error) {
			invoice, err := s.bill(m, e)
			if err != nil {
				return nil, err
			}
			answer, err := bus.New(e.CorrelationID, invoice)
			if err != nil {
				return nil, err
			}
			return []*message.Message{answer.Message()}, nil
		}),
	}.Handle)
	t.router.AddConsumerHandler("mail", invoices, t.sub, bus.TypedConsumer(s.mail))
	t.router.AddConsumerHandler("support", dead, t.dead, s.support)

	failed := make(chan error, 1)
	go func() { failed <- t.router.Run(ctx) }()
	select {
	case <-t.router.Running():
	case err := <-failed:
		return err
	}

	b, err := bus.NewPublisher(bus.PublisherConfig{Publisher: t.pub})
	if err != nil {
		return err
	}
	for _, m := range []OrderPlaced{{"A-1", 1999}, {"A-2", 500}} {
		id, err := b.PublishWithHeaders(ctx, orders, map[string]string{"tenant": "acme"}, m)
		if err != nil {
			return err
		}
		s.say("shop     %s placed as message %s", m.Order, short(id))
	}
	id, err := b.PublishRaw(ctx, orders, bus.NewID(), "orders.cancelled", []byte(`{"order":"A-1"}`))
	if err != nil {
		return err
	}
	s.say("shop     A-1 cancelled as message %s", short(id))

	select {
	case <-s.done:
	case <-ctx.Done():
	case err := <-failed:
		return err
	}
	return t.router.Close()
}

// A shop is what happens, for people to read.
type shop struct {
	out  io.Writer
	done chan struct{} // closed when two invoices and one dead letter have arrived

	mu       sync.Mutex
	attempts map[string]int // by order
	arrived  int
}

func (s *shop) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}

// bill fails at the first attempt at A-2.
func (s *shop) bill(m OrderPlaced, e *bus.Envelope) (InvoiceIssued, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempts == nil {
		s.attempts = make(map[string]int)
	}
	s.attempts[m.Order]++
	if m.Order == "A-2" && s.attempts[m.Order] == 1 {
		fmt.Fprintf(s.out, "billing  %s fails: %v\n", m.Order, errCard)
		return InvoiceIssued{}, errCard
	}
	fmt.Fprintf(s.out, "billing  %s of %s: %d cents, attempt %d\n", m.Order, e.Headers["tenant"], m.Cents, s.attempts[m.Order])
	return InvoiceIssued{Order: m.Order, Invoice: "I" + m.Order[1:]}, nil
}

func (s *shop) mail(_ context.Context, m InvoiceIssued, e *bus.Envelope) error {
	s.say("mail     invoice %s for %s, in the chain %s", m.Invoice, m.Order, short(e.CorrelationID))
	s.arrive()
	return nil
}

// support looks after dead letters, which may be of any type.
func (s *shop) support(msg *message.Message) error {
	e, err := bus.FromMessage(msg)
	if err != nil {
		return err
	}
	s.say("support  dead letter %s: %s", short(e.MessageID), e.MessageType)
	s.arrive()
	return nil
}

func (s *shop) arrive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.arrived++; s.arrived == 3 {
		close(s.done)
	}
}

// short is the end of an id, which differs where the beginnings are the same moment.
func short(id uuid.UUID) string { return id.String()[24:] }
