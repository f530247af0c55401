package peers

import (
	"context"
	"embed"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/cargo"
)

//go:embed rust/Cargo.toml rust/Cargo.lock rust/src/main.rs
var rustCrate embed.FS

// Rust starts a peer with the SDK for Rust.
func Rust(t testing.TB) *Peer {
	t.Helper()
	program, err := InstallRust(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return start(t, &Peer{SDK: Rust060}, program)
}

// InstallRust compiles the program of [Rust], once per lock file and sources, and returns its
// path. It needs cargo from 1.88 on, and takes about a minute of a processor.
func InstallRust(ctx context.Context) (string, error) {
	return cargo.Build(ctx, rustCrate, "rust", "ankusa-peer")
}
