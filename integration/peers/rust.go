package peers

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/cache"
)

//go:embed rust/Cargo.toml rust/Cargo.lock rust/src/main.rs
var rustCrate embed.FS

// Rust starts a peer with the SDK for Rust.
func Rust(t testing.TB) *Peer {
	t.Helper()
	dir, err := InstallRust(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return start(t, &Peer{SDK: Rust060}, filepath.Join(dir, "ankusa-peer"))
}

// InstallRust compiles the program of [Rust], once per lock file and sources, and returns
// the folder it is in. It needs cargo from 1.88 on, and takes about a minute of a processor.
func InstallRust(ctx context.Context) (string, error) {
	var sources [][]byte
	for _, name := range []string{"rust/Cargo.toml", "rust/Cargo.lock", "rust/src/main.rs"} {
		text, err := rustCrate.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("peers: %w", err)
		}
		sources = append(sources, text)
	}
	return cache.Dir(ctx, "peer-rust-"+digest(sources...), func(ctx context.Context, dir string) error {
		work, err := os.MkdirTemp("", "ankusa-peer-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		if err := os.CopyFS(work, rustCrate); err != nil {
			return err
		}
		// A development build without debug information: quick to compile, quick enough to run.
		target := filepath.Join(work, "target")
		variables := []string{"CARGO_PROFILE_DEV_DEBUG=0", "CARGO_TARGET_DIR=" + target}
		if _, err := run(ctx, filepath.Join(work, "rust"), variables, "cargo", "build", "--quiet", "--locked"); err != nil {
			return fmt.Errorf("cargo 1.88 or newer is needed: %w", err)
		}
		binary, err := os.ReadFile(filepath.Join(target, "debug", "ankusa-peer"))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "ankusa-peer"), binary, 0o755)
	})
}
