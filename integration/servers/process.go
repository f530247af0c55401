package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	readyTimeout = 2 * time.Minute  // for a start whose context has no deadline of its own
	stopTimeout  = 30 * time.Second // between asking a server to end and killing it
)

// A Process is a real server as a child of this process. Its methods may be called by
// several goroutines.
type Process struct {
	name    string
	dir     string
	command func() *exec.Cmd
	ready   string // a line of output that contains it means: ready
	// stop is the signal that asks the server to shut down at once, cleanly.
	stop syscall.Signal

	mu  sync.Mutex // held while the server changes between running and stopped
	run *running   // nil while stopped
}

// running is one life of the process.
type running struct {
	cmd   *exec.Cmd
	ready chan struct{} // closed by the line of output that means ready
	done  chan struct{} // closed when the process has ended
}

// newProcess describes a server that lives in dir, which Close removes. command returns a
// new command line each time; its environment, folder and arguments are the caller's.
func newProcess(name, dir, ready string, command func() *exec.Cmd) *Process {
	return &Process{name: name, dir: dir, ready: ready, command: command, stop: syscall.SIGTERM}
}

// tempDir makes the folder of a server.
func tempDir(name string) (string, error) {
	dir, err := os.MkdirTemp("", "envelope-"+name+"-")
	if err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	return dir, nil
}

// LogFile is the path of what the server wrote to its standard output and error, over all
// its lives. Close removes it.
func (p *Process) LogFile() string { return filepath.Join(p.dir, p.name+".log") }

// LogTail returns the last n lines of the log, for a failure report.
func (p *Process) LogTail(n int) string {
	text, err := os.ReadFile(p.LogFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Start starts the stopped server on the same port and data and waits until it is ready.
// The context bounds the waiting, not the life of the server; without a deadline it is two
// minutes. A server that runs already is left as it is.
func (p *Process) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		return nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, readyTimeout)
		defer cancel()
	}
	run, err := p.launch()
	if err != nil {
		return fmt.Errorf("servers: start %s: %w", p.name, err)
	}
	select {
	case <-run.ready:
		p.run = run
		return nil
	case <-run.done:
		err = fmt.Errorf("ended with %s", run.cmd.ProcessState)
	case <-ctx.Done():
		err = fmt.Errorf("not ready: %w", ctx.Err())
		run.end(syscall.SIGKILL)
	}
	return fmt.Errorf("servers: start %s: %w; its last lines:\n%s", p.name, err, p.LogTail(30))
}

// launch starts the process and a goroutine that waits for its end.
func (p *Process) launch() (*running, error) {
	log, err := os.OpenFile(p.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	run := &running{cmd: p.command(), ready: make(chan struct{}), done: make(chan struct{})}
	out := &watcher{file: log, want: p.ready, found: run.ready}
	run.cmd.Stdout, run.cmd.Stderr = out, out
	run.cmd.WaitDelay = time.Second // a grandchild may hold the pipe longer than the server
	if run.cmd.SysProcAttr == nil {
		run.cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	// Its own group, so that an interrupt at the terminal reaches it only through us.
	run.cmd.SysProcAttr.Setpgid = true
	run.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL

	started := make(chan error)
	go func() {
		// The kernel sends Pdeathsig when the thread that started the child ends, so that
		// thread stays with the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		err := run.cmd.Start()
		started <- err
		if err == nil {
			_ = run.cmd.Wait() // how it ended is in ProcessState
			close(run.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return run, nil
}

// Stop asks the server to shut down, waits for its end and keeps its data. A server that
// has not ended after 30 seconds is killed, and that is an error. Stopping a stopped server
// does nothing.
func (p *Process) Stop() error { return p.end(p.stop) }

// Kill ends the server at once, as a crash would, and keeps its data.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

func (p *Process) end(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return nil
	}
	run := p.run
	p.run = nil
	select {
	case <-run.done:
		return fmt.Errorf("servers: %s had ended by itself with %s; its last lines:\n%s",
			p.name, run.cmd.ProcessState, p.LogTail(30))
	default:
	}
	if !run.end(sig) {
		return fmt.Errorf("servers: %s did not stop within %s and was killed; its last lines:\n%s",
			p.name, stopTimeout, p.LogTail(30))
	}
	return nil
}

// end signals the process and waits until it has ended. It reports false when the signal
// was not enough.
func (r *running) end(sig syscall.Signal) bool {
	// A paused process takes no other signal until it goes on.
	_ = r.cmd.Process.Signal(syscall.SIGCONT)
	_ = r.cmd.Process.Signal(sig) // fails only when it has just ended
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-r.done:
		return true
	case <-timer.C:
		_ = r.cmd.Process.Kill()
		<-r.done
		return false
	}
}

// Restart is Stop and Start.
func (p *Process) Restart(ctx context.Context) error {
	if err := p.Stop(); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Pause stops the server from running without ending it: connections stay open and nothing
// answers, as on a machine that hangs. Resume lets it go on.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return fmt.Errorf("servers: %s is stopped", p.name)
	}
	if err := p.run.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("servers: %s: %w", p.name, err)
	}
	return nil
}

// Close stops the server for good and removes its folder.
func (p *Process) Close() error { return errors.Join(p.Stop(), os.RemoveAll(p.dir)) }
