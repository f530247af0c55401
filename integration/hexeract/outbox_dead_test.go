package hexeract

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

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
					d.wantDeadLetter(t, o, reason)
					d.want(t, o.Table(), "1 = 1", 0)
					d.replay(t, o)
					d.want(t, o.DeadLetterTable(), "1 = 1", 0)
				}
				d.succeeding(t, o, sides[2], id)
			})
		}
	})
}

// wantDeadLetter checks the only dead letter.
func (d *outboxDatabase) wantDeadLetter(t *testing.T, o *outbox.Outbox, reason string) {
	t.Helper()
	d.want(t, o.DeadLetterTable(), "attempts = 3 AND last_error LIKE '%"+reason+"'", 1)
}

// replay moves a dead letter back.
func (d *outboxDatabase) replay(t *testing.T, o *outbox.Outbox) {
	t.Helper()
	for _, s := range []string{
		"INSERT INTO " + o.Table() + " (event_id, event_type, payload, subject_id, created_at) SELECT event_id, event_type, payload, subject_id, created_at FROM " + o.DeadLetterTable(),
		"DELETE FROM " + o.DeadLetterTable(),
	} {
		if _, err := d.db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}
