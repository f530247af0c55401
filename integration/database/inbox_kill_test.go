package database

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/inbox/sqlinbox"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// What a child process of TestInboxKilled is told: after how many effects it ends, and where.
const (
	killAfter    = "INBOX_KILL_AFTER"
	killPostgres = "INBOX_KILL_POSTGRES"
	killRabbitMQ = "INBOX_KILL_RABBITMQ"
)

const (
	killQueue   = "inbox-kill"
	killWorkers = 4
	// killBacklog is how many messages there are for each process that is killed, which is
	// more than it can take.
	killBacklog = 12
)

// killRouter returns a router whose handlers write one effect for each message in the
// transaction of an inbox. after is called between the commit of an effect and the
// acknowledgement.
func killRouter(db *sql.DB, sub message.Subscriber, after func()) (*message.Router, error) {
	keys, err := sqlinbox.New(sqlinbox.Config{DB: db, Dialect: sqlinbox.PostgreSQL, Table: "kill_inbox"})
	if err != nil {
		return nil, err
	}
	dedupe, err := hookmw.NewDeduplicate(hookmw.DeduplicateConfig{Seen: keys, Scope: "effects"})
	if err != nil {
		return nil, err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	const effect = "effect"
	router.AddMiddleware(
		func(h message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				out, err := h(msg)
				switch {
				case err != nil:
				case msg.Metadata[effect] != "":
					after()
				default:
					_, err = db.ExecContext(msg.Context(), "INSERT INTO kill_drops (name) VALUES ($1)", msg.UUID)
				}
				return out, err
			}
		},
		wmmw.Retry{MaxRetries: 5, InitialInterval: 10 * time.Millisecond}.Middleware,
		dedupe.Middleware,
	)
	for n := range killWorkers {
		router.AddConsumerHandler(fmt.Sprint("effects-", n), killQueue, sub, func(msg *message.Message) error {
			tx, ok := sqlinbox.Tx(msg.Context())
			if !ok {
				return fmt.Errorf("no transaction")
			}
			msg.Metadata[effect] = "yes"
			_, err := tx.ExecContext(msg.Context(), "INSERT INTO kill_effects (name) VALUES ($1)", msg.UUID)
			return err
		})
	}
	return router, nil
}

// killChild handles messages until the effect after which it is to end, and ends as in a crash:
// the other workers are wherever they are.
func killChild() error {
	after, err := strconv.Atoi(os.Getenv(killAfter))
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", os.Getenv(killPostgres))
	if err != nil {
		return err
	}
	sub, err := suite.NewRabbitMQSubscriber(os.Getenv(killRabbitMQ))
	if err != nil {
		return err
	}
	var effects atomic.Int64
	router, err := killRouter(db, sub, func() {
		if effects.Add(1) == int64(after) {
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				panic(err)
			}
			select {}
		}
	})
	if err != nil {
		return err
	}
	return router.Run(context.Background())
}

// A process is killed between the commit of a handler's effect and the acknowledgement of its
// message, while others of its handlers run, again and again: every message takes effect exactly
// once.
func TestInboxKilled(t *testing.T) {
	rabbit, err := servers.StartRabbitMQ(t.Context(), servers.RabbitMQOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, rabbit)
	db := open(t, "pgx", postgresServer.URL())
	keys, err := sqlinbox.New(sqlinbox.Config{DB: db, Dialect: sqlinbox.PostgreSQL, Table: "kill_inbox"})
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"kill_effects", "kill_drops"} {
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE "+table+" (name TEXT NOT NULL)"); err != nil {
			t.Fatal(err)
		}
	}
	kills := suite.Count(200)
	messages := kills * killBacklog
	broker := suite.RabbitMQ(rabbit.URL(), suite.RabbitMQOptions{Queue: true, PoolSize: 1})
	sub := broker.Subscriber(t, "")
	if err := sub.(message.SubscribeInitializer).SubscribeInitialize(killQueue); err != nil {
		t.Fatal(err)
	}
	pub := broker.Publisher(t)
	for n := range messages {
		if err := pub.Publish(killQueue, message.NewMessage(fmt.Sprintf("message-%05d", n), []byte("{}"))); err != nil {
			t.Fatal(err)
		}
	}

	for n := range kills {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(),
			killAfter+"="+strconv.Itoa(1+n%(killBacklog-killWorkers)), killPostgres+"="+postgresServer.URL(), killRabbitMQ+"="+rabbit.URL())
		out, err := child.CombinedOutput()
		if status, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("child %d was not killed: %v\n%s", n, err, out)
		}
	}

	// The rest is handled in peace.
	router, err := killRouter(db, sub, func() {})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- router.Run(t.Context()) }()
	conn, err := amqp.Dial(rabbit.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	count := func(query string) (n int) {
		if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	waiting := func() int {
		queue, err := channel.QueueDeclarePassive(killQueue, true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return queue.Messages
	}
	// When nothing has come for a second, nothing is on its way any more.
	for idle, last := 0, -1; idle < 20; idle++ {
		handled := count("SELECT count(*) FROM kill_effects") + count("SELECT count(*) FROM kill_drops")
		if handled != last || waiting() > 0 {
			idle, last = 0, handled
		}
		select {
		case err := <-done:
			t.Fatalf("the router ended: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err := router.Close(); err != nil { // waits for what is being handled
		t.Error(err)
	}
	if left := waiting(); left != 0 {
		t.Errorf("%d messages are left", left)
	}
	if effects, of := count("SELECT count(*) FROM kill_effects"), count("SELECT count(DISTINCT name) FROM kill_effects"); effects != messages || of != messages {
		t.Errorf("%d effects of %d messages, want %d of each", effects, of, messages)
	}
	// Each process left one message with its effect and without an acknowledgement at least.
	drops := count("SELECT count(*) FROM kill_drops")
	if drops < kills {
		t.Errorf("%d duplicates were dropped after %d kills", drops, kills)
	}
	t.Logf("%d kills, %d messages, %d duplicates dropped", kills, messages, drops)
}
