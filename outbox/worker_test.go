package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/outbox"
)

// nowhere is a database that does not answer.
type nowhere struct{}

func (nowhere) Connect(context.Context) (driver.Conn, error) {
	return nil, errors.New("connection refused")
}
func (nowhere) Driver() driver.Driver { return nil }

type publisher struct{}

func (publisher) Publish(string, ...*message.Message) error { return nil }
func (publisher) Close() error                              { return nil }

func TestWorkerConfig(t *testing.T) {
	db := sql.OpenDB(nowhere{})
	t.Cleanup(func() { db.Close() })
	o, err := outbox.New(outbox.Config{Dialect: outbox.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	negative := outbox.WorkerConfig{
		PollInterval: -1, BatchSize: -1, MaxAttempts: -1, RetryBaseDelay: -1, RetryMaxDelay: -1, MinCycleDelay: -1, DispatchTimeout: -1, CloseTimeout: -1,
	}
	const all = "outbox: X.PollInterval is negative\noutbox: X.BatchSize is negative\noutbox: X.MaxAttempts is negative\noutbox: X.RetryBaseDelay is negative\n" +
		"outbox: X.RetryMaxDelay is negative\noutbox: X.MinCycleDelay is negative\noutbox: X.DispatchTimeout is negative\noutbox: X.CloseTimeout is negative"
	for _, test := range []struct {
		c    outbox.WorkerConfig
		want string
	}{
		{outbox.WorkerConfig{}, ""},
		{outbox.WorkerConfig{BatchSize: 10_000, DispatchTimeout: time.Millisecond}, ""},
		{outbox.WorkerConfig{BatchSize: 10_001, DispatchTimeout: time.Microsecond}, "outbox: X.BatchSize is 10001, at most 10000\noutbox: X.DispatchTimeout is 1µs, at least 1ms"},
		{negative, all},
	} {
		_, subErr := o.Subscriber(db, test.c)
		_, relayErr := o.Relay(db, publisher{}, outbox.RelayConfig{WorkerConfig: test.c})
		for name, err := range map[string]error{"WorkerConfig": subErr, "RelayConfig": relayErr} {
			want := strings.ReplaceAll(test.want, "X", name)
			if err == nil && want != "" || err != nil && err.Error() != want {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
	if _, err := o.Subscriber(nil, outbox.WorkerConfig{BatchSize: -1}); err == nil || err.Error() != "outbox: no database\noutbox: WorkerConfig.BatchSize is negative" {
		t.Error(err)
	}
	if _, err := o.Relay(nil, nil, outbox.RelayConfig{}); err == nil || err.Error() != "outbox: no database\noutbox: no publisher" {
		t.Error(err)
	}
}

func TestHookForm(t *testing.T) {
	if form, err := (outbox.HookForm{Tenant: "acme"}).Form(); form != nil || err == nil || err.Error() != "outbox: HookForm has no Source" {
		t.Error(err)
	}
}

// A type that a typed message cannot have is refused, each time.
func TestTypedMessage(t *testing.T) {
	e := outbox.Restore(outbox.NewID(), strings.Repeat("t", 256), []byte("{}"), uuid.NullUUID{}, time.Now(), 0, "", time.Time{}, time.Time{})
	if msg, err := outbox.TypedMessage(e); msg != nil || !envelope.IsPermanent(err) {
		t.Errorf("%v, %v", msg, err)
	}
}

// Without a database subscriptions go on, and end when they are told to.
func TestSubscriberWithoutDatabase(t *testing.T) {
	db := sql.OpenDB(nowhere{})
	t.Cleanup(func() { db.Close() })
	o, err := outbox.New(outbox.Config{Dialect: outbox.PostgreSQL})
	if err != nil {
		t.Fatal(err)
	}
	s, err := o.Subscriber(db, outbox.WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, err := s.Subscribe(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Subscribe(t.Context(), "orders.placed")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if msg, ok := <-first; ok {
		t.Errorf("message %v", msg)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if msg, ok := <-second; ok {
		t.Errorf("message %v", msg)
	}
	if _, err := s.Subscribe(t.Context(), ""); err == nil {
		t.Error("a closed subscriber takes a subscription")
	}
	r, err := o.Relay(db, publisher{}, outbox.RelayConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(ctx); err != nil { // which has ended
		t.Error(err)
	}
}
