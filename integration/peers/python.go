package peers

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/cache"
)

//go:embed python/peer.py
var pythonPeer string

//go:embed python/requirements.txt
var pythonRequirements []byte

// Python starts a peer with the SDK for Python.
func Python(t testing.TB) *Peer {
	t.Helper()
	environment, err := InstallPython(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return start(t, &Peer{
		SDK:     Python050,
		Unknown: []string{"verification", "trusted", "traceparent", "tracestate", "instance", "region"},
	}, filepath.Join(environment, "bin", "python"), "-u", "-c", pythonPeer)
}

// InstallPython makes the virtual environment of [Python], once per version of Python and of
// the SDK, and returns its folder. It needs python3 from 3.11 on, with venv.
func InstallPython(ctx context.Context) (string, error) {
	version, err := run(ctx, "", "python3", "-c", `import sys
assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed"
print(sys.base_prefix, sys.version)`)
	if err != nil {
		return "", fmt.Errorf("peers: %w", err)
	}
	return cache.InPlace(ctx, "peer-python-"+digest(pythonRequirements, version), func(ctx context.Context, dir string) error {
		if _, err := run(ctx, "", "python3", "-m", "venv", dir); err != nil {
			return fmt.Errorf("python3-venv is needed, which make integration installs: %w", err)
		}
		requirements := filepath.Join(dir, "requirements.txt")
		if err := os.WriteFile(requirements, pythonRequirements, 0o644); err != nil {
			return err
		}
		_, err := run(ctx, "", filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--quiet",
			"--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:", "--requirement", requirements)
		return err
	})
}
