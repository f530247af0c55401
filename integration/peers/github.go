package peers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/cache"
)

// The npm package of real webhook bodies, and the one file of it that is used.
const (
	githubPackage = "@octokit/webhooks-examples"
	githubVersion = "7.6.1"
	githubFile    = "package/api.github.com/index.json"
	githubSHA256  = "09d8f0c617876ae9dad22e26fea5510bfcaad50ee7e602659f6db25b87b25815"
	githubEvents  = 58
	githubBodies  = 329
)

// A GitHubBody is the body of a webhook that GitHub sent.
type GitHubBody struct {
	Event string // the value of X-GitHub-Event
	Body  []byte // 915 to 26,935 bytes of JSON
}

// GitHubBodies returns the 329 bodies, of 58 events, that the npm package
// @octokit/webhooks-examples has for github.com, in its order, as compact as GitHub sends
// them: the package's indentation is left out, and nothing else is changed.
func GitHubBodies(t testing.TB) []GitHubBody {
	t.Helper()
	dir, err := InstallGitHubBodies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Name     string
		Examples []json.RawMessage
	}
	if err := json.Unmarshal(text, &events); err != nil {
		t.Fatal(err)
	}
	var bodies []GitHubBody
	for _, event := range events {
		for _, example := range event.Examples {
			var body bytes.Buffer
			if err := json.Compact(&body, example); err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, GitHubBody{Event: event.Name, Body: body.Bytes()})
		}
	}
	if len(events) != githubEvents || len(bodies) != githubBodies {
		t.Fatalf("%d bodies of %d events, want %d of %d", len(bodies), len(events), githubBodies, githubEvents)
	}
	return bodies
}

// InstallGitHubBodies downloads the package of [GitHubBodies] with npm, once per version,
// and returns the folder of its file, which is checked against a digest.
func InstallGitHubBodies(ctx context.Context) (string, error) {
	return cache.Dir(ctx, "github-bodies-"+githubVersion, func(ctx context.Context, dir string) error {
		if _, err := exec.LookPath("npm"); err != nil {
			return fmt.Errorf("npm is needed, which make integration installs: %w", err)
		}
		work, err := os.MkdirTemp("", "github-bodies-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		if _, err := run(ctx, work, "npm", "pack", "--silent", githubPackage+"@"+githubVersion); err != nil {
			return err
		}
		archives, err := filepath.Glob(filepath.Join(work, "*.tgz"))
		if err != nil {
			return err
		}
		if len(archives) != 1 {
			return fmt.Errorf("npm pack made %d archives, want 1", len(archives))
		}
		text, err := unpack(archives[0], githubFile)
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != githubSHA256 {
			return fmt.Errorf("%s in %s %s is another file than the tests are for", githubFile, githubPackage, githubVersion)
		}
		return os.WriteFile(filepath.Join(dir, "index.json"), text, 0o644)
	})
}

// unpack returns the file called name in a .tgz archive.
func unpack(archive, name string) ([]byte, error) {
	packed, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	unzipped, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	files := tar.NewReader(unzipped)
	for {
		file, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s has no %s", filepath.Base(archive), name)
		}
		if err != nil {
			return nil, err
		}
		if file.Name == name {
			return io.ReadAll(files)
		}
	}
}
