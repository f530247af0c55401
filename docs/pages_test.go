// Package docs_test holds the Go code of the pages in this directory and of the README, so
// that it compiles, and the tests that compare the two.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope"
)

// root is where paths on the pages lead from.
const root = ".."

// pages returns the text of every page by its path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		names, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil || len(names) < 3 {
			t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(text)
		}
	}
	return texts
}

var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// code returns the lines of text that have more than white space, without their indentation.
func code(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// Every block of Go code on a page is a part of a test file here, where it is compiled. Of
// a diff, that is the text after it.
func TestCodeIsCompiled(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var compiled strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		compiled.WriteString("\n" + code(string(text)))
	}
	blocks := 0
	removed := regexp.MustCompile(`(?m)^-.*\n`)
	added := regexp.MustCompile(`(?m)^[+ ]`)
	for page, text := range pages(t) {
		for _, block := range fence.FindAllStringSubmatch(text, -1) {
			switch block[1] {
			case "go":
			case "diff":
				block[2] = added.ReplaceAllString(removed.ReplaceAllString(block[2], ""), "")
			default:
				continue
			}
			blocks++
			if !strings.Contains(compiled.String(), "\n"+code(block[2])) {
				t.Errorf("%s: this code is in no docs/*_test.go:\n%s", page, block[2])
			}
		}
	}
	if blocks < 10 {
		t.Errorf("found %d blocks of code", blocks)
	}
}

// The example of the wire format is one: it is read, and written again to the same bytes.
func TestWireExample(t *testing.T) {
	found := false
	for _, block := range fence.FindAllStringSubmatch(pages(t)["docs/wire.md"], -1) {
		if block[1] != "json" {
			continue
		}
		found = true
		text := strings.TrimSuffix(block[2], "\n")
		e, err := envelope.ParseWire([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.AppendWire(nil); err != nil || string(got) != text {
			t.Errorf("written again, %v:\n%s\nwant\n%s", err, got, text)
		}
	}
	if !found {
		t.Error("no example")
	}
}
