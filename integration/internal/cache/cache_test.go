package cache_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/cache"
)

type filler = func(ctx context.Context, dir string) error

var kinds = []struct {
	name string
	get  func(ctx context.Context, name string, fill filler) (string, error)
}{
	{"Dir", cache.Dir},
	{"InPlace", cache.InPlace},
}

func write(name, text string) filler {
	return func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
	}
}

func TestFilledOnceByMany(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			var calls atomic.Int32
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					dir, err := kind.get(t.Context(), "thing/1.0", func(ctx context.Context, dir string) error {
						calls.Add(1)
						return write("f", "contents")(ctx, dir)
					})
					if err != nil {
						t.Error(err)
						return
					}
					if got, err := os.ReadFile(filepath.Join(dir, "f")); string(got) != "contents" {
						t.Errorf("f = %q, %v", got, err)
					}
				})
			}
			all.Wait()
			if n := calls.Load(); n != 1 {
				t.Errorf("filled %d times, want once", n)
			}
		})
	}
}

func TestFailureLeavesNothingAndIsTriedAgain(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("XDG_CACHE_HOME", home)
			cause := errors.New("no network")
			_, err := kind.get(t.Context(), "thing-1", func(ctx context.Context, dir string) error {
				return errors.Join(write("half", "x")(ctx, dir), cause)
			})
			if !errors.Is(err, cause) || !strings.Contains(err.Error(), "thing-1") {
				t.Fatalf("error = %v, want one that names the folder and wraps the cause", err)
			}
			root := filepath.Join(home, "watermill-envelope")
			left, err := os.ReadDir(root)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range left {
				if e.Name() != "thing-1.lock" {
					t.Errorf("a failed fill left %s", e.Name())
				}
			}
			dir, err := kind.get(t.Context(), "thing-1", write("whole", "y"))
			if err != nil {
				t.Fatal(err)
			}
			if dir != filepath.Join(root, "thing-1") {
				t.Errorf("folder %s is not below %s", dir, root)
			}
			if _, err := os.Stat(filepath.Join(dir, "half")); !os.IsNotExist(err) {
				t.Errorf("the half-made file survived: %v", err)
			}
		})
	}
}

// A process that was killed while it filled a folder leaves it without its mark.
func TestInPlaceRefillsWhatWasCutOff(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	half := filepath.Join(home, "watermill-envelope", "venv-1")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := write("half", "x")(t.Context(), half); err != nil {
		t.Fatal(err)
	}
	dir, err := cache.InPlace(t.Context(), "venv-1", write("whole", "y"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "whole" {
		t.Errorf("contents %v, %v; want only the file of the second fill", entries, err)
	}
}
