package outboxsuite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

// A sink is a publisher that keeps what it takes.
type sink struct {
	mu     sync.Mutex
	topics []string
	taken  []*message.Message
	calls  int
	// refuse, where it is set, says of a message that it is not taken. It ends the call, after
	// what is before the message was taken.
	refuse func(topic string, msg *message.Message) error
}

func (s *sink) Publish(topic string, messages ...*message.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	for _, msg := range messages {
		if s.refuse != nil {
			if err := s.refuse(topic, msg); err != nil {
				return err
			}
		}
		s.topics, s.taken = append(s.topics, topic), append(s.taken, msg.Copy())
	}
	return nil
}

func (s *sink) Close() error { return nil }

// numbers are the events that were taken, in their order.
func (s *sink) numbers(t testing.TB) (out []int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, msg := range s.taken {
		out = append(out, number(t, msg))
	}
	return out
}

func number(t testing.TB, msg *message.Message) int {
	t.Helper()
	var event placed
	must(t, json.Unmarshal(msg.Payload, &event))
	return event.N
}

func relayConfig(k *book) outbox.RelayConfig { return outbox.RelayConfig{WorkerConfig: quick(k)} }

func relayForms(t *testing.T, d suite.SQLDatabase) {
	b, subject := newTable(t, d), uuid.New()
	id := b.put(nth(1))[0]
	hook, err := outbox.HookForm{Source: "orders", Tenant: "acme"}.Form()
	must(t, err)
	b.putFor(subject, paid{nth(2)})
	for _, form := range []struct {
		name  string
		c     outbox.RelayConfig
		check func(t *testing.T, s *sink)
	}{
		{"typed", outbox.RelayConfig{}, func(t *testing.T, s *sink) {
			if got := strings.Join(s.topics, " "); got != "orders.placed orders.paid" {
				t.Errorf("topics %s", got)
			}
			e, err := bus.FromMessage(s.taken[0])
			must(t, err)
			if e.MessageID != id || e.CorrelationID != id || e.MessageType != "orders.placed" || len(e.Headers) != 0 {
				t.Errorf("got %v, want the ids of %s", e, id)
			}
			if age := time.Since(e.PublishedAt); age < -time.Hour || age > time.Hour {
				t.Errorf("published %v ago", age)
			}
			e, err = bus.FromMessage(s.taken[1])
			must(t, err)
			if e.Headers[outbox.MetadataSubjectID] != subject.String() {
				t.Errorf("headers %v, want the subject %s", e.Headers, subject)
			}
		}},
		{"hook", outbox.RelayConfig{
			Form:  hook,
			Topic: func(e *outbox.Envelope) string { return "hooks." + e.EventType },
		}, func(t *testing.T, s *sink) {
			if got := strings.Join(s.topics, " "); got != "hooks.orders.placed hooks.orders.paid" {
				t.Errorf("topics %s", got)
			}
			e, err := envelope.FromMessage(s.taken[0])
			must(t, err)
			if s.taken[0].UUID != id.String() || e.ID != id.String() || e.SourceID != "orders" || e.TenantID != "acme" ||
				e.ContentType != "application/json" || e.Metadata[outbox.MetadataEventType] != "orders.placed" || e.OrderingKey != "" {
				t.Errorf("got %v", e)
			}
			e, err = envelope.FromMessage(s.taken[1])
			must(t, err)
			if e.OrderingKey != subject.String() {
				t.Errorf("ordering key %q, want %s", e.OrderingKey, subject)
			}
			wire, err := e.AppendWire(nil)
			must(t, err)
			if _, err := envelope.ParseWire(wire); err != nil {
				t.Errorf("the hook cannot be sealed and read: %v", err)
			}
		}},
	} {
		t.Run(form.name, func(t *testing.T) {
			k, s := newBook(), &sink{}
			form.c.WorkerConfig = quick(k)
			b.exec("UPDATE TABLE SET delivered_at = NULL, attempts = 0, next_retry_at = NULL")
			stop := b.run(s, form.c)
			k.wait(t, outbox.OutcomeDelivered, 2)
			stop()
			form.check(t, s)
		})
	}
}

// A publisher that fails in the middle of a batch, at a poison event: the others are published,
// it is tried again with the same id and ends in the dead letters.
func relayPart(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	for n := range 9 {
		if n == 4 {
			b.put(poison{nth(n)})
		} else {
			b.put(nth(n))
		}
	}
	ids := make(map[string]int)
	s := &sink{refuse: func(_ string, msg *message.Message) error {
		if msg.Metadata[bus.MetadataType] != "orders.poison" {
			return nil
		}
		ids[msg.UUID]++
		if len(ids) > 1 {
			t.Errorf("an event has the ids %v", ids)
		}
		if ids[msg.UUID] == 2 {
			panic("publisher")
		}
		return errors.New("refused")
	}}
	c := relayConfig(k)
	c.MaxAttempts = 3
	c.Topic = func(*outbox.Envelope) string { return "all" }
	b.run(s, c)
	k.wait(t, outbox.OutcomeDelivered, 8)
	k.wait(t, outbox.OutcomeDeadLettered, 1)
	k.want(t, outbox.OutcomeFailed, 2)
	b.want(8, "delivered_at IS NOT NULL AND attempts = 1")
	b.want(8, "1 = 1")
	if text := b.strings("SELECT last_error FROM TABLE_dead_letter"); len(text) != 1 || text[0] != "refused" {
		t.Errorf("errors %q", text)
	}
	seen := make(map[int]bool)
	for _, n := range s.numbers(t) {
		seen[n] = true
	}
	if len(seen) != 8 || seen[4] {
		t.Errorf("published %v", seen)
	}
}

// While the publisher is away no attempt counts, and everything is published when it is back.
func relayAway(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	for n := range 20 {
		b.put(nth(n))
	}
	left := 30
	s := &sink{refuse: func(string, *message.Message) error {
		if left--; left >= 0 {
			return envelope.Transient(errors.New("broker is down"))
		}
		return nil
	}}
	c := relayConfig(k)
	c.MaxAttempts = 1
	b.run(s, c)
	k.wait(t, outbox.OutcomeDelivered, 20)
	b.want(20, "delivered_at IS NOT NULL AND attempts = 1")
	b.wantDead(0)
	if n, _ := k.count(outbox.OutcomePostponed); n == 0 {
		t.Error("no event was postponed")
	}
	log := k.log.String()
	if strings.Count(log, "the publisher cannot be reached") != 1 || strings.Count(log, "the publisher can be reached again") != 1 {
		t.Errorf("the outage is not logged once: %s", log)
	}
}

// Within a subject the order is kept: an event that fails holds back what is behind it until it
// is published or dead-lettered, and nothing else.
func relayOrder(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	subjects := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	for n := range 15 {
		var e outbox.Event = nth(n)
		if n%2 == 1 {
			e = paid{nth(n)} // another topic
		}
		b.putFor(subjects[n%3], e)
	}
	b.put(nth(100))
	failures := map[int]int{3: 2, 7: 1000} // of subject 0 for a while, of subject 1 for ever
	s := &sink{refuse: func(_ string, msg *message.Message) error {
		n := number(t, msg)
		if failures[n]--; failures[n] >= 0 {
			return errors.New("refused")
		}
		return nil
	}}
	c := relayConfig(k)
	c.Ordered, c.MaxAttempts = true, 8
	b.run(s, c)
	k.wait(t, outbox.OutcomeDelivered, 15)
	k.wait(t, outbox.OutcomeDeadLettered, 1)
	got := make([][]int, 3)
	for _, n := range s.numbers(t) {
		if n < 100 {
			if of := got[n%3]; len(of) == 0 || of[len(of)-1] != n {
				got[n%3] = append(of, n)
			}
		}
	}
	if text := fmt.Sprint(got); text != "[[0 3 6 9 12] [1 4 10 13] [2 5 8 11 14]]" {
		t.Errorf("published %s", text)
	}
}

// Any number of events of a subject that is held up, more than a batch, are in nobody's way.
func relayHeldUp(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	held, other := uuid.New(), uuid.New()
	b.putFor(held, poison{nth(0)})
	for n := range 20 {
		b.putFor(held, nth(1+n))
	}
	b.putFor(other, nth(21), nth(22))
	b.put(nth(23))
	s := &sink{refuse: func(topic string, _ *message.Message) error {
		if topic == "orders.poison" {
			return errors.New("refused")
		}
		return nil
	}}
	c := relayConfig(k)
	c.Ordered, c.BatchSize, c.RetryBaseDelay, c.NoJitter = true, 5, time.Hour, true
	b.run(s, c)
	k.wait(t, outbox.OutcomeDelivered, 3)
	k.want(t, outbox.OutcomeFailed, 1)
	if got := fmt.Sprint(s.numbers(t)); got != "[21 22 23]" {
		t.Errorf("published %s", got)
	}
	b.exec("UPDATE TABLE SET event_type = 'orders.placed' WHERE id = 1")
	b.expire() // only now: the relay is looking
	k.wait(t, outbox.OutcomeDelivered, 24)
	if got := fmt.Sprint(s.numbers(t)[3:]); got != "[0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20]" {
		t.Errorf("published %s", got)
	}
}

// Two ordered relays at once, and events that fail now and then: each subject's events are
// published in their order.
func relayOrderOfTwo(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	const subjects = 7
	events := suite.Count(2000)
	ids := make([]uuid.UUID, subjects)
	for n := range ids {
		ids[n] = uuid.New()
	}
	tx, err := b.db.BeginTx(t.Context(), nil)
	must(t, err)
	for n := range events {
		_, err := b.PublishInTxWithSubject(t.Context(), tx, ids[n%subjects], nth(n))
		must(t, err)
	}
	must(t, tx.Commit())
	var failed sync.Map
	s := &sink{refuse: func(_ string, msg *message.Message) error {
		if n := number(t, msg); n%17 == 0 {
			if _, again := failed.LoadOrStore(n, true); !again {
				return errors.New("refused")
			}
		}
		return nil
	}}
	c := relayConfig(k)
	c.Ordered, c.BatchSize = true, 20
	stops := []func(){b.run(s, c), b.run(s, c)}
	k.wait(t, outbox.OutcomeDelivered, events)
	for _, stop := range stops {
		stop()
	}
	next := make([]int, subjects)
	for _, n := range s.numbers(t) {
		switch at := next[n%subjects]; {
		case n/subjects == at:
			next[n%subjects]++
		case n/subjects > at:
			t.Fatalf("subject %d: event %d was published before event %d", n%subjects, n/subjects, at)
		}
	}
	k.want(t, outbox.OutcomeFenced, 0)
	b.want(events, "delivered_at IS NOT NULL")
}

// Rows that are committed behind rows with higher ids are published like every other.
func relayCommits(t *testing.T, d suite.SQLDatabase) {
	b, k, s := newTable(t, d), newBook(), &sink{}
	held := 0
	if d.Dialect != outbox.SQLite { // which has one writer
		tx, err := b.db.BeginTx(t.Context(), nil)
		must(t, err)
		_, err = b.PublishInTx(t.Context(), tx, nth(-1))
		must(t, err)
		b.put(nth(-2), nth(-3))
		b.run(s, relayConfig(k))
		k.wait(t, outbox.OutcomeDelivered, 2)
		must(t, tx.Commit())
		k.wait(t, outbox.OutcomeDelivered, 3)
		held = 3
	} else {
		b.run(s, relayConfig(k))
	}
	const writers = 16
	each := suite.Count(10_000) / writers
	var wg sync.WaitGroup
	for w := range writers {
		db := b.db
		wg.Go(func() {
			for n := 0; n < each; {
				tx, err := db.BeginTx(t.Context(), nil)
				for range min(1+n%5, each-n) {
					if err == nil {
						_, err = b.PublishInTx(context.WithoutCancel(t.Context()), tx, nth(w*each+n))
						n++
					}
				}
				if err == nil {
					err = tx.Commit()
				}
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
		if d.Dialect == outbox.SQLite {
			wg.Wait() // one after the other
		}
	}
	wg.Wait()
	k.wait(t, outbox.OutcomeDelivered, held+writers*each)
	seen := make(map[int]int)
	for _, n := range s.numbers(t) {
		seen[n]++
	}
	for n := range writers * each {
		if seen[n] != 1 {
			t.Errorf("event %d was published %d times", n, seen[n])
		}
	}
	b.want(0, "delivered_at IS NULL")
}

// A bell wakes up a relay.
type bell chan error

func (b bell) Wait(ctx context.Context) error {
	select {
	case err := <-b:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A relay that polls once an hour is woken up when there is something to do, and goes on when
// its waker has failed.
func relayWoken(t *testing.T, d suite.SQLDatabase) {
	b, k, s := newTable(t, d), newBook(), &sink{}
	rings := make(bell)
	c := relayConfig(k)
	c.PollInterval, c.Waker = time.Hour, rings
	b.put(nth(0))
	stop := b.run(s, c)
	k.wait(t, outbox.OutcomeDelivered, 1) // which was there when it began
	for n := range 3 {
		b.put(nth(1 + n))
		rings <- nil
		k.wait(t, outbox.OutcomeDelivered, 2+n)
	}
	rings <- errors.New("connection lost")
	b.put(nth(4))
	rings <- nil
	k.wait(t, outbox.OutcomeDelivered, 5)
	if n := strings.Count(k.log.String(), "is not woken up"); n != 1 {
		t.Errorf("the failure is logged %d times", n)
	}
	stop() // in the middle of a Wait
}

// The end of Run gives back what was not published.
func relayStop(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	b.put(nth(0), paid{nth(1)}, poison{nth(2)})
	ctx, cancel := context.WithCancel(t.Context())
	s := &sink{refuse: func(string, *message.Message) error {
		cancel() // in the middle of the first call
		return nil
	}}
	r, err := b.Relay(b.db, s, relayConfig(k))
	must(t, err)
	must(t, r.Run(ctx))
	b.want(1, "id = 1 AND delivered_at IS NOT NULL AND attempts = 1")
	b.want(2, "delivered_at IS NULL AND attempts = 0 AND next_retry_at IS NULL")
	k.want(t, outbox.OutcomeReleased, 2)
}
