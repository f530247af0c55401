package real

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
)

// breakable is what fault tests do to a server.
type breakable interface {
	Stop() error
	Kill() error
	Pause() error
	Resume() error
	Start(ctx context.Context) error
}

// lives checks that what was stored before each kind of end is there after it, on the same
// address. put stores the nth message and get reads all n.
func lives(t *testing.T, server breakable, put func(n int), get func(n int)) {
	put(1)
	for i, end := range []struct {
		name string
		end  func() error
	}{
		{"stop", server.Stop},
		{"kill", server.Kill},
	} {
		begin := time.Now()
		if err := end.end(); err != nil {
			t.Fatalf("%s: %v", end.name, err)
		}
		if err := server.Pause(); err == nil {
			t.Fatalf("after %s: a server that does not run was paused", end.name)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatalf("start after %s: %v", end.name, err)
		}
		get(i + 1)
		put(i + 2)
		t.Logf("%s, start and two calls took %.1f s", end.name, time.Since(begin).Seconds())
	}
	if err := errors.Join(server.Pause(), server.Resume()); err != nil {
		t.Fatal(err)
	}
	get(3)
	// A paused server takes no signal until it goes on; stopping it must see to that.
	if err := errors.Join(server.Pause(), server.Stop()); err != nil {
		t.Fatal(err)
	}
}

func TestKafkaSurvives(t *testing.T) {
	t.Parallel()
	server, err := servers.StartKafka(t.Context(), servers.KafkaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, server)
	put := func(int) {
		client := suite.KafkaClient(t, server.Addr())
		if err := client.ProduceSync(suite.Context(t), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	get := func(n int) {
		client := suite.KafkaClient(t, server.Addr(), kgo.ConsumeTopics("t"))
		suite.KafkaRecords(suite.Context(t), t, client, n)
	}
	lives(t, server, put, get)
}

func TestRabbitMQSurvives(t *testing.T) { rabbitMQSurvives(t, servers.StartRabbitMQ, "3.") }

func TestRabbitMQ4Survives(t *testing.T) { rabbitMQSurvives(t, servers.StartRabbitMQ4, "4.") }

func rabbitMQSurvives(t *testing.T, start func(context.Context, servers.RabbitMQOptions) (*servers.RabbitMQ, error), version string) {
	t.Parallel()
	server, err := start(t.Context(), servers.RabbitMQOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, server)
	if v, err := server.Ctl(t.Context(), "version"); err != nil || !strings.HasPrefix(v, version) {
		t.Fatalf("version %q, %v; want %sx", v, err, version)
	}
	declare := func() *amqp091.Channel {
		channel := suite.AMQPChannel(t, server.URL())
		if _, err := channel.QueueDeclare("q", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		return channel
	}
	put := func(int) {
		suite.AMQPPublish(suite.Context(t), t, declare(), "", "q", amqp091.Publishing{DeliveryMode: amqp091.Persistent})
	}
	get := func(n int) {
		q, err := declare().QueueDeclarePassive("q", true, false, false, false, nil)
		if err != nil || q.Messages != n {
			t.Fatalf("%d messages, %v; want %d", q.Messages, err, n)
		}
	}
	lives(t, server, put, get)
}
