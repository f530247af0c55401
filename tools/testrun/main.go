// Command testrun runs steps one after the other, counts the tests in them, and ends with
// the times of slow tests and of each step, and one line: "N passed, N failed", with
// ", N skipped" when some were. It exits with 1 when anything failed, was skipped without
// leave, or ran no test.
//
//	testrun [-skips FILE] 'NAME: STEP'...
//
// A step is a line of words (there is no quoting) that starts with what it is:
//
//	run COMMAND ARGUMENTS...      a preparation; when it fails the run ends there
//	test DIR ARGUMENTS...         go test with the arguments, in the module in DIR
//	fuzz DIR DURATION PATTERNS... every fuzz target of the packages, each for DURATION
//
// Tests may be skipped only where FILE says so. Each of its lines is the package, relative
// to the repository's module, the test, in which * stands for anything, and the reason. A
// line that fits no test skipped by a package that ran is an error too: it has outlived its
// reason.
//
// Everything runs with its temporary files in one folder, which is removed at the end.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	skips := flag.String("skips", "", "`file` of the tests that may be skipped")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *skips, flag.Args()); err != nil {
		if !errors.Is(err, errFailed) {
			fmt.Fprintln(os.Stderr, "testrun:", err)
		}
		stop()
		os.Exit(1)
	}
}

// errFailed says that everything there is to say has been printed.
var errFailed = errors.New("failed")

// A step is one part of a run.
type step struct {
	name  string
	kind  string
	words []string

	took    time.Duration
	results results
}

// kinds maps what a step is to the least number of words after it.
var kinds = map[string]int{"run": 1, "test": 1, "fuzz": 3}

func parseStep(text string) (*step, error) {
	name, rest, ok := strings.Cut(text, ":")
	words := strings.Fields(rest)
	if !ok || name == "" || len(words) == 0 {
		return nil, fmt.Errorf("step %q: want 'NAME: STEP'", text)
	}
	s := &step{name: name, kind: words[0], words: words[1:]}
	least, known := kinds[s.kind]
	if !known || len(s.words) < least {
		return nil, fmt.Errorf("step %q: want run, test or fuzz, and its arguments", text)
	}
	return s, nil
}

func run(ctx context.Context, out io.Writer, skipsFile string, texts []string) (err error) {
	if len(texts) == 0 {
		return errors.New("no steps")
	}
	var steps []*step
	for _, text := range texts {
		s, err := parseStep(text)
		if err != nil {
			return err
		}
		steps = append(steps, s)
	}
	allowed, err := readSkips(skipsFile)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "envelope-testrun-")
	if err != nil {
		return err
	}
	defer func() {
		if removeErr := os.RemoveAll(temp); removeErr != nil {
			err = errors.Join(err, removeErr)
		}
	}()
	// Servers may run as other users below this folder.
	if err := os.Chmod(temp, 0o711); err != nil {
		return err
	}
	out = &lockedWriter{w: out}
	r := &runner{ctx: ctx, out: out, env: append(os.Environ(), "TMPDIR="+temp)}

	begin := time.Now()
	for _, s := range steps {
		fmt.Fprintf(out, "== %s\n", s.name)
		start := time.Now()
		err := r.step(s)
		s.took = time.Since(start)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			return err
		}
	}
	if !report(out, steps, allowed, skipsFile, time.Since(begin)) {
		return errFailed
	}
	return nil
}

// report prints what went wrong, the times, and the closing line. It reports whether all is
// well.
func report(out io.Writer, steps []*step, allowed *skips, skipsFile string, took time.Duration) bool {
	var all results
	var wrong []string
	tests := false
	for _, s := range steps {
		all.add(&s.results)
		if s.kind == "run" {
			continue
		}
		tests = true
		if s.kind == "test" && len(s.results.passed)+len(s.results.failed)+len(s.results.skipped) == 0 {
			wrong = append(wrong, s.name+": no test ran")
		}
	}
	for _, t := range all.failed {
		wrong = append(wrong, "failed: "+t.String())
	}
	for _, t := range all.skipped {
		if !allowed.allows(t) {
			wrong = append(wrong, "skipped, but not listed: "+t.String())
		}
	}
	for _, line := range allowed.stale(all.packages) {
		wrong = append(wrong, skipsFile+": no test was skipped for the line: "+line)
	}
	if len(wrong) > 0 {
		fmt.Fprintln(out, "== problems")
		for _, w := range wrong {
			fmt.Fprintln(out, w)
		}
	}
	fmt.Fprintln(out, "== times")
	slices.SortFunc(all.slow, func(a, b slowTest) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range all.slow {
		fmt.Fprintf(out, "%-24s %7.1f s\n", t.name, t.seconds)
	}
	for _, s := range steps {
		fmt.Fprintf(out, "%-24s %7.1f s\n", s.name, s.took.Seconds())
	}
	fmt.Fprintf(out, "%-24s %7.1f s\n", "all", took.Seconds())
	if tests {
		fmt.Fprintf(out, "%d passed, %d failed", len(all.passed), len(wrong))
		if n := len(all.skipped); n > 0 {
			fmt.Fprintf(out, ", %d skipped", n)
		}
		fmt.Fprintln(out)
	}
	return len(wrong) == 0
}
