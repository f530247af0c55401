package peers_test

import (
	"os"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope/integration/peers"
)

// The tables name the SDKs by version: the pins must be those versions.
func TestPins(t *testing.T) {
	for _, c := range []struct {
		sdk        peers.SDK
		file, line string
	}{
		{peers.Python050, "python/requirements.txt", "\nankusa==0.5.0 "},
		{peers.Rust060, "rust/Cargo.lock", "\nname = \"ankusa\"\nversion = \"0.6.0\"\n"},
	} {
		text, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), c.line) {
			t.Errorf("%s: %s has no line %q", c.sdk, c.file, c.line)
		}
	}
}

func TestGitHubBodies(t *testing.T) {
	smallest, largest := 1<<20, 0
	for _, b := range peers.GitHubBodies(t) {
		smallest, largest = min(smallest, len(b.Body)), max(largest, len(b.Body))
		if b.Event == "" {
			t.Error("a body without an event")
		}
	}
	if smallest != 915 || largest != 26935 {
		t.Errorf("bodies of %d to %d bytes, want 915 to 26,935", smallest, largest)
	}
}
