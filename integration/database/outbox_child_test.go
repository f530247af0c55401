package database

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

// outboxChild is set in the processes that take events from a table: their task as JSON.
const outboxChild = "OUTBOX_CHILD"

// An outboxTask is what a child process does: it runs a relay, or a subscriber, asks the process
// that started it what to do with each call of its publisher, or with each message, and tells
// what became of the events.
type outboxTask struct {
	Dialect        outbox.Dialect
	Driver, Source string
	Table          string
	Relay          bool
	Batch          int
	Timeout        time.Duration
}

// enough is a MaxAttempts that is not reached.
const enough = 1_000_000

func (k outboxTask) worker(o outbox.Observer) outbox.WorkerConfig {
	return outbox.WorkerConfig{
		BatchSize: k.Batch, DispatchTimeout: k.Timeout, MaxAttempts: enough, PollInterval: 10 * time.Millisecond,
		MinCycleDelay: time.Millisecond, RetryBaseDelay: time.Millisecond, RetryMaxDelay: 10 * time.Millisecond, Observer: o,
	}
}

// A childLine is what a child writes.
type childLine struct {
	Ask     []string       `json:"ask,omitempty"` // the ids of events
	Outcome outbox.Outcome `json:"outcome,omitempty"`
	Events  int            `json:"events,omitempty"`
}

// A childSide is the child's end.
type childSide struct {
	mu  sync.Mutex
	out *json.Encoder
	in  *bufio.Scanner
}

func (c *childSide) tell(line childLine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.out.Encode(line); err != nil {
		os.Exit(3)
	}
}

// ask asks about events, by one goroutine at a time.
func (c *childSide) ask(ids ...string) error {
	c.tell(childLine{Ask: ids})
	if !c.in.Scan() {
		os.Exit(3) // it ends with its parent, however that ends
	}
	if c.in.Text() != "yes" {
		return fmt.Errorf("told so")
	}
	return nil
}

// Settled implements outbox.Observer.
func (c *childSide) Settled(o outbox.Outcome, events int) {
	c.tell(childLine{Outcome: o, Events: events})
}

// Publish implements message.Publisher.
func (c *childSide) Publish(_ string, messages ...*message.Message) error {
	ids := make([]string, len(messages))
	for i, msg := range messages {
		ids[i] = msg.UUID
	}
	return c.ask(ids...)
}

// Close implements message.Publisher.
func (c *childSide) Close() error { return nil }

// runOutboxChild does a task until the process is killed.
func runOutboxChild(text string) error {
	var k outboxTask
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		return err
	}
	db, err := sql.Open(k.Driver, k.Source)
	if err != nil {
		return err
	}
	o, err := outbox.New(outbox.Config{Dialect: k.Dialect, Table: k.Table})
	if err != nil {
		return err
	}
	c := &childSide{out: json.NewEncoder(os.Stdout), in: bufio.NewScanner(os.Stdin)}
	if k.Relay {
		r, err := o.Relay(db, c, outbox.RelayConfig{WorkerConfig: k.worker(c)})
		if err != nil {
			return err
		}
		return r.Run(context.Background())
	}
	s, err := o.Subscriber(db, k.worker(c))
	if err != nil {
		return err
	}
	messages, err := s.Subscribe(context.Background(), "")
	if err != nil {
		return err
	}
	for msg := range messages {
		if c.ask(msg.UUID) == nil {
			msg.Ack()
		} else {
			msg.Nack()
		}
	}
	return nil
}

// A child is a running process with a task.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan childLine
}

// start starts a process, which ends with the test.
func (k outboxTask) start(t *testing.T) *child {
	t.Helper()
	task, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(os.Args[0]), lines: make(chan childLine, 1<<12)}
	c.cmd.Env, c.cmd.Stderr = append(os.Environ(), outboxChild+"="+string(task)), os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for decoder := json.NewDecoder(out); ; {
			var line childLine
			if decoder.Decode(&line) != nil {
				return
			}
			c.lines <- line
		}
	}()
	t.Cleanup(c.kill)
	return c
}

// kill ends the process as a crash does, and waits for its end.
func (c *child) kill() {
	if c.cmd.ProcessState != nil {
		return
	}
	_ = c.cmd.Process.Kill() // an error says that it has ended
	_ = c.cmd.Wait()         // killed
	for range c.lines {
	}
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// next returns the next line that is wanted.
func (c *child) next(wanted func(childLine) bool) childLine {
	c.t.Helper()
	for over := time.After(suite.Timeout); ; {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.t.Fatal("the process ended")
			}
			if wanted(line) {
				return line
			}
		case <-over:
			c.t.Fatal("the process says nothing")
		}
	}
}

// asked returns the events that the process asks about next.
func (c *child) asked() []string {
	c.t.Helper()
	return c.next(func(l childLine) bool { return l.Ask != nil }).Ask
}

func (c *child) answer(yes bool) {
	c.t.Helper()
	text := map[bool]string{true: "yes\n", false: "no\n"}[yes]
	if _, err := io.WriteString(c.in, text); err != nil {
		c.t.Fatal(err)
	}
}
