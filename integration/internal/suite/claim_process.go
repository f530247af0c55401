package suite

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// childVariable is set in the processes that [ClaimProcesses] starts: their task as JSON.
const childVariable = "ENVELOPE_SUITE_CHILD"

// A task is what one process of a flow does. It writes a line for each thing that it did.
type task struct {
	Role  string // publish or consume
	Kafka string // address of the broker; empty: RabbitMQ
	AMQP  string // URL of the broker
	Topic string
	Dir   string // of the file store
	From  int    // publish: the first message
	To    int    // publish: the one after the last
	Hang  int    // publish: which message is put and never published; consume: which get is never done
}

const never = -1 // as Hang

func (k task) broker() Broker {
	if k.Kafka != "" {
		return Kafka(k.Kafka, KafkaOptions{})
	}
	return RabbitMQ(k.AMQP, RabbitMQOptions{})
}

// message is the nth message of the topic, the same in every process.
func (k task) message(n int) *message.Message {
	id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s %d", k.Topic, n)).String()
	return message.NewMessage(id, bodyOf(id, 1000+n))
}

// Child does the task of this process where a flow gave it one, and ends the process. A
// package that runs [ClaimProcesses] calls it first in its TestMain.
func Child() {
	text, ok := os.LookupEnv(childVariable)
	if !ok {
		return
	}
	go func() { // it ends with its parent, however that ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	var k task
	var t testing.TB = childTB{}
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		t.Fatal(err)
	}
	store, err := filestore.New(k.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if k.Role == "publish" {
		k.publish(t, store)
	} else {
		k.consume(t, store)
	}
	os.Exit(0)
}

// tell writes a line to the process that waits for it.
func tell(words ...any) {
	if _, err := fmt.Fprintln(os.Stdout, words...); err != nil {
		os.Exit(1)
	}
}

// hang says so and does nothing more, until the process is killed.
func hang() {
	tell("hangs")
	select {}
}

// childTB is the test of a process that runs none.
type childTB struct{ testing.TB }

func (childTB) Helper()        {}
func (childTB) Cleanup(func()) {} // the process ends
func (childTB) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

// publish publishes its messages one after the other.
func (k task) publish(t testing.TB, store claimcheck.Store) {
	b := k.broker()
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: store, InlineMaxBytes: -1})
	hang := &hangingPublisher{Publisher: b.NewPublisher(t), id: k.message(k.Hang).UUID}
	pub, err := cc.WrapPublisher(hang, b.Sealer)
	if err != nil {
		t.Fatal(err)
	}
	for n := k.From; n < k.To; n++ {
		if err := pub.Publish(k.Topic, k.message(n)); err != nil {
			t.Fatal(err)
		}
		tell("published", n)
	}
}

// hangingPublisher never publishes one of the messages.
type hangingPublisher struct {
	message.Publisher
	id string
}

func (p *hangingPublisher) Publish(topic string, msgs ...*message.Message) error {
	for _, msg := range msgs {
		if msg.UUID == p.id {
			hang()
		}
	}
	return p.Publisher.Publish(topic, msgs...)
}

// consume handles messages until it is killed.
func (k task) consume(t testing.TB, store claimcheck.Store) {
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: &hangingStore{Store: store, hang: int64(k.Hang)}})
	b := k.broker()
	consumer(context.Background(), t, b, "processes", k.Topic, func(msg *message.Message) error {
		tell("handled", msg.UUID, digestOf(msg.Payload))
		return nil
	}, hookStack(t, cc, b.NewPublisher(t), k.Topic+".poison")...)
	select {}
}

// hangingStore never does one of the gets.
type hangingStore struct {
	claimcheck.Store
	gets, hang int64
}

func (s *hangingStore) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if atomic.AddInt64(&s.gets, 1)-1 == s.hang {
		hang()
	}
	return s.Store.Get(ctx, key, off, n)
}

// ClaimProcesses has one process check bodies in to a file store and publish, and another
// one redeem them. Publishers are killed between the put and the publish, consumers between
// the receive and the redeem, and others take their places. Nothing is lost, and all that
// remains are the objects of the puts whose messages were never published. kafka or amqp is
// the broker's address, and poison watches its topics.
func ClaimProcesses(t *testing.T, kafka, amqp string, peer Peer) {
	ctx := Context(t)
	k := task{Kafka: kafka, AMQP: amqp, Topic: topicName(t, "hooks"), Dir: t.TempDir()}
	n, kills := Count(1000), Count(10)
	consumer(ctx, t, k.broker(), "processes", k.Topic, func(*message.Message) error { return nil })() // the topic keeps what comes
	poisoned := peer.Watch(ctx, t, k.Topic+".poison")

	var both sync.WaitGroup
	both.Go(func() {
		p := k
		p.Role = "publish"
		for kill := range kills + 1 {
			p.To, p.Hang = n, n*(kill+1)/(kills+1)
			if kill == kills {
				p.Hang = never
			}
			killed := p.run(ctx, t, func(line string) bool {
				var last int
				if _, err := fmt.Sscanf(line, "published %d", &last); err == nil {
					p.From = last + 1
				}
				return line == "hangs"
			})
			if killed != (kill < kills) || !killed && p.From < n {
				t.Errorf("publisher %d ended with message %d of %d, killed: %t", kill, p.From, n, killed)
				return
			}
		}
	})
	want := map[string]string{}
	for i := range n {
		msg := k.message(i)
		want[msg.UUID] = digestOf(msg.Payload)
	}
	handled := map[string]bool{}
	c := k
	c.Role = "consume"
	for kill := range kills + 1 {
		c.Hang = n / (2 * kills) // of the gets of each; what is redelivered is got again
		if kill == kills {
			c.Hang = never
		}
		hangs := false
		c.run(ctx, t, func(line string) bool {
			hangs = hangs || line == "hangs"
			if id, digest, ok := strings.Cut(strings.TrimPrefix(line, "handled "), " "); ok {
				if want[id] != digest {
					t.Errorf("%s was handled with another body", id)
				}
				handled[id] = true
			}
			return hangs || len(handled) == n
		})
		if hangs != (kill < kills) {
			t.Errorf("consumer %d was killed before a redeem: %t", kill, hangs)
		}
	}
	both.Wait()
	if len(handled) != n {
		t.Errorf("%d messages were handled, want %d", len(handled), n)
	}
	peer.Put(ctx, t, k.Topic+".poison", Raw{Body: Broken("end")}) // nothing else may come before it
	if got := poisoned(1)[0]; string(got.Body) != string(Broken("end")) {
		t.Errorf("the poison topic has %.300q", got.Body)
	}
	store, err := filestore.New(k.Dir)
	if err != nil {
		t.Fatal(err)
	}
	ClaimStore{PrunableStore: store}.holds(ctx, t, n+kills, "each body, and an orphan for each killed publisher")
}

// run runs a process until it ends or until is true of a line of its, and then kills it. It
// reports whether the process was killed.
func (k task) run(ctx context.Context, t testing.TB, until func(line string) bool) (killed bool) {
	t.Helper()
	text, err := json.Marshal(k)
	if err != nil {
		t.Error(err)
		return false
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // held open while the process may live
	if err != nil {
		t.Error(err)
		return false
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return false
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return false
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if until(lines.Text()) && !killed {
			killed = true
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil && !killed {
		t.Errorf("the process that should %s: %v", k.Role, err)
	}
	return killed
}
