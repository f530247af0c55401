package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// A test is one test, subtest or example, or, with an empty name, a package that failed as
// a whole: it did not build, or its process died.
type test struct{ pkg, name string }

func (t test) String() string {
	if t.name == "" {
		return t.pkg
	}
	return t.pkg + " " + t.name
}

// results are the tests of some go test runs.
type results struct {
	passed, failed, skipped []test
	slow                    []slowTest // that took long, subtests included in theirs
	packages                []string   // that ran to their end
}

// A slowTest is a test that took at least slowSeconds.
type slowTest struct {
	test
	seconds float64
}

const slowSeconds = 20

func (r *results) add(o *results) {
	r.slow = append(r.slow, o.slow...)
	r.passed = append(r.passed, o.passed...)
	r.failed = append(r.failed, o.failed...)
	r.skipped = append(r.skipped, o.skipped...)
	r.packages = append(r.packages, o.packages...)
}

// An event is one line of go test -json (see go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
}

// progress is what is known of a package while it runs.
type progress struct {
	output  map[string]*strings.Builder // of each test that has not passed, "" for the package
	passed  int
	failed  int
	skipped int
}

// read reads the events of one go test and prints a line for each package as it ends, and
// before it the output of what failed.
func (r *results) read(events io.Reader, out io.Writer) error {
	packages := map[string]*progress{}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if jsonErr := json.Unmarshal(line, &e); jsonErr != nil {
				out.Write(line) // go test itself, before it has a package to speak of
			} else {
				r.event(packages, e, out)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *results) event(packages map[string]*progress, e event, out io.Writer) {
	if e.Action == "build-output" {
		io.WriteString(out, e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := packages[e.Package]
	if p == nil {
		p = &progress{output: map[string]*strings.Builder{}}
		packages[e.Package] = p
	}
	t := test{e.Package, e.Test}
	switch e.Action {
	case "output":
		b := p.output[e.Test]
		if b == nil {
			b = new(strings.Builder)
			p.output[e.Test] = b
		}
		b.WriteString(e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			r.packageEnd(t, e, p, out)
			delete(packages, e.Package)
			return
		}
		if e.Elapsed >= slowSeconds && !strings.Contains(e.Test, "/") {
			r.slow = append(r.slow, slowTest{t, e.Elapsed})
		}
		switch e.Action {
		case "pass":
			p.passed++
			r.passed = append(r.passed, t)
		case "skip":
			p.skipped++
			r.skipped = append(r.skipped, t)
		case "fail":
			p.failed++
			r.failed = append(r.failed, t)
			if b := p.output[e.Test]; b != nil {
				io.WriteString(out, b.String())
			}
		}
		delete(p.output, e.Test)
	}
}

// packageEnd prints the package's line. A package that failed although none of its tests
// did counts as one failure, with its own output and that of the tests that never ended.
func (r *results) packageEnd(t test, e event, p *progress, out io.Writer) {
	if e.Action == "skip" {
		return // no test files
	}
	r.packages = append(r.packages, t.pkg)
	if e.Action == "fail" {
		unfinished := false
		for name, b := range p.output {
			if name != "" {
				unfinished = true
				io.WriteString(out, b.String())
			}
		}
		if b := p.output[""]; b != nil {
			io.WriteString(out, b.String())
		}
		if p.failed == 0 || unfinished {
			r.failed = append(r.failed, t)
			p.failed++
		}
	}
	word := "ok  "
	if e.Action == "fail" {
		word = "FAIL"
	}
	fmt.Fprintf(out, "%s  %s  %.1f s  %d passed", word, t.pkg, e.Elapsed, p.passed)
	if p.failed > 0 {
		fmt.Fprintf(out, ", %d failed", p.failed)
	}
	if p.skipped > 0 {
		fmt.Fprintf(out, ", %d skipped", p.skipped)
	}
	fmt.Fprintln(out)
}
