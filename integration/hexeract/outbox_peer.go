package hexeract

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
)

// An OutboxPeer is a running program that speaks to a database. It ends with the test that
// started it. It is not safe for concurrent use.
type OutboxPeer struct{ *program[HandledEvent] }

// Anything is an event of any shape that both sides know.
type Anything struct {
	Value json.RawMessage `json:"value"`
}

// EventType is the type of the event on both sides.
func (Anything) EventType() string { return "tests.anything" }

// A PublishEvent is an order to insert an event in a transaction: Order, or else an [Anything] with
// the JSON in Anything.
type PublishEvent struct {
	Table     string       `json:"table"`
	Order     *OrderPlaced `json:"order,omitempty"`
	Anything  string       `json:"anything,omitempty"`
	SubjectID *uuid.UUID   `json:"subject_id,omitempty"`
	Rollback  bool         `json:"rollback"`
}

// An Enqueue is an order to insert an event unless it is there.
type Enqueue struct {
	Table     string    `json:"table"`
	EventID   uuid.UUID `json:"event_id"`
	EventType string    `json:"event_type"`
	Payload   string    `json:"payload"`
}

// A WorkEvents is an order to consume a table. Orders whose note is Fail fail.
type WorkEvents struct {
	Table       string `json:"table"`
	DeadLetter  string `json:"dead_letter,omitempty"`
	Batch       int    `json:"batch"`
	MaxAttempts int    `json:"max_attempts"`
	PollMS      int64  `json:"poll_ms"`
	RetryBaseMS int64  `json:"retry_base_ms"`
	RetryMaxMS  int64  `json:"retry_max_ms"`
	TimeoutMS   int64  `json:"timeout_ms"`
	Fail        string `json:"fail,omitempty"`
}

// HandledEvent is an event that one of the program's handlers was given.
type HandledEvent struct {
	EventID   uuid.UUID       `json:"event_id"`
	EventType string          `json:"event_type"`
	Event     json.RawMessage `json:"event"`
	Failed    bool            `json:"failed"`
}

// StartOutbox starts a program that speaks to the database at an address of sqlx,
// "postgres://..." or "sqlite://...", for the rest of the test.
func StartOutbox(t testing.TB, address string) *OutboxPeer {
	t.Helper()
	return &OutboxPeer{start[HandledEvent](t, address)}
}

// Schema makes the tables by the crates' own statements.
func (p *OutboxPeer) Schema(t testing.TB, table string) {
	t.Helper()
	if a := p.ask(t, map[string]any{"schema": map[string]string{"table": table}}); a.Made != table {
		t.Fatalf("the tables were not made: %+v", a.Error)
	}
}

// Publish inserts an event and returns its id.
func (p *OutboxPeer) Publish(t testing.TB, order PublishEvent) uuid.UUID {
	t.Helper()
	a := p.ask(t, map[string]any{"publish": order})
	if a.Published == nil {
		t.Fatalf("the event was not inserted: %+v", a.Error)
	}
	return *a.Published
}

// Enqueue inserts an event and reports whether it was not there before, or why it was not
// inserted.
func (p *OutboxPeer) Enqueue(t testing.TB, order Enqueue) (bool, *Refusal) {
	t.Helper()
	a := p.ask(t, map[string]any{"enqueue": order})
	if a.Enqueued == nil {
		if a.Error == nil {
			t.Fatalf("no verdict in the answer %+v", a)
		}
		return false, a.Error
	}
	return *a.Enqueued, nil
}

// Print returns an envelope as the crates print it.
func (p *OutboxPeer) Print(t testing.TB, id uuid.UUID, event OrderPlaced) string {
	t.Helper()
	a := p.ask(t, map[string]any{"print": map[string]any{"event_id": id, "order": event}})
	if a.Printed == "" {
		t.Fatalf("nothing was printed: %+v", a.Error)
	}
	return a.Printed
}

// Work starts a worker.
func (p *OutboxPeer) Work(t testing.TB, order WorkEvents) {
	t.Helper()
	if a := p.ask(t, map[string]any{"work": order}); a.Working != order.Table {
		t.Fatalf("the worker did not start: %+v", a.Error)
	}
}
