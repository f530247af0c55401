// Command vulncheck runs govulncheck on modules with a vulnerability database that comes as
// a Go module, and fails on every known vulnerability in a function that is called, except
// those in the standard library that a newer Go has fixed: they say something about the
// machine's Go, not about the code. Nor does it fail on a package that is known to be without the
// flaw. It names them all the same.
//
//	vulncheck GOVULNCHECK DIR...
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
)

// database is the module in which the database lies, in the folder data/osv. This module's
// go.mod says which version.
const database = "golang.org/x/vulndb"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vulncheck:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: vulncheck GOVULNCHECK DIR")
	}
	db, err := download(ctx)
	if err != nil {
		return err
	}
	failed := false
	for _, dir := range args[1:] {
		scan := exec.CommandContext(ctx, args[0], "-db", "file://"+db, "-format", "json", "./...")
		scan.Dir = dir
		scan.Stderr = os.Stderr
		text, err := scan.Output()
		if err != nil {
			return fmt.Errorf("govulncheck in %s: %w", dir, err)
		}
		r, err := read(bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("govulncheck in %s: %w", dir, err)
		}
		r.print(out, dir)
		failed = failed || len(r.called) > 0
	}
	if failed {
		return errors.New("called code has known vulnerabilities")
	}
	return nil
}

// download returns the folder of the database's files, downloading it where it is not yet.
func download(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", database)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("download the database: %w\n%s", err, text)
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(text, &m); err != nil {
		return "", fmt.Errorf("download the database: %w", err)
	}
	dir := filepath.Join(m.Dir, "data", "osv")
	entries, err := filepath.Glob(filepath.Join(dir, "GO-*.json"))
	if err != nil {
		return "", err
	}
	if len(entries) < 1000 {
		return "", fmt.Errorf("the database in %s has only %d entries", dir, len(entries))
	}
	return dir, nil
}
