// Package cargo builds the programs of the tests that are written in Rust.
package cargo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/watermill-envelope/envelope/integration/internal/cache"
)

// Build compiles the crate in the folder dir of files, once per lock file and sources, and
// returns the path of its program, which has the crate's name. It needs cargo from 1.88 on and
// minutes of a processor.
func Build(ctx context.Context, files fs.FS, dir, name string) (string, error) {
	crate, err := fs.Sub(files, dir)
	if err != nil {
		return "", fmt.Errorf("cargo: %w", err)
	}
	sources, err := fs.Glob(crate, "src/*.rs")
	if err != nil {
		return "", fmt.Errorf("cargo: %w", err)
	}
	digest := sha256.New()
	for _, file := range append([]string{"Cargo.toml", "Cargo.lock"}, sources...) {
		text, err := fs.ReadFile(crate, file)
		if err != nil {
			return "", fmt.Errorf("cargo: %w", err)
		}
		fmt.Fprintf(digest, "%d\n", len(text))
		digest.Write(text)
	}
	key := name + "-" + hex.EncodeToString(digest.Sum(nil))[:16]
	built, err := cache.Dir(ctx, key, func(ctx context.Context, out string) error {
		work, err := os.MkdirTemp("", name+"-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		if err := os.CopyFS(work, crate); err != nil {
			return err
		}
		target := filepath.Join(work, "target")
		cmd := exec.CommandContext(ctx, "cargo", "build", "--quiet", "--locked")
		cmd.Dir = work
		// A development build without debug information: quick to compile, quick enough to run.
		cmd.Env = append(os.Environ(), "CARGO_PROFILE_DEV_DEBUG=0", "CARGO_TARGET_DIR="+target)
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("cargo 1.88 or newer is needed: cargo build: %w\n%s", err, tail(text))
		}
		program, err := os.ReadFile(filepath.Join(target, "debug", name))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(out, name), program, 0o755)
	})
	return filepath.Join(built, name), err
}

// tail is the end of a long output.
func tail(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[max(0, len(text)-2000):]
}
