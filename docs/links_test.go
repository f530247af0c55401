package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// Every link to a file, and to a heading of a page, leads somewhere.
func TestLinks(t *testing.T) {
	texts := pages(t)
	anchors := make(map[string]map[string]bool)
	for page, text := range texts {
		anchors[page] = make(map[string]bool)
		for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			anchors[page][anchor(h[1])] = true
		}
	}
	links := 0
	for page, text := range texts {
		for _, l := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			links++
			file, fragment, _ := strings.Cut(l[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
				if _, err := os.Stat(filepath.Join(root, target)); err != nil {
					t.Errorf("%s: link to %s: no such file", page, l[1])
					continue
				}
			}
			if fragment != "" && !anchors[target][fragment] {
				t.Errorf("%s: link to %s: no such heading", page, l[1])
			}
		}
	}
	if links < 20 {
		t.Errorf("found %d links", links)
	}
}

// anchor is the fragment under which a heading is linked.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
