package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write writes files, given as name and text, below a new folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
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

// The module "ours" has a package that needs the module "theirs" only for its tests, one
// that needs it through an internal package, an internal package, one of tests alone,
// and a command.
func ours(t *testing.T) string {
	return write(t, map[string]string{
		"m/go.mod":              "module ours\n\ngo 1.26.0\n\nrequire theirs v0.0.0\n\nreplace theirs => ../theirs\n",
		"theirs/go.mod":         "module theirs\n\ngo 1.26.0\n",
		"theirs/sub/sub.go":     "package sub\n",
		"m/light/light.go":      "package light\n\nimport _ \"fmt\"\n",
		"m/light/light_test.go": "package light\n\nimport _ \"theirs/sub\"\n",
		"m/heavy/heavy.go":      "package heavy\n\nimport _ \"ours/internal/x\"\n",
		"m/internal/x/x.go":     "package x\n\nimport _ \"theirs/sub\"\n",
		"m/docs/docs_test.go":   "package docs_test\n",
		"m/cmd/main.go":         "package main\n\nimport _ \"theirs/sub\"\n\nfunc main() {}\n",
	})
}

const golden = "# The modules that a program builds when it imports only the package (make modules).\n" +
	"ours/heavy\n\ttheirs\n" +
	"ours/light\n"

func TestUpdateAndCompare(t *testing.T) {
	t.Setenv("GOWORK", "off")
	dir := filepath.Join(ours(t), "m")
	file := filepath.Join(t.TempDir(), "modules.txt")
	if err := run(os.Stdout, true, []string{dir, file}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); string(got) != golden || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, golden)
	}
	var out bytes.Buffer
	if err := run(&out, false, []string{dir, file}); err != nil || out.Len() > 0 {
		t.Errorf("comparing with itself: %v, output %q", err, out.String())
	}
}

func TestDifferenceFails(t *testing.T) {
	t.Setenv("GOWORK", "off")
	dir := filepath.Join(ours(t), "m")
	for _, c := range []struct{ name, before, want string }{
		{"new dependency", strings.Replace(golden, "\ttheirs\n", "", 1), "+ ours/heavy theirs\n"},
		{"dependency gone", golden + "\ttheirs\n", "- ours/light theirs\n"},
		{"new package", strings.Replace(golden, "ours/light\n", "", 1), "+ ours/light\n"},
	} {
		file := filepath.Join(t.TempDir(), "modules.txt")
		if err := os.WriteFile(file, []byte(c.before), 0o644); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := run(&out, false, []string{dir, file}); err == nil || out.String() != c.want {
			t.Errorf("%s: error %v, output %q; want an error and %q", c.name, err, out.String(), c.want)
		}
	}
}
