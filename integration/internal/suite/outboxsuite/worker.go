package outboxsuite

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

func success(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	ids := b.put(nth(0), nth(1), nth(2))
	subject := uuid.New()
	b.putFor(subject, nth(3))
	_, messages := b.subscribe(quick(k), "")
	for n := range 4 {
		msg := receive(t, messages)
		if n < len(ids) && msg.UUID != ids[n].String() {
			t.Errorf("message %d is %s, want %s", n, msg.UUID, ids[n])
		}
		if want := fmt.Sprintf(`{"n":%d}`, n); strings.ReplaceAll(string(msg.Payload), " ", "") != want {
			t.Errorf("message %d has the payload %s, want %s", n, msg.Payload, want)
		}
		if got := msg.Metadata[outbox.MetadataEventType]; got != "orders.placed" {
			t.Errorf("type %q", got)
		}
		if got := msg.Metadata[outbox.MetadataAttempts]; got != "0" {
			t.Errorf("attempts %q", got)
		}
		if n == 3 && msg.Metadata[outbox.MetadataSubjectID] != subject.String() {
			t.Errorf("subject %q", msg.Metadata[outbox.MetadataSubjectID])
		}
		if _, ok := msg.Context().Deadline(); !ok {
			t.Error("the message has no deadline")
		}
		// The row is claimed for as long as a batch may take, and not settled before the Ack.
		b.want(1, fmt.Sprintf("id = %d AND attempts = 1 AND delivered_at IS NULL AND next_retry_at > %s", n+1, d.Dialect.Now()))
		msg.Ack()
		k.wait(t, outbox.OutcomeDelivered, n+1)
		if msg.Context().Err() == nil {
			t.Error("the context outlives the message")
		}
	}
	b.want(4, "delivered_at IS NOT NULL AND attempts = 1 AND last_error IS NULL")
	b.want(4, "delivered_at >= created_at AND delivered_at <= "+d.Dialect.Now())
}

func failure(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	b.put(nth(0))
	c := quick(k)
	c.RetryBaseDelay, c.NoJitter = 3*time.Hour, true
	_, messages := b.subscribe(c, "")
	receive(t, messages).Nack()
	k.wait(t, outbox.OutcomeFailed, 1)
	for _, w := range []struct {
		from, to time.Duration
		n        int
	}{{2 * time.Hour, 4 * time.Hour, 0}, {-time.Hour, 2 * time.Hour, 0}, {0, 301 * time.Second, 1}} {
		// The delay is the base, at most the limit, by the database's clock.
		got := b.count("SELECT count(*) FROM TABLE WHERE attempts = 1 AND last_error = 'nacked' AND delivered_at IS NULL AND next_retry_at > "+
			d.Dialect.NowPlus("?")+" AND next_retry_at <= "+d.Dialect.NowPlus("?"), d.Dialect.Interval(w.from), d.Dialect.Interval(w.to))
		if w.n == 0 && w.to == 2*time.Hour {
			continue
		}
		if got != w.n {
			t.Errorf("due again in %v to %v: %d, want %d", w.from, w.to, got, w.n)
		}
	}
	b.expire()
	msg := receive(t, messages)
	if got := msg.Metadata[outbox.MetadataAttempts]; got != "1" {
		t.Errorf("attempts %q, want 1", got)
	}
	msg.Ack()
	k.wait(t, outbox.OutcomeDelivered, 1)
	b.want(1, "attempts = 2 AND last_error = 'nacked' AND delivered_at IS NOT NULL")
}

// A router's handler fails or panics until its events are dead-lettered, and an event among them
// is delivered.
func exhaustion(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	b.put(paid{nth(0)}, poison{nth(1)}, nth(2))
	c := quick(k)
	c.MaxAttempts = 2
	s, err := b.Subscriber(d.Open(t), c)
	must(t, err)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	must(t, err)
	router.AddMiddleware(outbox.KeepError)
	router.AddConsumerHandler("orders", "", s, func(msg *message.Message) error {
		switch msg.Metadata[outbox.MetadataEventType] {
		case "orders.paid":
			return errors.New("no stock\x00 " + strings.Repeat("ö", 600))
		case "orders.poison":
			panic("out of cheese")
		}
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- router.Run(t.Context()) }()
	k.wait(t, outbox.OutcomeDeadLettered, 2)
	k.wait(t, outbox.OutcomeDelivered, 1)
	must(t, router.Close())
	must(t, <-done)
	k.want(t, outbox.OutcomeFailed, 2)
	b.want(1, "1 = 1")
	b.wantDead(2)
	if n := b.count("SELECT count(*) FROM TABLE_dead_letter WHERE attempts = 2 AND exhausted_at >= created_at"); n != 2 {
		t.Errorf("%d dead letters have all that they need", n)
	}
	text := b.strings("SELECT last_error FROM TABLE_dead_letter ORDER BY id")
	if want := "no stock\uFFFD " + strings.Repeat("ö", 506); len(text) != 2 || text[0] != want && text[1] != want {
		t.Errorf("errors %q, want one of %d bytes", text, len(want))
	}
	if joined := strings.Join(text, "|"); !strings.Contains(joined, "panic: out of cheese") {
		t.Errorf("errors %q, want the panic", text)
	}
	if log := k.log.String(); strings.Contains(log, "cheese") || strings.Contains(log, "stock") {
		t.Errorf("the log has a handler's text: %s", log)
	}
}

func filter(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	for n := range 30 {
		b.put(nth(n))
	}
	b.put(paid{nth(30)}, nth(31), paid{nth(32)})
	_, messages := b.subscribe(quick(k), "orders.paid")
	for range 2 {
		msg := receive(t, messages)
		if got := msg.Metadata[outbox.MetadataEventType]; got != "orders.paid" {
			t.Errorf("type %q", got)
		}
		msg.Ack()
	}
	k.wait(t, outbox.OutcomeDelivered, 2)
	b.want(31, "attempts = 0 AND delivered_at IS NULL AND next_retry_at IS NULL AND event_type = 'orders.placed'")
}

func timeout(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	b.put(nth(0), nth(1))
	c := quick(k)
	c.DispatchTimeout, c.MaxAttempts = time.Second, 1
	_, messages := b.subscribe(c, "")
	slow := receive(t, messages)
	<-slow.Context().Done()
	k.wait(t, outbox.OutcomeDeadLettered, 1)
	slow.Ack() // too late
	receive(t, messages).Ack()
	k.wait(t, outbox.OutcomeDelivered, 1)
	b.wantDead(1)
	if text := b.strings("SELECT last_error FROM TABLE_dead_letter"); !strings.Contains(text[0], "timeout") {
		t.Errorf("error %q, want a timeout", text)
	}
}

// Acked events of a batch are settled at its end; a failure among them at once.
func together(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	for n := range 5 {
		b.put(nth(n))
	}
	c := quick(k)
	c.SettleTogether, c.RetryBaseDelay, c.NoJitter = true, time.Hour, true
	_, messages := b.subscribe(c, "")
	for n := range 5 {
		msg := receive(t, messages)
		if n == 2 {
			msg.Nack()
			k.wait(t, outbox.OutcomeFailed, 1)
			continue
		}
		if n < 4 {
			msg.Ack()
			continue
		}
		b.want(0, "delivered_at IS NOT NULL")
		msg.Ack()
	}
	k.wait(t, outbox.OutcomeDelivered, 4)
	b.want(4, "delivered_at IS NOT NULL")
	b.want(1, "id = 3 AND delivered_at IS NULL AND last_error = 'nacked'")
}
