package hexeract

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
)

// answerTimeout bounds one answer of the program.
const answerTimeout = time.Minute

// A program is a running one, whose handlers are given what H says. It ends with the test that
// started it. It is not safe for concurrent use.
type program[H any] struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan answer[H]
	handled chan H
	ended   chan struct{}
}

// An answer has one of its fields.
type answer[H any] struct {
	Published *uuid.UUID `json:"published"`
	Enqueued  *bool      `json:"enqueued"`
	Working   string     `json:"working"`
	Made      string     `json:"made"`
	Printed   string     `json:"printed"`
	Error     *Refusal   `json:"error"`
	Handled   *H         `json:"handled"`
}

// start starts a program for an address.
func start[H any](t testing.TB, address string) *program[H] {
	t.Helper()
	path, err := Install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := &program[H]{
		cmd: exec.Command(path, address), answers: make(chan answer[H], 16),
		handled: make(chan H, 1<<14), ended: make(chan struct{}),
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
func (p *program[H]) read(out io.Reader) {
	defer close(p.ended)
	defer func() { _ = p.cmd.Wait() }() // ended by Stop or Kill, or its own error, which is on stderr
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var a answer[H]
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			a = answer[H]{Error: &Refusal{Name: "Answer", Text: err.Error()}}
		}
		if a.Handled != nil {
			p.handled <- *a.Handled
		} else {
			p.answers <- a
		}
	}
}

// Handled returns what the next handler was given.
func (p *program[H]) Handled(t testing.TB) H {
	t.Helper()
	h, err := p.next()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (p *program[H]) next() (h H, err error) {
	select {
	case h = <-p.handled:
	case a := <-p.answers:
		err = fmt.Errorf("the worker ended: %+v", a.Error)
	case <-p.ended:
		err = errors.New("the program ended")
	case <-time.After(answerTimeout):
		err = errors.New("nothing was handled")
	}
	return h, err
}

// Stop ends the program after the message in hand and returns what was handled and not asked
// for yet.
func (p *program[H]) Stop(t testing.TB) []H {
	t.Helper()
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(answerTimeout):
		t.Fatal("the program does not end")
	}
	var rest []H
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
func (p *program[H]) Kill() {
	_ = p.cmd.Process.Kill() // an error says that it has ended
	<-p.ended
}

func (p *program[H]) ask(t testing.TB, command any) answer[H] {
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
	panic("unreachable")
}
