package peers_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope/integration/peers"
)

// The page for users has one line for each reason why an SDK disagrees, and no other.
func TestDocumentedDisagreements(t *testing.T) {
	want := map[string]bool{}
	for _, r := range table() {
		for sdk, d := range r.differ {
			want[string(sdk)+" "+d.reason] = true
		}
	}
	for _, r := range redemptions() {
		for sdk, d := range r.differ {
			want[string(sdk)+" "+d.reason] = true
		}
	}
	text, err := os.ReadFile("../../docs/interoperability.md")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		sdk := peers.SDK(strings.TrimPrefix(cells[0], "| "))
		if len(cells) == 3 && (sdk == peers.Python050 || sdk == peers.Rust060) {
			have[string(sdk)+" "+cells[1]] = true
		}
	}
	for _, line := range slices.Sorted(maps.Keys(want)) {
		if !have[line] {
			t.Errorf("docs/interoperability.md does not say: %s", line)
		}
		delete(have, line)
	}
	for line := range have {
		t.Errorf("docs/interoperability.md says what no row shows: %s", line)
	}
}
