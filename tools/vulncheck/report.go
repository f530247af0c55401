package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// A report is what govulncheck found in one module.
type report struct {
	called   map[string]string // vulnerability: where it is, and what fixes it
	tolerate map[string]string // the same, in the standard library
	present  map[string]string // in code that is not called: the module and its version
	accepted map[string]string // called, and no flaw in what is called: why
}

// sound says of packages that an entry is wrong about them. An entry that names no package means
// all that a module has.
var sound = map[[2]string]string{
	{"GO-2026-4316", "github.com/go-chi/chi"}: "the flaw is in RedirectSlashes of its package middleware, which watermill-http does not import",
}

// A message is one object of govulncheck's JSON output, as far as it matters here.
type message struct {
	Config *struct {
		ScannerVersion string `json:"scanner_version"`
	}
	SBOM    *struct{}
	Finding *finding
}

type finding struct {
	OSV          string
	FixedVersion string `json:"fixed_version"`
	Trace        []struct {
		Module, Version, Package, Function string
	}
}

// read reads govulncheck's output. Output that does not show a complete scan is an error,
// because a scan that found nothing looks like one that never was.
func read(text io.Reader) (*report, error) {
	r := &report{called: map[string]string{}, tolerate: map[string]string{}, present: map[string]string{}, accepted: map[string]string{}}
	config, sbom := false, false
	decoder := json.NewDecoder(text)
	for {
		var m message
		err := decoder.Decode(&m)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		config = config || m.Config != nil
		sbom = sbom || m.SBOM != nil
		if m.Finding != nil {
			if err := r.add(m.Finding); err != nil {
				return nil, err
			}
		}
	}
	if !config || !sbom {
		return nil, errors.New("the output is of no complete scan")
	}
	for id := range r.called {
		delete(r.present, id)
	}
	for id := range r.tolerate {
		delete(r.present, id)
	}
	for id := range r.accepted {
		delete(r.present, id)
	}
	return r, nil
}

// add files a finding. Each vulnerability is reported up to three times: for the module, for
// the package, and for each function that is called.
func (r *report) add(f *finding) error {
	if f.OSV == "" || len(f.Trace) == 0 {
		return errors.New("a finding without a name or a trace")
	}
	at := f.Trace[0]
	module := at.Module + "@" + at.Version
	where := module
	if f.FixedVersion != "" {
		where += ", fixed in " + f.FixedVersion
	}
	switch {
	case at.Function == "" && at.Module == "stdlib":
		// No code of ours calls it, and nothing but the machine's Go could change it.
	case at.Function == "":
		r.present[f.OSV] = module
	case at.Module == "stdlib" && f.FixedVersion != "":
		r.tolerate[f.OSV] = where
	case sound[[2]string{f.OSV, at.Package}] != "":
		r.accepted[f.OSV] = module + ": " + sound[[2]string{f.OSV, at.Package}]
	default:
		r.called[f.OSV] = at.Package + "." + at.Function + " of " + where
	}
	return nil
}

func (r *report) print(out io.Writer, dir string) {
	fmt.Fprintf(out, "vulnerabilities in %s: %d called, %d called in the standard library of this Go, %d not called\n",
		dir, len(r.called), len(r.tolerate), len(r.present))
	for _, list := range []struct {
		word string
		of   map[string]string
	}{{"CALLED", r.called}, {"newer Go", r.tolerate}, {"sound", r.accepted}} {
		for _, id := range slices.Sorted(maps.Keys(list.of)) {
			fmt.Fprintf(out, "  %-10s %s %s\n", list.word, id, list.of[id])
		}
	}
	modules := map[string]int{}
	for _, module := range r.present {
		modules[module]++
	}
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		fmt.Fprintf(out, "  %-10s %d in %s\n", "not called", modules[module], module)
	}
}
