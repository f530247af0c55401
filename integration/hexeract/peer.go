// Package hexeract checks packages bus and transport/rabbitmq against a service that is not
// ours: a program on the published Hexeract crates, written in Rust.
package hexeract

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/integration/internal/cargo"
)

// Version is the release of the crates. Cargo.lock pins them.
const Version = "0.6.0"

//go:embed peer/Cargo.toml peer/Cargo.lock peer/src/main.rs
var crate embed.FS

// Install compiles the program, once per lock file and sources, and returns its path. It needs
// cargo from 1.88 on, a C compiler and cmake, and takes about two minutes of a processor.
func Install(ctx context.Context) (string, error) {
	return cargo.Build(ctx, crate, "peer", "hexeract-peer")
}

// answerTimeout bounds one answer of the program.
const answerTimeout = time.Minute

// A Peer is a running program. It ends with the test that started it. It is not safe for
// concurrent use.
type Peer struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan answer
	handled chan Handled
	ended   chan struct{}
}

// OrderPlaced is the message that both sides know.
type OrderPlaced struct {
	OrderID uuid.UUID         `json:"order_id"`
	Note    string            `json:"note"`
	Cents   int64             `json:"cents"`
	Weight  float64           `json:"weight"`
	Lines   []Line            `json:"lines"`
	Tags    map[string]string `json:"tags"`
	Coupon  *string           `json:"coupon"`
}

// A Line is a part of an [OrderPlaced].
type Line struct {
	SKU      string `json:"sku"`
	Quantity uint32 `json:"quantity"`
}

// MessageType is the type of the message on both sides.
func (OrderPlaced) MessageType() string { return "orders.placed" }

// A Publish is an order to publish: the message with headers, or with a correlation id, or
// with neither; or Raw.
type Publish struct {
	RoutingKey    string            `json:"routing_key"`
	Message       *OrderPlaced      `json:"message,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	CorrelationID *uuid.UUID        `json:"correlation_id,omitempty"`
	Raw           *Raw              `json:"raw,omitempty"`
}

// Raw is a message under an id of the caller's, with any bytes that are text.
type Raw struct {
	MessageID   uuid.UUID `json:"message_id"`
	MessageType string    `json:"message_type"`
	Payload     string    `json:"payload"`
}

// A Work is an order to consume a queue. Messages whose note is Fail fail.
type Work struct {
	Queue        string `json:"queue"`
	MaxAttempts  uint32 `json:"max_attempts"`
	RetryDelayMS uint64 `json:"retry_delay_ms"`
	DeadLetter   string `json:"dead_letter,omitempty"`
	Fail         string `json:"fail,omitempty"`
}

// Handled is a message that the program's handler was given.
type Handled struct {
	MessageID     uuid.UUID   `json:"message_id"`
	CorrelationID uuid.UUID   `json:"correlation_id"`
	Message       OrderPlaced `json:"message"`
	Failed        bool        `json:"failed"`
}

// A Refusal is an error of the crates: the name of its variant, and its text.
type Refusal struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

type answer struct {
	Published *uuid.UUID `json:"published"`
	Working   string     `json:"working"`
	Error     *Refusal   `json:"error"`
	Handled   *Handled   `json:"handled"`
}

// Start starts a program that speaks to the broker at url for the rest of the test.
func Start(t testing.TB, url string) *Peer {
	t.Helper()
	program, err := Install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := &Peer{
		// Its client reads the path / as the virtual host with the empty name.
		cmd: exec.Command(program, strings.TrimSuffix(url, "/")), answers: make(chan answer, 16),
		handled: make(chan Handled, 1<<14), ended: make(chan struct{}),
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr bytes.Buffer
	p.cmd.Stderr = &stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(out)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() && stderr.Len() > 0 {
			t.Logf("the program wrote: %.2000s", stderr.Bytes())
		}
	})
	return p
}

// read hands out what the program writes until it ends.
func (p *Peer) read(out io.Reader) {
	defer close(p.ended)
	defer func() { _ = p.cmd.Wait() }() // ended by Stop or Kill, or its own error, which is on stderr
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			a = answer{Error: &Refusal{Name: "Answer", Text: err.Error()}}
		}
		if a.Handled != nil {
			p.handled <- *a.Handled
		} else {
			p.answers <- a
		}
	}
}

// Publish publishes and returns the id, or why the crates did not.
func (p *Peer) Publish(t testing.TB, order Publish) (uuid.UUID, *Refusal) {
	t.Helper()
	a := p.ask(t, map[string]any{"publish": order})
	if a.Published == nil {
		if a.Error == nil {
			t.Fatalf("no verdict in the answer %+v", a)
		}
		return uuid.Nil, a.Error
	}
	return *a.Published, nil
}

// Work starts a worker. The queue must exist.
func (p *Peer) Work(t testing.TB, order Work) {
	t.Helper()
	if a := p.ask(t, map[string]any{"work": order}); a.Working != order.Queue {
		t.Fatalf("the worker did not start: %+v", a.Error)
	}
}

// Handled returns the next message that the worker's handler was given.
func (p *Peer) Handled(t testing.TB) Handled {
	t.Helper()
	select {
	case h := <-p.handled:
		return h
	case a := <-p.answers:
		t.Fatalf("the worker ended: %+v", a.Error)
	case <-p.ended:
		t.Fatal("the program ended")
	case <-time.After(answerTimeout):
		t.Fatal("nothing was handled")
	}
	return Handled{}
}

// Stop ends the program after the message in hand and returns what was handled and not asked
// for yet.
func (p *Peer) Stop(t testing.TB) []Handled {
	t.Helper()
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(answerTimeout):
		t.Fatal("the program does not end")
	}
	var rest []Handled
	for {
		select {
		case h := <-p.handled:
			rest = append(rest, h)
		default:
			return rest
		}
	}
}

// Kill ends the program at once.
func (p *Peer) Kill() {
	_ = p.cmd.Process.Kill() // an error says that it has ended
	<-p.ended
}

func (p *Peer) ask(t testing.TB, command any) answer {
	t.Helper()
	line, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	select {
	case a := <-p.answers:
		return a
	case <-p.ended:
		t.Fatal("the program ended")
	case <-time.After(answerTimeout):
		t.Fatal("no answer")
	}
	return answer{}
}
