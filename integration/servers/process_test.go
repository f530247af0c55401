package servers

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell is a server that is a shell script.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	p := newProcess("shell", t.TempDir(), "I am ready", func() *exec.Cmd { return exec.Command("sh", "-c", script) })
	t.Cleanup(func() { _ = p.Close() })
	return p
}

const serve = "echo I am ready; exec sleep 60"

func TestStartWaitsForTheLine(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"alone", serve},
		{"cut into two writes", "printf 'I am '; sleep 0.05; echo ready; exec sleep 60"},
		{"inside a line, on standard error", "echo boot; echo '[info] I am ready now' >&2; exec sleep 60"},
		{"after a line longer than is kept", "head -c 200000 /dev/zero | tr '\\0' x; echo; echo I am ready; exec sleep 60"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := shell(t, c.script)
			if err := p.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := p.Start(t.Context()); err != nil {
				t.Errorf("starting a running server: %v", err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(p.LogFile()); !os.IsNotExist(err) {
				t.Errorf("the log is still there: %v", err)
			}
		})
	}
}

func TestStartFails(t *testing.T) {
	t.Run("server ends", func(t *testing.T) {
		err := shell(t, "echo port taken >&2; exit 3").Start(t.Context())
		if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "port taken") {
			t.Errorf("error %v, want one with the status and the log", err)
		}
	})
	t.Run("context ends", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		p := shell(t, "echo still booting; exec sleep 60")
		if err := p.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the context's", err)
		}
		if p.run != nil {
			t.Error("a server that never was ready is left running")
		}
	})
	t.Run("no such program", func(t *testing.T) {
		p := newProcess("none", t.TempDir(), "x", func() *exec.Cmd { return exec.Command("no-such-program") })
		if err := p.Start(t.Context()); !errors.Is(err, exec.ErrNotFound) {
			t.Errorf("error %v, want %v", err, exec.ErrNotFound)
		}
	})
}

func TestStop(t *testing.T) {
	t.Run("paused", func(t *testing.T) {
		p := shell(t, "trap 'echo bye; exit 0' TERM; echo I am ready; while :; do sleep 0.01; done")
		if err := errors.Join(p.Start(t.Context()), p.Pause(), p.Stop()); err != nil {
			t.Fatal(err)
		}
		if log := p.LogTail(1); log != "bye" {
			t.Errorf("last line %q: the server was not asked to stop", log)
		}
	})
	t.Run("ended by itself", func(t *testing.T) {
		p := shell(t, "trap 'exit 7' USR1; echo I am ready; while :; do sleep 0.01; done")
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.run.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		<-p.run.done
		if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 7") {
			t.Errorf("error %v, want one that says that the server had crashed", err)
		}
	})
	t.Run("log goes on after a restart", func(t *testing.T) {
		p := shell(t, serve)
		if err := errors.Join(p.Start(t.Context()), p.Kill(), p.Restart(t.Context())); err != nil {
			t.Fatal(err)
		}
		if log := p.LogTail(9); log != "I am ready\nI am ready" {
			t.Errorf("log %q, want that of both lives", log)
		}
	})
}

// TestNoOrphans kills the process that started a server, which runs none of its deferred
// calls, and waits for the server to be gone.
func TestNoOrphans(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperParent$")
	cmd.Env = append(os.Environ(), "ENVELOPE_TEST_PARENT="+t.TempDir())
	lifeline, err := cmd.StdoutPipe() // held open by the helper and by the server
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	output := bufio.NewReader(lifeline)
	if line, err := output.ReadString('\n'); line != "server runs\n" {
		t.Fatalf("helper said %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(output); err != nil { // ends when nobody holds the other end
		t.Error(err)
	}
	_ = cmd.Wait() // killed, as asked
}

// TestHelperParent is the process that TestNoOrphans kills.
func TestHelperParent(t *testing.T) {
	dir := os.Getenv("ENVELOPE_TEST_PARENT")
	if dir == "" {
		return
	}
	p := newProcess("orphan", dir, "I am ready", func() *exec.Cmd {
		cmd := exec.Command("sh", "-c", "echo I am ready; exec sleep 600")
		cmd.ExtraFiles = []*os.File{os.Stdout}
		return cmd
	})
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("server runs\n")
	select {}
}

func TestFreePorts(t *testing.T) {
	ports, err := freePorts(5)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] || port < firstPort || port >= lastPort {
			t.Errorf("ports %v, want different ones from %d up to %d", ports, firstPort, lastPort)
		}
		seen[port] = true
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			t.Errorf("not free: %v", err)
			continue
		}
		l.Close()
	}
}
