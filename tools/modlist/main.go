// Command modlist prints, for each package of a module that others can import, the modules
// that a program builds when it imports only that package. The list is checked in, so that
// a new dependency is a line in a review.
//
//	modlist DIR FILE          compares the list with FILE and fails when they differ
//	modlist -update DIR FILE  writes it
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	update := flag.Bool("update", false, "write the file instead of comparing with it")
	flag.Parse()
	if err := run(os.Stdout, *update, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "modlist:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, update bool, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: modlist [-update] DIR FILE")
	}
	dir, file := args[0], args[1]
	packages, err := load(dir)
	if err != nil {
		return err
	}
	now := format(packages)
	if update {
		return os.WriteFile(file, []byte(now), 0o644)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if string(before) == now {
		return nil
	}
	for _, line := range difference(string(before), now) {
		fmt.Fprintln(out, line)
	}
	return fmt.Errorf("%s no longer says what a user of each package builds: see whether that is meant, and run make modules", file)
}

// A pkg is a package as go list prints it.
type pkg struct {
	ImportPath, Name string
	DepOnly          bool
	GoFiles, Deps    []string
	Module           *struct {
		Path string
		Main bool
	}
}

// load returns the packages of the module in dir and those they need, by import path. The
// list is that of one platform, whatever the machine is.
func load(dir string) (map[string]*pkg, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Name,DepOnly,GoFiles,Deps,Module", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", dir, err)
	}
	packages := map[string]*pkg{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		p := new(pkg)
		err := decoder.Decode(p)
		if err == io.EOF {
			return packages, nil
		}
		if err != nil {
			return nil, err
		}
		packages[p.ImportPath] = p
	}
}

// format lists each package that can be imported from outside, and below it, indented, the
// modules that its packages come from.
func format(packages map[string]*pkg) string {
	var b strings.Builder
	b.WriteString("# The modules that a program builds when it imports only the package (make modules).\n")
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		p := packages[path]
		if p.DepOnly || p.Name == "main" || len(p.GoFiles) == 0 || internal(path) {
			continue
		}
		b.WriteString(path + "\n")
		modules := map[string]bool{}
		for _, dep := range p.Deps {
			if d := packages[dep]; d != nil && d.Module != nil && !d.Module.Main {
				modules[d.Module.Path] = true
			}
		}
		for _, m := range slices.Sorted(maps.Keys(modules)) {
			b.WriteString("\t" + m + "\n")
		}
	}
	return b.String()
}

func internal(path string) bool { return slices.Contains(strings.Split(path, "/"), "internal") }

// difference returns the lines of one list that the other has not, each with its package.
func difference(before, now string) []string {
	var lines []string
	for _, side := range []struct{ sign, text, other string }{{"-", before, now}, {"+", now, before}} {
		others := entries(side.other)
		for _, e := range entries(side.text) {
			if !slices.Contains(others, e) {
				lines = append(lines, side.sign+" "+e)
			}
		}
	}
	return lines
}

// entries returns each line of a list as "package" or "package module".
func entries(text string) []string {
	var all []string
	var pkg string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if module, ok := strings.CutPrefix(line, "\t"); ok {
			all = append(all, pkg+" "+module)
		} else {
			pkg = line
			all = append(all, pkg)
		}
	}
	return all
}
