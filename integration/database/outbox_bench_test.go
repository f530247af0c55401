package database

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope/integration/servers"
	"github.com/watermill-envelope/envelope/outbox"
)

// durable starts a PostgreSQL that loses nothing that it has committed, whatever happens to the
// machine: as in production, and unlike the tests' own.
func durable(b *testing.B) outboxOn {
	b.Helper()
	server, err := servers.StartPostgres(b.Context(), servers.PostgresOptions{Settings: []string{
		"fsync=on", "synchronous_commit=on", "full_page_writes=on", "max_wal_size=4GB",
	}})
	if err != nil {
		b.Fatal(err)
	}
	servers.CloseAfter(b, server)
	return outboxOn{"PostgreSQL", "pgx", server.URL(), outbox.PostgreSQL}
}

// A sink is a GoChannel whose messages are counted.
type sink struct {
	*gochannel.GoChannel
	taken atomic.Int64
	more  chan struct{}
}

func newSink(b *testing.B, topic string) *sink {
	b.Helper()
	s := &sink{GoChannel: gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 1000}, watermill.NopLogger{}), more: make(chan struct{}, 1)}
	b.Cleanup(func() { s.Close() })
	messages, err := s.Subscribe(b.Context(), topic)
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for msg := range messages {
			msg.Ack()
			s.taken.Add(1)
			select {
			case s.more <- struct{}{}:
			default:
			}
		}
	}()
	return s
}

// wait waits until so many messages were taken.
func (s *sink) wait(b *testing.B, n int64) {
	b.Helper()
	for over := time.After(5 * time.Minute); s.taken.Load() < n; {
		select {
		case <-s.more:
		case <-over:
			b.Fatalf("%d of %d messages were taken", s.taken.Load(), n)
		}
	}
}

// A padded is an event of a KiB.
type padded struct {
	Text string `json:"text"`
}

// EventType implements outbox.Event.
func (padded) EventType() string { return "tests.padded" }

var kib = padded{strings.Repeat("x", 1024-len(`{"text":""}`))}

// What a relay and Watermill's forwarder get from PostgreSQL to a GoChannel, of events of 1 KiB, in
// turns on one server. The forwarder reads from watermill-sql as its documentation has it, but for
// a shorter pause: from the two tables that it offers for PostgreSQL, that of a log, with offsets,
// and that of a queue, whose messages it marks; and from the log once more in batches of 1, which
// its documentation calls the safest.
//
// Batches are of 100 otherwise. Each side forgets at most a batch of what it has published when
// it crashes. While a batch is published the forwarder has a transaction open; the relay has
// none, and writes each row twice.
func BenchmarkOutboxRelay(b *testing.B) {
	const events = 2000
	d := durable(b)
	db := open(b, d.driver, d.source)
	ways := []struct {
		name   string
		events int
		run    func(events int) time.Duration
		took   time.Duration
	}{
		{name: "relay", events: events, run: relayRate(b, d, db)},
		{name: "log", events: events, run: forwarderRate(b, db, "log", wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: 100}, wsql.DefaultPostgreSQLOffsetsAdapter{})},
		{name: "queue", events: events, run: forwarderRate(b, db, "queue", wsql.PostgreSQLQueueSchema{SubscribeBatchSize: 100}, wsql.PostgreSQLQueueOffsetsAdapter{})},
		{name: "log1", events: events / 10, run: forwarderRate(b, db, "log1", wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: 1}, wsql.DefaultPostgreSQLOffsetsAdapter{})},
	}
	for _, way := range ways {
		way.run(events / 10) // warm
	}
	for b.Loop() {
		for i := range ways {
			ways[i].took += ways[i].run(ways[i].events)
		}
	}
	rate := func(i int) float64 { return float64(ways[i].events) * float64(b.N) / ways[i].took.Seconds() }
	for i, way := range ways {
		b.ReportMetric(rate(i), way.name+"/s")
		if i > 0 {
			b.ReportMetric(rate(0)/rate(i), "x-"+way.name)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// relayRate returns a function that writes events and returns how long a relay needs for them.
func relayRate(b *testing.B, d outboxOn, db *sql.DB) func(events int) time.Duration {
	o := applied(b, d, db, outbox.Config{Table: "bench_relay"})
	s := newSink(b, kib.EventType())
	total := int64(0)
	return func(events int) time.Duration {
		inTx(b, db, func(ctx context.Context, tx *sql.Tx) (err error) {
			for n := 0; n < events && err == nil; n++ {
				_, err = o.PublishInTx(ctx, tx, kib)
			}
			return err
		})
		r, err := o.Relay(db, s, outbox.RelayConfig{WorkerConfig: outbox.WorkerConfig{BatchSize: 100}})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		total += int64(events)
		begin := time.Now()
		go func() { done <- r.Run(ctx) }()
		s.wait(b, total)
		took := time.Since(begin)
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		return took
	}
}

// forwarderRate is relayRate of Watermill's forwarder.
func forwarderRate(b *testing.B, db *sql.DB, name string, schema wsql.SchemaAdapter, offsets wsql.OffsetsAdapter) func(events int) time.Duration {
	topic := "bench_forwarder_" + name
	// The shortest pause between two looks; the default is a second.
	const pause = time.Millisecond
	subscriber := func() *wsql.Subscriber {
		s, err := wsql.NewSubscriber(wsql.BeginnerFromStdSQL(db), wsql.SubscriberConfig{
			SchemaAdapter: schema, OffsetsAdapter: offsets, InitializeSchema: true, PollInterval: pause,
		}, watermill.NopLogger{})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	if err := subscriber().SubscribeInitialize(topic); err != nil {
		b.Fatal(err)
	}
	const to = "to"
	s := newSink(b, to)
	payload := []byte(`{"text":"` + kib.Text + `"}`)
	total := int64(0)
	return func(events int) time.Duration {
		inTx(b, db, func(_ context.Context, tx *sql.Tx) error {
			inner, err := wsql.NewPublisher(wsql.TxFromStdSQL(tx), wsql.PublisherConfig{SchemaAdapter: schema}, watermill.NopLogger{})
			if err != nil {
				return err
			}
			pub := forwarder.NewPublisher(inner, forwarder.PublisherConfig{ForwarderTopic: topic})
			for n := 0; n < events && err == nil; n++ {
				err = pub.Publish(to, message.NewMessage(watermill.NewUUID(), payload))
			}
			return err
		})
		f, err := forwarder.NewForwarder(subscriber(), s, watermill.NopLogger{}, forwarder.Config{ForwarderTopic: topic})
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan error, 1)
		total += int64(events)
		begin := time.Now()
		go func() { done <- f.Run(b.Context()) }()
		s.wait(b, total)
		took := time.Since(begin)
		if err := errors.Join(f.Close(), <-done); err != nil {
			b.Fatal(err)
		}
		return took
	}
}

func applied(b *testing.B, d outboxOn, db *sql.DB, c outbox.Config) *outbox.Outbox {
	b.Helper()
	c.Dialect = d.dialect
	o, err := outbox.New(c)
	if err != nil {
		b.Fatal(err)
	}
	if err := o.Apply(b.Context(), db); err != nil {
		b.Fatal(err)
	}
	return o
}

func inTx(b *testing.B, db *sql.DB, fn func(ctx context.Context, tx *sql.Tx) error) {
	b.Helper()
	ctx := b.Context()
	tx, err := db.BeginTx(ctx, nil)
	if err == nil {
		if err = fn(ctx, tx); err == nil {
			err = tx.Commit()
		} else {
			err = errors.Join(err, tx.Rollback())
		}
	}
	if err != nil {
		b.Fatal(err)
	}
}
