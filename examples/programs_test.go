// Package examples holds what is so of all programs for one transport.
package examples

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// stories are the programs that show more than a service over one transport.
var stories = []string{"demo", "gateway", "orders", "orders-bus", "trace"}

// unkept are the programs on whose transport a poison topic would keep nothing.
var unkept = []string{"gochannel", "http", "redis-channels"}

// A program for one transport has less than 80 lines, a row in the README, and nothing that hides
// what a service needs: it stands in one file, without help from this repository but the library's.
func TestPrograms(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	programs := 0
	for _, file := range files {
		name := filepath.Dir(file)
		if slices.Contains(stories, name) {
			continue
		}
		programs++
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n >= 80 {
			t.Errorf("%s has %d lines", file, n)
		}
		for _, want := range []string{
			"NewChain(", "NewClaimCheck(", "chained.Publish(", "AddConsumerHandler(", "syscall.SIGTERM", "router.Close()", "pub.Close()",
		} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("%s has no %s", file, want)
			}
		}
		if bytes.Contains(text, []byte("AddMiddleware(must(chain.PoisonQueue(")) == slices.Contains(unkept, name) {
			t.Errorf("%s: a poison topic that keeps nothing, or none", file)
		}
		if bytes.Contains(text, []byte("/internal/")) {
			t.Errorf("%s needs a package that no service can import", file)
		}
		if !bytes.Contains(readme, []byte("(examples/"+file+")")) {
			t.Errorf("the README has no row for %s", name)
		}
		if others, err := filepath.Glob(filepath.Join(name, "*.go")); err != nil || len(others) > 2 {
			t.Errorf("%s has the files %s, %v", name, others, err)
		}
	}
	if programs < 8 {
		t.Errorf("found %d programs", programs)
	}
}
