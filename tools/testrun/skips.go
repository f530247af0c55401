package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// module is the module path that packages in a file of skips are relative to.
const module = "github.com/watermill-envelope/envelope"

// skips are the tests that may be skipped.
type skips struct{ lines []*skipLine }

type skipLine struct {
	text string
	pkg  string
	test *regexp.Regexp
	used bool
}

// readSkips reads the file; an empty name allows no skip at all.
func readSkips(file string) (*skips, error) {
	if file == "" {
		return &skips{}, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := parseSkips(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	return s, nil
}

func parseSkips(text string) (*skips, error) {
	s := &skips{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 3 {
			return nil, fmt.Errorf("%d: want a package, a test and the reason, got %q", number, line)
		}
		pattern := strings.ReplaceAll(regexp.QuoteMeta(words[1]), `\*`, ".*")
		s.lines = append(s.lines, &skipLine{
			text: line,
			pkg:  strings.TrimSuffix(module+"/"+words[0], "/."),
			test: regexp.MustCompile("^(?:" + pattern + ")$"),
		})
	}
	return s, nil
}

// allows reports whether the test may be skipped, and notes the lines that say so.
func (s *skips) allows(t test) bool {
	allowed := false
	for _, l := range s.lines {
		if l.pkg == t.pkg && l.test.MatchString(t.name) {
			l.used = true
			allowed = true
		}
	}
	return allowed
}

// stale returns the lines about packages that ran which allowed nothing.
func (s *skips) stale(packages []string) []string {
	var lines []string
	for _, l := range s.lines {
		if !l.used && slices.Contains(packages, l.pkg) {
			lines = append(lines, l.text)
		}
	}
	return lines
}
