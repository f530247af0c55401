package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A runner runs the commands of the steps.
type runner struct {
	ctx context.Context
	out io.Writer
	env []string
}

// A lockedWriter lets a command's standard error and what is said of its tests share one
// writer.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// step runs one step. Tests that fail are in its results; an error ends the run.
func (r *runner) step(s *step) error {
	if s.kind != "run" {
		if _, err := os.Stat(s.words[0]); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	switch s.kind {
	case "run":
		return r.run(s)
	case "test":
		return r.test(s, s.words[0], s.words[1:])
	default:
		return r.fuzz(s, s.words[0], s.words[1], s.words[2:])
	}
}

// stopTimeout is how long an interrupted command may take to stop its servers.
const stopTimeout = time.Minute

// command returns a command in a process group of its own. When the run is interrupted the
// whole group is: go test does not pass a signal on to the tests it runs.
func (r *runner) command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.ctx, name, args...)
	cmd.Dir, cmd.Env = dir, r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = stopTimeout
	cmd.Stderr = r.out
	return cmd
}

func (r *runner) run(s *step) error {
	cmd := r.command("", s.words[0], s.words[1:]...)
	cmd.Stdout = r.out
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); ok {
			return errFailed // the command has said why
		}
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// test runs go test in dir and adds its results to the step's.
func (r *runner) test(s *step, dir string, args []string) error {
	if slices.Contains(args, "-race") {
		if err := r.needCompiler(); err != nil {
			return err
		}
	}
	cmd := r.command(dir, "go", append([]string{"test", "-json"}, args...)...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var got results
	readErr := got.read(stdout, r.out)
	err = cmd.Wait()
	if err != nil && len(got.failed) == 0 {
		// A command line that go test refuses, a killed process: no test says why.
		got.failed = append(got.failed, test{pkg: "go test in " + dir, name: err.Error()})
	}
	s.results.add(&got)
	return readErr
}

// needCompiler reports an error that says what to do when the race detector cannot be
// linked.
func (r *runner) needCompiler() error {
	out, err := r.command("", "go", "env", "CC").Output()
	if err != nil {
		return err
	}
	if cc := strings.Fields(string(out)); len(cc) > 0 {
		if _, err := exec.LookPath(cc[0]); err != nil {
			return fmt.Errorf("the race detector needs a C compiler: install gcc and libc6-dev: %w", err)
		}
	}
	return nil
}

// fuzz finds the fuzz targets of the packages and runs each for a while. What a target finds
// is written to the package's testdata, where its next run of go test tries it again.
func (r *runner) fuzz(s *step, dir, duration string, patterns []string) error {
	list := r.command(dir, "go", append([]string{"test", "-list", "^Fuzz"}, patterns...)...)
	out, err := list.Output()
	if err != nil {
		r.out.Write(out)
		return fmt.Errorf("%s: go test -list: %w", s.name, err)
	}
	targets := fuzzTargets(string(out))
	if len(targets) == 0 {
		return fmt.Errorf("%s: no fuzz target in %s", s.name, dir)
	}
	for _, t := range targets {
		start := time.Now()
		// Without a bound, making one input smaller may outlast the time, which is then an error.
		cmd := r.command(dir, "go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", duration, "-fuzzminimizetime", "100x", t.pkg)
		var text bytes.Buffer
		cmd.Stdout, cmd.Stderr = &text, &text
		err := cmd.Run()
		if interrupted := r.ctx.Err(); interrupted != nil {
			return interrupted
		}
		word := "ok  "
		if err != nil {
			word = "FAIL"
			s.results.failed = append(s.results.failed, t)
			r.out.Write(text.Bytes())
		} else {
			s.results.passed = append(s.results.passed, t)
		}
		fmt.Fprintf(r.out, "%s  %s  %.1f s\n", word, t, time.Since(start).Seconds())
	}
	return nil
}

// fuzzTargets reads the output of go test -list: for each package its targets, line by line,
// and then "ok", the package and the time.
func fuzzTargets(output string) []test {
	var targets []test
	var names []string
	for line := range strings.Lines(output) {
		words := strings.Fields(line)
		switch {
		case len(words) == 1 && strings.HasPrefix(words[0], "Fuzz"):
			names = append(names, words[0])
		case len(words) >= 2 && words[0] == "ok":
			for _, name := range names {
				targets = append(targets, test{pkg: words[1], name: name})
			}
			names = nil
		}
	}
	return targets
}
