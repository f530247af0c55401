package main

import (
	"bufio"
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// defaultAddr is where the files of the requests directory are sent to.
const defaultAddr = "localhost:8080"

// requests are the files of the requests directory: options of curl, and bodies.
//
//go:embed requests
var requests embed.FS

// largeBodies are the bodies that are no files, by the names that curl reads, with their
// sizes. A line of shell makes them.
var largeBodies = map[string]int{"3MiB.txt": 3 << 20, "20MiB.txt": 20 << 20}

const largeLine = "one of many lines of a body that no broker takes"

// largeBody is what `yes "$largeLine" | head -c $n` writes.
func largeBody(n int) []byte {
	line := largeLine + "\n"
	return bytes.Repeat([]byte(line), n/len(line)+1)[:n]
}

// A request is one file of the requests directory.
type request struct {
	name   string // of the file, without .curl
	path   string
	header []header // in the order of the file
	body   []byte
	file   string // that the body is in, or ""

	signature []header // those of the signature that are not in the file
}

type header struct{ name, value string }

// readRequest reads requests/<name>.curl, which is written for `curl -K`. It knows the three
// options that these files use.
func readRequest(name string) (*request, error) {
	text, err := fs.ReadFile(requests, "requests/"+name+".curl")
	if err != nil {
		return nil, err
	}
	r := &request{name: name}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		if err := r.option(lines.Text()); err != nil {
			return nil, fmt.Errorf("%s.curl, line %d: %w", name, n, err)
		}
	}
	return r, lines.Err()
}

func (r *request) option(line string) error {
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	key, quoted, _ := strings.Cut(line, " = ")
	value, err := strconv.Unquote(quoted)
	if err != nil {
		return fmt.Errorf("value of %q: %w", key, err)
	}
	switch key {
	case "url":
		u, err := url.Parse(value)
		if err != nil {
			return err
		}
		r.path = u.Path
	case "header":
		name, value, _ := strings.Cut(value, ": ")
		r.header = append(r.header, header{name, value})
	case "data-binary":
		file, ok := strings.CutPrefix(value, "@")
		if !ok {
			r.body = []byte(value)
			return nil
		}
		r.file = file
		if n, ok := largeBodies[file]; ok {
			r.body = largeBody(n)
			return nil
		}
		r.body, err = fs.ReadFile(requests, "requests/"+file)
		return err
	default:
		return fmt.Errorf("unknown option %q", key)
	}
	return nil
}

// sign makes the headers that hold the time, for the sources whose signatures do.
func (r *request) sign(now time.Time) {
	if s := sourceOf(r.path); s.sign != nil {
		r.signature = s.sign(s.testSecret, r, now)
	}
}

// get returns the value of the header called name, in any letter case.
func (r *request) get(name string) string {
	for _, h := range r.header {
		if strings.EqualFold(h.name, name) {
			return h.value
		}
	}
	return ""
}

// headers returns all headers that are sent.
func (r *request) headers() []header {
	return slices.Concat(r.header, r.signature)
}

// to returns the request as it is sent to the server at base.
func (r *request) to(base string) (*http.Request, error) {
	q, err := http.NewRequest(http.MethodPost, base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	for _, h := range r.headers() {
		q.Header.Add(h.name, h.value)
	}
	return q, nil
}

// curl returns the command that sends r to the server at addr, to be run in the requests
// directory.
func (r *request) curl(addr string) string {
	var b strings.Builder
	if n, ok := largeBodies[r.file]; ok {
		fmt.Fprintf(&b, "yes '%s' | head -c %d > %s\n", largeLine, n, r.file)
	}
	fmt.Fprintf(&b, "curl -i -w '\\n' -K %s.curl", r.name)
	if addr != defaultAddr {
		fmt.Fprintf(&b, " --connect-to ::%s", addr)
	}
	for _, h := range r.signature {
		fmt.Fprintf(&b, " \\\n  -H '%s: %s'", h.name, h.value)
	}
	return b.String()
}
