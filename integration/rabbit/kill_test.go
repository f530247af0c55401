package rabbit

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// workerVariable holds the queue, and workerURI the broker, of a process that is a worker.
const (
	workerVariable = "ENVELOPE_TEST_WORKER_QUEUE"
	workerURI      = "ENVELOPE_TEST_WORKER_URI"
)

// worker handles messages and acknowledges none: it prints their ids.
func worker(queue string) {
	sub, err := rabbitmq.NewSubscriber(rabbitmq.SubscriberConfig{URI: rabbitmq.URI(os.Getenv(workerURI)), Unmarshaler: plain{}})
	if err != nil {
		panic(err)
	}
	in, err := sub.Subscribe(context.Background(), queue)
	if err != nil {
		panic(err)
	}
	for msg := range in {
		fmt.Println("handled", msg.UUID)
	}
}

// A worker that is killed between the handling of a message and its acknowledgement: the
// message is handled again, as are those that it had taken.
func TestWorkerKilled(t *testing.T) {
	ctx := suite.Context(t)
	q := queue(t)
	all := messages(5)
	if err := publisher(t, rabbitmq.PublisherConfig{}).Publish(q, all...); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, "-test.run=^$")
	cmd.Env = append(os.Environ(), workerVariable+"="+q, workerURI+"="+server.URL())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	handled := strings.TrimSpace(strings.TrimPrefix(line, "handled "))

	// The retry queue exists with the worker's delay.
	in, err := subscriber(t, rabbitmq.SubscriberConfig{RetryDelay: rabbitmq.DefaultRetryDelay}).Subscribe(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	again := map[string]bool{}
	for range all {
		msg := receive(ctx, t, in)
		if n := rabbitmq.Attempt(msg.Context()); n != 1 {
			t.Errorf("%s: attempt %d: a crash is no failure of the message", msg.UUID, n)
		}
		again[msg.UUID] = true
		msg.Ack()
	}
	if handled == "" || !again[handled] || len(again) != len(all) {
		t.Errorf("%q was handled and not acknowledged; got %v", handled, again)
	}
}
