package database

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/bus/amqpwire"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
	"github.com/watermill-envelope/envelope/outbox"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// errRollBack rolls a transaction back.
var errRollBack = errors.New("rolled back")

// A killable server can be killed and started again on its address and data.
type killable interface {
	Kill() error
	Start(ctx context.Context) error
}

// The database is killed, three times, while events are written to it and relayed from it: an
// event is published if the transaction that wrote it was committed, and not if it was rolled
// back. Again are published at most the events of the batches that were being published when
// the database went away.
func TestOutboxDatabaseKilled(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		server, err := servers.StartPostgres(suite.Context(t), servers.PostgresOptions{})
		if err != nil {
			t.Fatal(err)
		}
		servers.CloseAfter(t, server)
		d := outboxOn{"PostgreSQL", "pgx", server.URL(), outbox.PostgreSQL}
		d.place(t, outbox.Config{}).databaseKilled(server)
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		server, err := servers.StartMariaDB(suite.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		servers.CloseAfter(t, server)
		d := outboxOn{"MariaDB", "mysql", server.DSN(), outbox.MySQL}
		d.place(t, outbox.Config{}).databaseKilled(server)
	})
}

func (p *outboxPlace) databaseKilled(server killable) {
	const (
		writers = 8
		kills   = 3
	)
	t, k := p.t, newTaken()
	ctx := suite.Context(t)
	p.task.Batch, p.task.Timeout = 50, 2*time.Second
	p.relay(k, p.task.worker(nil))
	var (
		mu                    sync.Mutex
		committed             []uuid.UUID
		uncertain, rolledBack = map[string]bool{}, map[string]bool{}
		wg                    sync.WaitGroup
		begun                 atomic.Int64
	)
	total := int64(suite.Count(10_000))
	write := func(n int64) {
		tx, err := p.db.BeginTx(ctx, nil)
		if err != nil {
			return
		}
		defer func() { _ = tx.Rollback() }() // nothing after a commit
		id, err := p.PublishInTx(ctx, tx, numbered{int(n)})
		if err == nil && n%10 == 0 {
			err = errRollBack
		}
		ending := err == nil
		if ending {
			err = tx.Commit()
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			committed = append(committed, id)
		case ending:
			uncertain[id.String()] = true
		default:
			rolledBack[id.String()] = true
		}
	}
	// A writer that finds the database away comes again with another event.
	for range writers {
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				enough := int64(len(committed)) >= total
				mu.Unlock()
				if enough {
					return
				}
				write(begun.Add(1))
			}
		})
	}
	for kill := range kills {
		p.eventually(func() bool {
			mu.Lock()
			defer mu.Unlock()
			return int64(len(committed)) >= total*int64(kill+1)/(kills+1)
		})
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
		if err := server.Start(ctx); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	p.want(0, "delivered_at IS NULL")
	p.wantDead(0)
	k.mu.Lock()
	again := 0
	for id, n := range k.seen {
		if rolledBack[id] {
			t.Errorf("event %s was published, which was rolled back", id)
		}
		again += n - 1
	}
	for _, id := range committed {
		if k.seen[id.String()] == 0 {
			t.Errorf("event %s was lost", id)
		}
	}
	k.mu.Unlock()
	if again > kills*p.task.Batch {
		t.Errorf("%d events were published again, want %d at most", again, kills*p.task.Batch)
	}
	if len(rolledBack) == 0 {
		t.Error("nothing was rolled back")
	}
	t.Logf("%d kills, %d events committed, %d rolled back, %d uncertain, %d published again",
		kills, len(committed), len(rolledBack), len(uncertain), again)
}

// The broker is killed under load, twice, and is away for longer than any event has attempts:
// nothing is lost or dead-lettered, and what is published again was on its way.
func TestOutboxBrokerKilled(t *testing.T) {
	t.Parallel()
	ctx := suite.Context(t)
	server, err := servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, server)
	const queue, kills = "tests.numbered", 2 // the queue is named like the type
	if _, err := suite.AMQPChannel(t, server.URL()).QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	pub, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{
		URI: rabbitmq.URI(server.URL()), Marshaler: amqpwire.Marshaler{}, PublishTimeout: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pub.Close() })
	p := outboxDatabases()[0].place(t, outbox.Config{})
	var log suite.LogBook
	c := outboxTask{Batch: 50, Timeout: time.Minute}.worker(nil)
	c.MaxAttempts, c.Logger = 2, log.Logger()
	r, err := p.Relay(p.db, pub, outbox.RelayConfig{WorkerConfig: c})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(running) }()

	part := suite.Count(5_000)
	var ids []uuid.UUID
	for kill := range kills {
		ids = append(ids, p.put(part)...)
		p.await("SELECT count(*) FROM "+p.Table()+" WHERE delivered_at IS NOT NULL", func(n int) bool { return n > part*kill+part/4 })
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, p.put(10)...)
		p.eventually(func() bool { return strings.Count(log.String(), "the publisher cannot be reached") == kill+1 })
		// It has seen often enough that nobody is there.
		p.want(0, "attempts > 1 AND delivered_at IS NULL")
		if err := server.Start(ctx); err != nil {
			t.Fatal(err)
		}
		p.want(0, "delivered_at IS NULL")
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	p.wantDead(0)
	p.want(len(ids), "delivered_at IS NOT NULL AND attempts = 1")

	k := newTaken()
	channel := suite.AMQPChannel(t, server.URL())
	for {
		d, ok, err := channel.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		k.add(d.MessageId)
	}
	again := k.check(t, ids, kills*c.BatchSize)
	t.Logf("%d kills, %d events, %d there twice", kills, len(ids), again)
}
