package hexeract

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

// failing has a worker of Rust's, or of ours, fail an event until it is dead-lettered.
func (d *outboxDatabase) failing(t *testing.T, o *outbox.Outbox, rust bool) {
	t.Helper()
	if rust {
		peer := StartOutbox(t, d.address)
		order := work(o)
		order.Fail = poisonNote
		peer.Work(t, order)
		for range order.MaxAttempts {
			if h := peer.Handled(t); !h.Failed {
				t.Fatalf("handled %+v", h)
			}
		}
		peer.Stop(t)
		return
	}
	messages, stop := d.subscribe(t, o, worker())
	for n := range worker().MaxAttempts {
		msg, e := nextEvent(t, messages)
		if e.Attempts != n {
			t.Errorf("attempt %d, want %d", e.Attempts, n)
		}
		msg.Nack()
	}
	d.want(t, o.DeadLetterTable(), "1 = 1", 1)
	stop()
}

// succeeding has a worker deliver the only event.
func (d *outboxDatabase) succeeding(t *testing.T, o *outbox.Outbox, rust bool, id uuid.UUID) {
	t.Helper()
	if rust {
		peer := StartOutbox(t, d.address)
		peer.Work(t, work(o))
		if h := peer.Handled(t); h.EventID != id || h.Failed {
			t.Errorf("handled %+v, want %s", h, id)
		}
		peer.Stop(t)
	} else {
		messages, stop := d.subscribe(t, o, worker())
		msg, e := nextEvent(t, messages)
		if e.EventID != id || e.Attempts != 0 {
			t.Errorf("got %v, want %s", e, id)
		}
		if event, err := outbox.Decode[OrderPlaced](e); err != nil || encodeJSON(t, event) != encodeJSON(t, order(poisonNote)) {
			t.Errorf("got %+v %v", event, err)
		}
		msg.Ack()
		d.want(t, o.Table(), "delivered_at IS NOT NULL", 1)
		stop()
	}
	d.want(t, o.Table(), "delivered_at IS NOT NULL AND attempts = 1", 1)
}

// What either side has given up either side's worker delivers when it is replayed, and gives up
// again when it fails again.
func TestOutboxDeadLetters(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, d *outboxDatabase) {
		for n, sides := range [][3]bool{ // whether Rust gives up, gives up again, delivers
			{true, false, false}, {false, true, true}, {true, true, false}, {false, false, true},
		} {
			name := func(rust bool) string { return map[bool]string{true: "Rust", false: "we"}[rust] }
			t.Run(fmt.Sprintf("%s, then %s, then %s", name(sides[0]), name(sides[1]), name(sides[2])), func(t *testing.T) {
				o, subject := d.apply(t), uuid.New()
				var id uuid.UUID
				if n%2 == 0 {
					id = StartOutbox(t, d.address).Publish(t, PublishEvent{Table: o.Table(), Order: order(poisonNote), SubjectID: &subject})
				} else {
					var err error
					if id, err = o.PublishInTxWithSubject(t.Context(), d.db, subject, order(poisonNote)); err != nil {
						t.Fatal(err)
					}
				}
				for _, rust := range sides[:2] {
					d.failing(t, o, rust)
					reason := map[bool]string{true: "told to fail", false: "nacked"}[rust]
					d.wantDeadLetter(t, o, id, subject, reason)
					d.want(t, o.Table(), "1 = 1", 0)
					d.replay(t, o, id)
					d.want(t, o.DeadLetterTable(), "1 = 1", 0)
				}
				if err := o.Check(t.Context(), d.db); err != nil {
					t.Error(err)
				}
				d.succeeding(t, o, sides[2], id)
			})
		}
	})
}

// wantDeadLetter checks the only dead letter.
func (d *outboxDatabase) wantDeadLetter(t *testing.T, o *outbox.Outbox, id, subject uuid.UUID, reason string) {
	t.Helper()
	list, err := o.DeadLetters(t.Context(), d.db, outbox.DeadLetterFilter{All: true}, 0, 2)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d dead letters: %v", len(list), err)
	}
	l := list[0]
	if l.EventID != id || l.SubjectID != (uuid.NullUUID{UUID: subject, Valid: true}) || l.Attempts != 3 || !strings.HasSuffix(l.LastError, reason) {
		t.Errorf("the dead letter is %v, want %s about %s with %q", l, id, subject, reason)
	}
	if event, err := outbox.Decode[OrderPlaced](&l.Envelope); err != nil || encodeJSON(t, event) != encodeJSON(t, order(poisonNote)) {
		t.Errorf("the dead letter has %+v %v", event, err)
	}
	for name, at := range map[string]time.Time{"created": l.CreatedAt, "given up": l.ExhaustedAt} {
		if age := time.Since(at); age < -time.Minute || age > suite.Timeout {
			t.Errorf("it was %s %v ago", name, age)
		}
	}
	if err := o.Check(t.Context(), d.db); err != nil {
		t.Error(err)
	}
}

// replay moves a dead letter back.
func (d *outboxDatabase) replay(t *testing.T, o *outbox.Outbox, id uuid.UUID) {
	t.Helper()
	if n, err := o.Replay(t.Context(), d.db, outbox.DeadLetterFilter{EventIDs: []uuid.UUID{id}}, 10); err != nil || n != 1 {
		t.Fatalf("%d replayed: %v", n, err)
	}
}
