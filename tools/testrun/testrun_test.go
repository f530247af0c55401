package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// moduleWith writes a module with the package p/x and these test functions' bodies.
func moduleWith(t *testing.T, tests map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	var code strings.Builder
	code.WriteString("package x\n\nimport \"testing\"\n\n")
	for name, body := range tests {
		code.WriteString("func " + name + " {\n" + body + "\n}\n\n")
	}
	for name, text := range map[string]string{"go.mod": "module " + module + "/p\n\ngo 1.26.0\n", "x/x_test.go": code.String()} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func skipsFile(t *testing.T, lines string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "skips.txt")
	if err := os.WriteFile(file, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

var times = regexp.MustCompile(` +[0-9]+\.[0-9] s`)

func TestRun(t *testing.T) {
	t.Setenv("GOWORK", "off")
	for _, c := range []struct {
		name   string
		tests  map[string]string
		skips  string
		steps  []string // DIR stands for the module
		wantOK bool
		want   []string // lines of the output, without times
	}{
		{
			name:   "passed",
			tests:  map[string]string{"TestA(t *testing.T)": "", "TestB(t *testing.T)": `t.Run("sub", func(t *testing.T) {})`},
			steps:  []string{"unit: test DIR ./..."},
			wantOK: true,
			want:   []string{"== unit", "3 passed, 0 failed"},
		},
		{
			name:  "failed, with its output",
			tests: map[string]string{"TestA(t *testing.T)": "", "TestB(t *testing.T)": `t.Error("one is two")`},
			steps: []string{"unit: test DIR ./..."},
			want:  []string{"x_test.go:LINE: one is two", "failed: " + module + "/p/x TestB", "1 passed, 1 failed"},
		},
		{
			name:  "does not build",
			tests: map[string]string{"TestA(t *testing.T)": "undefined()"},
			steps: []string{"unit: test DIR ./..."},
			want:  []string{"x/x_test.go:LINE: undefined: undefined", "failed: " + module + "/p/x", "0 passed, 1 failed"},
		},
		{
			name:  "process dies in a test",
			tests: map[string]string{"TestA(t *testing.T)": "", "TestMain(m *testing.M)": "m.Run()\npanic(\"at the end\")"},
			steps: []string{"unit: test DIR ./..."},
			want:  []string{"panic: at the end", "failed: " + module + "/p/x", "1 passed, 1 failed"},
		},
		{
			name:  "no test",
			tests: map[string]string{"TestA(t *testing.T)": ""},
			steps: []string{"unit: test DIR -run Nothing ./..."},
			want:  []string{"unit: no test ran", "0 passed, 1 failed"},
		},
		{
			name:  "bad arguments of go test",
			tests: map[string]string{"TestA(t *testing.T)": ""},
			steps: []string{"unit: test DIR -count=many ./..."},
			want:  []string{"0 passed, 1 failed"},
		},
		{
			name:  "skipped without leave",
			tests: map[string]string{"TestA(t *testing.T)": "", "TestB(t *testing.T)": `t.Skip("no broker")`},
			steps: []string{"unit: test DIR ./..."},
			want:  []string{"skipped, but not listed: " + module + "/p/x TestB", "1 passed, 1 failed, 1 skipped"},
		},
		{
			name:   "skipped with leave",
			tests:  map[string]string{"TestA(t *testing.T)": "", "TestB(t *testing.T)": `t.Run("sub", func(t *testing.T) { t.Skip() })`},
			skips:  "# why\n\np/x  Test*/sub  not a feature of this broker\np/other TestC a package that did not run\n",
			steps:  []string{"unit: test DIR ./..."},
			wantOK: true,
			want:   []string{"2 passed, 0 failed, 1 skipped"},
		},
		{
			name:  "leave that nobody takes any more",
			tests: map[string]string{"TestA(t *testing.T)": ""},
			skips: "p/x TestA flaky\n",
			steps: []string{"unit: test DIR ./..."},
			want:  []string{"SKIPS: no test was skipped for the line: p/x TestA flaky", "1 passed, 1 failed"},
		},
		{
			name:   "several steps add up",
			tests:  map[string]string{"TestA(t *testing.T)": "", "FuzzB(f *testing.F)": "f.Fuzz(func(*testing.T, int) {})"},
			steps:  []string{"prepare: run true", "unit: test DIR ./...", "fuzz: fuzz DIR 10x ./..."},
			wantOK: true,
			want:   []string{"ok    " + module + "/p/x FuzzB", "3 passed, 0 failed"},
		},
		{
			name:  "fuzz target fails",
			tests: map[string]string{"FuzzB(f *testing.F)": `f.Fuzz(func(t *testing.T, b []byte) { t.Error("found") })`},
			steps: []string{"fuzz: fuzz DIR 10x ./..."},
			want:  []string{"FAIL  " + module + "/p/x FuzzB", "failed: " + module + "/p/x FuzzB", "0 passed, 1 failed"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := moduleWith(t, c.tests)
			skips := skipsFile(t, c.skips)
			var steps []string
			for _, s := range c.steps {
				steps = append(steps, strings.ReplaceAll(s, "DIR", dir))
			}
			var out bytes.Buffer
			err := run(t.Context(), &out, skips, steps)
			if (err == nil) != c.wantOK {
				t.Errorf("error %v, want ok %t", err, c.wantOK)
			}
			text := strings.ReplaceAll(out.String(), skips, "SKIPS")
			text = regexp.MustCompile(`_test\.go:\d+(:\d+)?`).ReplaceAllString(times.ReplaceAllString(text, ""), "_test.go:LINE")
			var lines []string
			for line := range strings.Lines(text) {
				lines = append(lines, strings.TrimSpace(line))
			}
			for _, want := range c.want {
				if !slices.Contains(lines, want) {
					t.Errorf("no line %q in\n%s", want, text)
				}
			}
		})
	}
}

// A preparation that fails has said what is missing: its words are the last ones.
func TestRunEndsWithAFailedPreparation(t *testing.T) {
	script := filepath.Join(t.TempDir(), "prepare")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho missing: cargo\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := run(t.Context(), &out, "", []string{"prepare: run " + script, "unit: test . ./..."})
	if err != errFailed || out.String() != "== prepare\nmissing: cargo\n" {
		t.Errorf("error %v, output %q", err, out.String())
	}
}

func TestRunGivesTemporaryFilesAFolderAndRemovesIt(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	script := filepath.Join(dir, "prepare")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch $TMPDIR/left\necho $TMPDIR\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), &out, "", []string{"prepare: run " + script}); err != nil {
		t.Fatal(err)
	}
	temp := strings.Split(out.String(), "\n")[1]
	if _, err := os.Stat(temp); !os.IsNotExist(err) || filepath.Base(temp) == "" {
		t.Errorf("folder %q: %v, want it gone", temp, err)
	}
}

func TestBadArguments(t *testing.T) {
	for _, c := range []struct {
		name  string
		skips string
		steps []string
	}{
		{"no steps", "", nil},
		{"no name", "", []string{"test . ./..."}},
		{"no kind", "", []string{"unit:"}},
		{"unknown kind", "", []string{"unit: tests ."}},
		{"fuzz without a time", "", []string{"unit: fuzz . ./..."}},
		{"skip without a reason", "p/x TestA", []string{"unit: test ."}},
	} {
		if err := run(t.Context(), &bytes.Buffer{}, skipsFile(t, c.skips), c.steps); err == nil || err == errFailed {
			t.Errorf("%s: error %v, want one that says so", c.name, err)
		}
	}
}
