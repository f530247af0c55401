package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

const begin = `{"config":{"scanner_version":"v1.9.0"}} {"SBOM":{"modules":[]}} {"progress":{"message":"..."}} {"osv":{"id":"GO-1"}} `

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, text                string
		called, tolerate, present []string
		accepted                  []string
	}{
		{name: "nothing found", text: ""},
		{
			name: "called function of a dependency",
			text: `{"finding":{"osv":"GO-1","fixed_version":"v1.2.0","trace":[{"module":"m","version":"v1.1.0"}]}}
			       {"finding":{"osv":"GO-1","fixed_version":"v1.2.0","trace":[{"module":"m","version":"v1.1.0","package":"m/p"}]}}
			       {"finding":{"osv":"GO-1","fixed_version":"v1.2.0","trace":[{"module":"m","version":"v1.1.0","package":"m/p","function":"F"},{"module":"ours","package":"ours","function":"G"}]}}`,
			called: []string{"GO-1"},
		},
		{
			name:    "dependency whose bad function is not called",
			text:    `{"finding":{"osv":"GO-2","trace":[{"module":"m","version":"v1.1.0","package":"m/p"}]}}`,
			present: []string{"GO-2"},
		},
		{
			name:     "standard library, fixed in a newer Go",
			text:     `{"finding":{"osv":"GO-3","fixed_version":"v1.26.9","trace":[{"module":"stdlib","version":"v1.26.8","package":"crypto/tls","function":"Dial"}]}}`,
			tolerate: []string{"GO-3"},
		},
		{
			name: "standard library, not called",
			text: `{"finding":{"osv":"GO-3","fixed_version":"v1.26.9","trace":[{"module":"stdlib","version":"v1.26.8","package":"crypto/tls"}]}}`,
		},
		{
			name:   "standard library, and no Go has fixed it: we must not call it",
			text:   `{"finding":{"osv":"GO-4","trace":[{"module":"stdlib","version":"v1.26.8","package":"crypto/tls","function":"Dial"}]}}`,
			called: []string{"GO-4"},
		},
		{
			name: "two of them",
			text: `{"finding":{"osv":"GO-5","fixed_version":"v2","trace":[{"module":"m","package":"m","function":"F"}]}}
			       {"finding":{"osv":"GO-6","fixed_version":"v3","trace":[{"module":"m","package":"m","function":"F"}]}}`,
			called: []string{"GO-5", "GO-6"},
		},
		{
			name: "a package that is sound, of a module that has the flaw",
			text: `{"finding":{"osv":"GO-2026-4316","trace":[{"module":"github.com/go-chi/chi","package":"github.com/go-chi/chi"}]}}
			       {"finding":{"osv":"GO-2026-4316","trace":[{"module":"github.com/go-chi/chi","package":"github.com/go-chi/chi","function":"F"}]}}`,
			accepted: []string{"GO-2026-4316"},
		},
		{
			name: "the package that has the flaw, and another flaw",
			text: `{"finding":{"osv":"GO-2026-4316","trace":[{"module":"github.com/go-chi/chi","package":"github.com/go-chi/chi/middleware","function":"F"}]}}
			       {"finding":{"osv":"GO-7","trace":[{"module":"github.com/go-chi/chi","package":"github.com/go-chi/chi","function":"F"}]}}`,
			called: []string{"GO-2026-4316", "GO-7"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := read(strings.NewReader(begin + c.text))
			if err != nil {
				t.Fatal(err)
			}
			for _, list := range []struct {
				name string
				got  map[string]string
				want []string
			}{{"called", r.called, c.called}, {"tolerated", r.tolerate, c.tolerate}, {"present", r.present, c.present}, {"accepted", r.accepted, c.accepted}} {
				if got := slices.Sorted(maps.Keys(list.got)); !slices.Equal(got, list.want) {
					t.Errorf("%s: %v, want %v", list.name, got, list.want)
				}
			}
		})
	}
}

func TestReadRefusesAnIncompleteScan(t *testing.T) {
	for _, text := range []string{
		"",
		`{"config":{"scanner_version":"v1.9.0"}}`,
		begin + `{"finding":{"osv":"GO-1"`,
		begin + `{"finding":{}}`,
		"govulncheck: no go.mod file",
	} {
		if r, err := read(strings.NewReader(text)); err == nil {
			t.Errorf("%q was taken as a scan: %+v", text, r)
		}
	}
}
