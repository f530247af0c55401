package database

import (
	"syscall"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/outbox"
)

const pauseLease = 300 * time.Millisecond

// A process is stopped in the middle of an event until its lease is over, and goes on while
// another has its events: what it had to say of them changes nothing, and it tries none of the
// rest of its batch.
func TestOutboxPaused(t *testing.T) {
	t.Parallel()
	for _, paused := range []struct {
		name       string
		relay, yes bool
	}{
		{"relay published", true, true},
		{"relay failed", true, false},
		{"handler acked", false, true},
		{"handler failed", false, false},
	} {
		t.Run(paused.name, func(t *testing.T) {
			t.Parallel()
			onOutboxes(t, func(p *outboxPlace) { p.paused(paused.relay, paused.yes) })
		})
	}
}

func (p *outboxPlace) paused(relay, yes bool) {
	const events = 3
	t := p.t
	ids := p.put(events)
	p.task.Relay, p.task.Batch, p.task.Timeout = relay, events, pauseLease
	c := p.task.start(t)
	asked := c.asked()
	c.signal(syscall.SIGSTOP)
	p.want(events, "attempts = 1 AND delivered_at IS NULL AND next_retry_at <= "+p.task.Dialect.Now())

	// The other one has all of them, with a lease that lasts.
	config := p.task.worker(nil)
	config.DispatchTimeout = time.Minute
	s, err := p.Subscriber(p.db, config)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	messages, err := s.Subscribe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	held := receiveEvent(t, messages)
	if held.UUID != asked[0] || held.Metadata[outbox.MetadataAttempts] != "1" {
		t.Fatalf("got %s at attempt %s, want %s", held.UUID, held.Metadata[outbox.MetadataAttempts], asked[0])
	}
	c.signal(syscall.SIGCONT)
	c.answer(yes)
	for fenced := 0; fenced < events; {
		line := c.next(func(l childLine) bool { return true })
		switch {
		case line.Ask != nil && !relay:
			t.Fatalf("it goes on with %v", line.Ask)
		case line.Ask != nil: // a failed call is followed by others, for the events one by one
			c.answer(yes)
		case line.Events > 0 && line.Outcome != outbox.OutcomeFenced:
			t.Fatalf("%d events %s", line.Events, line.Outcome)
		}
		fenced += line.Events
	}
	p.want(events, "attempts = 2 AND delivered_at IS NULL AND last_error IS NULL AND next_retry_at > "+p.task.Dialect.Now())
	p.wantDead(0)
	held.Ack()
	for range events - 1 {
		receiveEvent(t, messages).Ack()
	}
	p.want(len(ids), "delivered_at IS NOT NULL AND attempts = 2 AND last_error IS NULL")
}
