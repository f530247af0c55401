package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, ""); err != nil {
		t.Fatal(err)
	}
	// The services write at the same time, and their ids are new each time.
	lines := strings.Split(strings.TrimSpace(regexp.MustCompile(`\b[0-9a-f]{12}\b`).ReplaceAllString(out.String(), "ID")), "\n")
	slices.Sort(lines)
	want := []string{
		"billing  A-1 of acme: 1999 cents, attempt 1",
		"billing  A-2 fails: the card's bank does not answer",
		"billing  A-2 of acme: 500 cents, attempt 2",
		"mail     invoice I-1 for A-1, in the chain ID",
		"mail     invoice I-2 for A-2, in the chain ID",
		"shop     A-1 cancelled as message ID",
		"shop     A-1 placed as message ID",
		"shop     A-2 placed as message ID",
		"support  dead letter ID: orders.cancelled",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("printed\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
