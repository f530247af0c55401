// Package exampletest runs the example programs, one for each transport, as their users do: as
// a process of their own, which ends by SIGTERM. Their tests are in the module of the examples,
// against embedded servers, and in that of the integration tests, against real ones.
package exampletest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a program may take for all that it does, in a process that shares two
// cores with others.
const patience = 2 * time.Minute

const asProgram = "ENVELOPE_EXAMPLE"

// Main is the TestMain of a program's package: it makes the test binary the program when [Run]
// starts it again.
func Main(m *testing.M, program func()) {
	if os.Getenv(asProgram) != "" {
		program()
		return
	}
	os.Exit(m.Run())
}

// Run runs the program of the package that is tested, with args, and checks it.
func Run(t *testing.T, args ...string) {
	t.Helper()
	run(t, os.Args[0], args, append(os.Environ(), asProgram+"=1"))
}

// RunPackage builds the program in dir, the folder of a package in a module of this repository,
// runs it with args, and checks it.
func RunPackage(t *testing.T, dir string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := filepath.Join(t.TempDir(), "program")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", dir, err, out)
	}
	run(t, path, args, os.Environ())
}

// orders are the sizes of the bodies that each program publishes, in bytes.
var orders = []int{14, 3 << 20}

var order = regexp.MustCompile(`^order [0-9a-f-]{36} of shop has (\d+) bytes$`)

// run starts the program, waits until it has handled both of its orders, and sends SIGTERM. It
// must say that it stopped, exit with status 0, and have put the body of one order into its store.
func run(t *testing.T, path string, args, env []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	store := filepath.Join(t.TempDir(), "claims")
	cmd := exec.CommandContext(ctx, path, append([]string{"-store", store}, args...)...)
	cmd.Env = env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	handled, last := make(map[int]bool), ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		last = lines.Text()
		if m := order.FindStringSubmatch(last); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Error(err)
			}
			before := len(handled)
			if handled[n] = true; len(handled) == len(orders) && before < len(orders) {
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Error(err)
				}
			}
		} else if last != "stopped" {
			t.Errorf("it says %q", last)
		}
	}
	err = cmd.Wait()
	if got := slices.Sorted(maps.Keys(handled)); !slices.Equal(got, orders) {
		t.Errorf("it handled orders of %d bytes, want %d", got, orders)
	}
	if err != nil || last != "stopped" {
		t.Errorf("it ended with %v, and %q", err, last)
	}
	if n := stored(t, store); n != 1 {
		t.Errorf("%d bodies are in the store, want 1", n)
	}
	if t.Failed() {
		t.Logf("%s", &stderr)
	}
}

// stored counts the objects below a folder.
func stored(t *testing.T, folder string) (n int) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path, "tenant=default") {
			n++
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	return n
}
