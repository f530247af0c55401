package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

const ordersPlaced = 12

var errDiffers = errors.New("not every order has one event and one invoice")

// show runs the shop as a process of its own, kills it while it is at work, runs it again, and
// looks at what is in the database.
func show(ctx context.Context, out io.Writer, db *database, dsn string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	before, err := db.unsettled(ctx) // the database may have orders of an earlier run
	if err != nil {
		return err
	}
	first, err := start(ctx, out, dsn)
	if err != nil {
		return err
	}
	defer first.kill()

	// The clients go on until each order was taken. What had no answer they send again.
	run := uuid.NewString()[:8]
	again := make(chan string, ordersPlaced)
	var clients sync.WaitGroup
	for n := range ordersPlaced {
		number := fmt.Sprintf("%s-%02d", run, n+1)
		clients.Go(func() {
			if first.place(ctx, number) != nil {
				again <- number
			}
		})
	}
	if err := db.billedAndUnsettled(ctx, before); err != nil {
		return err
	}
	first.kill()
	fmt.Fprintln(out, "         the process is killed")
	clients.Wait()
	close(again)

	second, err := start(ctx, out, dsn)
	if err != nil {
		return err
	}
	defer second.kill()
	for number := range again {
		if err := second.place(ctx, number); err != nil {
			return err
		}
	}
	if err := db.settled(ctx); err != nil {
		return err
	}
	second.kill()
	return db.compare(ctx, out, run)
}

// A process is this program with -listen.
type process struct {
	cmd   *exec.Cmd
	url   string
	ended chan struct{}
}

func start(ctx context.Context, out io.Writer, dsn string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{
		cmd:   exec.CommandContext(ctx, program, "-listen", "127.0.0.1:0", "-dsn", dsn),
		ended: make(chan struct{}),
	}
	p.cmd.Stderr = out
	printed, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(printed)
	for lines.Scan() {
		fmt.Fprintln(out, lines.Text())
		if _, url, ok := strings.Cut(lines.Text(), "takes orders at "); ok {
			p.url = url
			break
		}
	}
	go func() {
		defer close(p.ended)
		for lines.Scan() {
			fmt.Fprintln(out, lines.Text())
		}
		_ = p.cmd.Wait() // killed
	}()
	if p.url == "" {
		p.kill()
		return nil, errors.New("the second process did not start")
	}
	return p, nil
}

// kill is SIGKILL: nothing of the program runs any more.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// place sends an order. An error may mean that the order was taken all the same.
func (p *process) place(ctx context.Context, number string) error {
	body, err := json.Marshal(OrderPlaced{Order: number, Cents: 1999})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := new(http.Client).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return fmt.Errorf("order %s: %s", number, response.Status)
	}
	return nil
}
