// Package hexeract checks packages bus, transport/rabbitmq and outbox against a service that is
// not ours: a program on the published Hexeract crates, written in Rust.
package hexeract

import (
	"context"
	"embed"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/integration/internal/cargo"
)

// Version is the release of the crates. Cargo.lock pins them.
const Version = "0.6.0"

//go:embed peer/Cargo.toml peer/Cargo.lock peer/src/main.rs peer/src/outbox.rs
var crate embed.FS

// Install compiles the program, once per lock file and sources, and returns its path. It needs
// cargo from 1.88 on, a C compiler and cmake, and takes about four minutes of a processor.
func Install(ctx context.Context) (string, error) {
	return cargo.Build(ctx, crate, "peer", "hexeract-peer")
}

// A Peer is a running program that speaks to a broker. It ends with the test that started it. It
// is not safe for concurrent use.
type Peer struct{ *program[Handled] }

// OrderPlaced is the message, and the event, that both sides know.
type OrderPlaced struct {
	OrderID uuid.UUID         `json:"order_id"`
	Note    string            `json:"note"`
	Cents   int64             `json:"cents"`
	Weight  float64           `json:"weight"`
	Lines   []Line            `json:"lines"`
	Tags    map[string]string `json:"tags"`
	Coupon  *string           `json:"coupon"`
}

// A Line is a part of an [OrderPlaced].
type Line struct {
	SKU      string `json:"sku"`
	Quantity uint32 `json:"quantity"`
}

// MessageType is the type of the message on both sides.
func (OrderPlaced) MessageType() string { return "orders.placed" }

// EventType is the type of the event on both sides.
func (OrderPlaced) EventType() string { return "orders.placed" }

// A Publish is an order to publish: the message with headers, or with a correlation id, or
// with neither; or Raw.
type Publish struct {
	RoutingKey    string            `json:"routing_key"`
	Message       *OrderPlaced      `json:"message,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	CorrelationID *uuid.UUID        `json:"correlation_id,omitempty"`
	Raw           *Raw              `json:"raw,omitempty"`
}

// Raw is a message under an id of the caller's, with any bytes that are text.
type Raw struct {
	MessageID   uuid.UUID `json:"message_id"`
	MessageType string    `json:"message_type"`
	Payload     string    `json:"payload"`
}

// A Work is an order to consume a queue. Messages whose note is Fail fail.
type Work struct {
	Queue        string `json:"queue"`
	MaxAttempts  uint32 `json:"max_attempts"`
	RetryDelayMS uint64 `json:"retry_delay_ms"`
	DeadLetter   string `json:"dead_letter,omitempty"`
	Fail         string `json:"fail,omitempty"`
}

// Handled is a message that the program's handler was given.
type Handled struct {
	MessageID     uuid.UUID   `json:"message_id"`
	CorrelationID uuid.UUID   `json:"correlation_id"`
	Message       OrderPlaced `json:"message"`
	Failed        bool        `json:"failed"`
}

// A Refusal is an error of the crates: the name of its variant, and its text.
type Refusal struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Start starts a program that speaks to the broker at url for the rest of the test.
func Start(t testing.TB, url string) *Peer {
	t.Helper()
	// Its client reads the path / as the virtual host with the empty name.
	return &Peer{start[Handled](t, strings.TrimSuffix(url, "/"))}
}

// Publish publishes and returns the id, or why the crates did not.
func (p *Peer) Publish(t testing.TB, order Publish) (uuid.UUID, *Refusal) {
	t.Helper()
	a := p.ask(t, map[string]any{"publish": order})
	if a.Published == nil {
		if a.Error == nil {
			t.Fatalf("no verdict in the answer %+v", a)
		}
		return uuid.Nil, a.Error
	}
	return *a.Published, nil
}

// Work starts a worker. The queue must exist.
func (p *Peer) Work(t testing.TB, order Work) {
	t.Helper()
	if a := p.ask(t, map[string]any{"work": order}); a.Working != order.Queue {
		t.Fatalf("the worker did not start: %+v", a.Error)
	}
}
