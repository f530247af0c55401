package outboxsuite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

// While leases last, no two workers get the same event.
func twoWorkers(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	events := suite.Count(2000)
	tx, err := b.db.BeginTx(t.Context(), nil)
	must(t, err)
	for n := range events {
		_, err := b.PublishInTx(t.Context(), tx, nth(n))
		must(t, err)
	}
	must(t, tx.Commit())
	var (
		mu   sync.Mutex
		seen = make(map[string]int)
		wg   sync.WaitGroup
	)
	workers := make([]*outbox.Subscriber, 2)
	for w := range workers {
		c := quick(k)
		c.SettleTogether = true
		s, messages := b.subscribe(c, "")
		workers[w] = s
		wg.Go(func() {
			for msg := range messages {
				mu.Lock()
				seen[msg.UUID]++
				mu.Unlock()
				msg.Ack()
			}
		})
	}
	k.wait(t, outbox.OutcomeDelivered, events)
	for _, s := range workers {
		must(t, s.Close())
	}
	wg.Wait()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("event %s was delivered %d times", id, n)
		}
	}
	if len(seen) != events {
		t.Errorf("%d events were delivered, want %d", len(seen), events)
	}
	b.want(events, "delivered_at IS NOT NULL AND attempts = 1")
	k.want(t, outbox.OutcomeFenced, 0)
}

// A worker whose lease has run out, and whose event another worker has, changes nothing.
func fence(t *testing.T, d suite.SQLDatabase) {
	for _, late := range []string{"ack", "nack", "the last nack"} {
		for _, end := range []string{"ack", "nack"} {
			t.Run(late+" and "+end, func(t *testing.T) {
				b, slow, fast := newTable(t, d), newBook(), newBook()
				b.put(nth(0))
				c := quick(slow)
				c.RetryBaseDelay, c.NoJitter = time.Hour, true
				if late == "the last nack" {
					c.MaxAttempts = 1
				}
				first, messages := b.subscribe(c, "")
				held := receive(t, messages)
				b.expire()
				c.Observer, c.Logger, c.MaxAttempts = fast, fast.log.Logger(), 5
				_, messages = b.subscribe(c, "")
				again := receive(t, messages)
				if again.UUID != held.UUID {
					t.Fatalf("got %s, want %s", again.UUID, held.UUID)
				}
				if late == "ack" {
					held.Ack()
				} else {
					held.Nack()
				}
				slow.wait(t, outbox.OutcomeFenced, 1)
				b.wantDead(0)
				b.want(1, "attempts = 2 AND delivered_at IS NULL AND last_error IS NULL AND next_retry_at > "+d.Dialect.Now())
				if !strings.Contains(slow.log.String(), "the lease ran out") {
					t.Errorf("the log does not say so: %s", slow.log.String())
				}
				must(t, first.Close())
				if end == "ack" {
					again.Ack()
					fast.wait(t, outbox.OutcomeDelivered, 1)
					b.want(1, "attempts = 2 AND delivered_at IS NOT NULL AND last_error IS NULL")
				} else {
					again.Nack()
					fast.wait(t, outbox.OutcomeFailed, 1)
					b.want(1, "attempts = 2 AND delivered_at IS NULL AND last_error = 'nacked'")
				}
				fast.want(t, outbox.OutcomeFenced, 0)
			})
		}
	}
}

// The same when the other worker has given the row back, so that it has been tried as often as
// before.
func fenceReleased(t *testing.T, d suite.SQLDatabase) {
	b, slow, fast := newTable(t, d), newBook(), newBook()
	b.put(nth(0), nth(1))
	c := quick(slow)
	c.BatchSize = 2
	_, messages := b.subscribe(c, "")
	held := receive(t, messages)
	b.expire()
	c.Observer, c.Logger = fast, fast.log.Logger()
	other, _ := b.subscribe(c, "") // which nobody reads
	b.wait("attempts = 2", 2)
	must(t, other.Close())
	fast.want(t, outbox.OutcomeReleased, 2)
	b.want(2, "attempts = 1 AND next_retry_at IS NULL")
	held.Nack()
	slow.wait(t, outbox.OutcomeFenced, 1)
	b.want(0, "last_error IS NOT NULL")
}

// The same when the other claim is of the same instant, so that its lease is the same.
func fenceAttempts(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	b.put(nth(0), nth(1))
	_, messages := b.subscribe(quick(k), "")
	msg := receive(t, messages)
	b.exec("UPDATE TABLE SET attempts = attempts + 1 WHERE id = 1")
	msg.Ack()
	k.wait(t, outbox.OutcomeFenced, 1)
	receive(t, messages).Ack()
	k.wait(t, outbox.OutcomeDelivered, 1)
	b.want(1, "id = 1 AND attempts = 2 AND delivered_at IS NULL")
}

// A text that the column does not take is written as one that it does.
func textRefused(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	if d.Dialect == outbox.SQLite {
		b.exec("CREATE TRIGGER TABLE_text BEFORE UPDATE ON TABLE WHEN length(NEW.last_error) <> length(CAST(NEW.last_error AS BLOB)) BEGIN SELECT RAISE(ABORT, 'no ASCII'); END")
	} else {
		_, err := b.db.ExecContext(t.Context(), "ALTER TABLE "+b.name+" ADD CHECK (octet_length(last_error) = char_length(last_error))")
		must(t, err)
	}
	b.put(nth(0))
	s, err := b.Subscriber(d.Open(t), quick(k))
	must(t, err)
	defer s.Close()
	messages, err := s.Subscribe(t.Context(), "")
	must(t, err)
	msg := receive(t, messages)
	_, _ = outbox.KeepError(func(*message.Message) ([]*message.Message, error) { return nil, errors.New("no 🧀") })(msg)
	msg.Nack()
	k.wait(t, outbox.OutcomeFailed, 1)
	if text := b.strings("SELECT last_error FROM TABLE"); len(text) != 1 || text[0] != "no ?" {
		t.Errorf("errors %q", text)
	}
	receive(t, messages).Ack()
}

// Rows whose last attempt was lost with its worker end in the dead letters, those of a lease that
// lasts do not.
func withoutResult(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	b.put(nth(0), nth(1), nth(2), nth(3))
	b.exec("UPDATE TABLE SET attempts = 5, next_retry_at = "+d.Dialect.NowPlus("?"), d.Dialect.Interval(-time.Hour))
	b.exec("UPDATE TABLE SET last_error = 'no stock' WHERE id = 2")
	b.exec("UPDATE TABLE SET next_retry_at = "+d.Dialect.NowPlus("?")+" WHERE id = 3", d.Dialect.Interval(-10*time.Second))
	b.exec("UPDATE TABLE SET next_retry_at = NULL, attempts = 7 WHERE id = 4")
	b.subscribe(quick(k), "")
	k.wait(t, outbox.OutcomeDeadLettered, 3)
	b.want(1, "id = 3 AND attempts = 5") // within the time of one more attempt
	got := strings.Join(b.strings("SELECT last_error FROM TABLE_dead_letter ORDER BY id"), "|")
	const want = "the last attempt left no result|the last attempt left no result; before that: no stock|the last attempt left no result"
	if got != want {
		t.Errorf("errors %q, want %q", got, want)
	}
}

// Rows that cannot be decoded are as many as a batch, at the head of the table, and are in
// nobody's way.
func undecodable(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	bad := badRows(d.Dialect)
	for n, row := range bad {
		id := row.id
		if id == nil {
			id = d.Dialect.UUID(uuid.New())
		}
		for _, before := range row.before {
			b.exec(before)
		}
		b.exec("INSERT INTO TABLE (event_id, event_type, payload, created_at, attempts) VALUES (?, 'orders.placed', "+row.payload+", "+row.created+", "+fmt.Sprint(row.attempts)+")", id)
		if n == 0 {
			b.exec("UPDATE TABLE SET next_retry_at = " + d.Dialect.Now())
		}
		if n == 1 && d.Dialect == outbox.SQLite { // which would never come due
			b.exec("UPDATE TABLE SET next_retry_at = 'tomorrow' WHERE id = 2")
		}
	}
	b.put(nth(0))
	c := quick(k)
	c.BatchSize, c.MaxAttempts = len(bad), 3
	_, messages := b.subscribe(c, "")
	receive(t, messages).Ack()
	k.wait(t, outbox.OutcomeDelivered, 1)
	k.wait(t, outbox.OutcomeDeadLettered, len(bad))
	k.want(t, outbox.OutcomeUndecodable, 2*len(bad))
	b.want(1, "1 = 1")
	text := b.strings("SELECT last_error FROM TABLE_dead_letter ORDER BY id")
	for n, row := range bad {
		if n >= len(text) || !strings.Contains(text[n], "undecodable: "+row.reason) {
			t.Errorf("errors %q, want %q as number %d", text, row.reason, n)
		}
	}
}

type badRow struct {
	before           []string
	id               any // nil: a right one
	payload, created string
	attempts         int
	reason           string
}

func badRows(d outbox.Dialect) []badRow {
	deep := "'" + strings.Repeat("[", 128) + strings.Repeat("]", 128) + "'"
	now := d.Now()
	switch d {
	case outbox.PostgreSQL:
		return []badRow{
			{payload: deep, created: now, reason: "payload is malformed"},
			{payload: "'1e400'", created: now, reason: "payload is malformed"},
			{payload: "'{}'", created: "'infinity'", reason: "created_at"},
			{payload: "'{}'", created: "'-infinity'", attempts: -7, reason: "created_at"},
		}
	case outbox.MySQL:
		return []badRow{
			{payload: "'1e400'", created: now, reason: "payload is malformed"},
			{payload: "'1e400'", created: now, attempts: -7, reason: "payload is malformed"},
			{payload: "'{}'", created: "'0000-00-00 00:00:00'", reason: "created_at"}, // which MariaDB takes by default
		}
	}
	return []badRow{
		{id: uuid.NewString(), payload: "'{}'", created: now, reason: "event_id is text"},
		{id: string(uuid.New().NodeID()) + "0123456789", payload: "'{}'", created: now, reason: "event_id is text"},
		{id: []byte("short"), payload: "'{}'", created: now, reason: "event_id is no UUID"},
		{id: int64(7), payload: "'{}'", created: now, reason: "event_id is integer"},
		{payload: "CAST('{}' AS BLOB)", created: now, reason: "payload is blob"},
		{payload: "'no JSON'", created: now, attempts: -7, reason: "payload is malformed"},
		{payload: "''", created: now, reason: "payload is malformed"},
		{payload: deep, created: now, reason: "payload is malformed"},
		{payload: "'{}'", created: "'2026-01-02T03:04:05+01:00'", reason: "created_at"},
		{payload: "'{}'", created: "'yesterday'", reason: "created_at"},
		{payload: "'{}'", created: "1700000000", reason: "created_at"},
	}
}

// An event that is in the dead letters and in the table, because it was copied back, is there
// once when it fails again.
func deadAlready(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	b.put(nth(0))
	b.exec("INSERT INTO TABLE_dead_letter (event_id, event_type, payload, created_at, attempts, last_error) SELECT event_id, event_type, payload, created_at, 9, 'old' FROM TABLE")
	c := quick(k)
	c.MaxAttempts = 1
	_, messages := b.subscribe(c, "")
	receive(t, messages).Nack()
	k.wait(t, outbox.OutcomeDeadLettered, 1)
	b.want(0, "1 = 1")
	b.wantDead(1)
	if n := b.count("SELECT count(*) FROM TABLE_dead_letter WHERE attempts = 1 AND last_error = 'nacked'"); n != 1 {
		t.Error("the dead letter is not the new one")
	}
}

// A row that the dead letters do not take as it is goes there with what they take; and without
// the table of dead letters it stays where it is, in nobody's way, until there is one.
func uncopied(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	if d.Dialect == outbox.SQLite {
		b.exec("CREATE TRIGGER TABLE_old BEFORE INSERT ON TABLE_dead_letter WHEN NEW.created_at < '2000' BEGIN SELECT RAISE(ABORT, 'too old'); END")
	} else {
		// The suite writes TABLE for the table's name.
		_, err := b.db.ExecContext(t.Context(), "ALTER TABLE "+b.name+"_dead_letter ADD CHECK (created_at > '2000-01-01')")
		must(t, err)
	}
	b.put(nth(0), paid{nth(1)}, nth(2))
	b.exec("UPDATE TABLE SET created_at = ? WHERE id = 1", "1999-01-02 03:04:05")
	c := quick(k)
	c.MaxAttempts, c.DispatchTimeout, c.RetryMaxDelay = 1, time.Second, time.Millisecond
	_, messages := b.subscribe(c, "")
	receive(t, messages).Nack()
	k.wait(t, outbox.OutcomeDeadLettered, 1)
	if n := b.count("SELECT count(*) FROM TABLE_dead_letter WHERE created_at > '2001-01-01' AND last_error = 'nacked' AND event_type = 'orders.placed'"); n != 1 {
		t.Error("the row is not in the dead letters")
	}
	b.rename(b.name+"_dead_letter", "away_"+b.name)
	receive(t, messages).Nack()
	receive(t, messages).Ack()
	k.wait(t, outbox.OutcomeDelivered, 1)
	b.want(1, "id = 2 AND attempts = 1 AND delivered_at IS NULL AND last_error = 'nacked'")
	k.want(t, outbox.OutcomeDeadLettered, 1)
	b.rename("away_"+b.name, b.name+"_dead_letter")
	k.wait(t, outbox.OutcomeDeadLettered, 2)
	b.want(1, "1 = 1")
	b.wantDead(2)
}

// Close settles what is being handled and gives back the rest of the batch.
func closing(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	for n := range 10 {
		b.put(nth(n))
	}
	s, messages := b.subscribe(quick(k), "")
	receive(t, messages).Ack()
	msg := receive(t, messages)
	b.want(10, "attempts = 1")
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	// The subscriber is closing once it takes no more subscriptions.
	for over, cancel := context.WithCancel(t.Context()); ; {
		cancel()
		if _, err := s.Subscribe(over, "none"); err != nil {
			break
		}
	}
	if msg.Context().Err() != nil {
		t.Error("Close has ended the context of a message that is being handled")
	}
	msg.Ack()
	must(t, <-closed)
	must(t, s.Close())
	if msg, ok := <-messages; ok {
		t.Errorf("message %s after Close", msg.UUID)
	}
	b.want(2, "delivered_at IS NOT NULL AND attempts = 1")
	b.want(8, "delivered_at IS NULL AND attempts = 0 AND next_retry_at IS NULL")
	k.want(t, outbox.OutcomeReleased, 8)
	k.want(t, outbox.OutcomeDelivered, 2)
}

// The loss of the database is logged once, and events go on when it is back. Here the table
// goes away, which to a worker is the same.
func outage(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	c := quick(k)
	b.rename(b.name, "away_"+b.name)
	_, messages := b.subscribe(c, "")
	k.waitLog(t, "no events can be claimed")
	b.rename("away_"+b.name, b.name)
	b.put(nth(0))
	receive(t, messages).Ack()
	k.wait(t, outbox.OutcomeDelivered, 1)
	log := k.log.String()
	if n := strings.Count(log, "no events can be claimed"); n != 1 {
		t.Errorf("the outage is logged %d times: %s", n, log)
	}
	if !strings.Contains(log, "events can be claimed again") {
		t.Errorf("the end of the outage is not logged: %s", log)
	}
}

// The time zone of a session changes nothing: all times are by the clock of the database.
func timeZone(t *testing.T, d suite.SQLDatabase) {
	b, k := newTable(t, d), newBook()
	set := map[outbox.Dialect]string{outbox.PostgreSQL: "SET TIME ZONE 'Asia/Tokyo'", outbox.MySQL: "SET time_zone = '+09:00'", outbox.SQLite: "PRAGMA user_version"}
	b.put(nth(0), nth(1))
	east := d.Open(t)
	east.SetMaxOpenConns(1)
	_, err := east.ExecContext(t.Context(), set[d.Dialect])
	must(t, err)
	_, err = b.PublishInTx(t.Context(), east, nth(2))
	must(t, err)
	c := quick(k)
	c.RetryBaseDelay, c.NoJitter = 10*time.Minute, true
	c.RetryMaxDelay = c.RetryBaseDelay
	s, err := b.Subscriber(east, c)
	must(t, err)
	defer s.Close()
	messages, err := s.Subscribe(t.Context(), "")
	must(t, err)
	receive(t, messages).Nack()
	receive(t, messages).Ack()
	receive(t, messages).Ack()
	k.wait(t, outbox.OutcomeDelivered, 2)
	got := b.count("SELECT count(*) FROM TABLE WHERE id = 1 AND next_retry_at > "+d.Dialect.NowPlus("?")+" AND next_retry_at <= "+d.Dialect.NowPlus("?"),
		d.Dialect.Interval(5*time.Minute), d.Dialect.Interval(10*time.Minute))
	if got != 1 {
		t.Error("the failed event is not due in ten minutes")
	}
}
