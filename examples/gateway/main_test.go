package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must come. It is never waited out by a test
// that passes.
const patience = 30 * time.Second

// asProgram, when set, makes the test binary the program.
const asProgram = "ENVELOPE_GATEWAY"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// output is what a program writes, which can be waited for.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newOutput() *output { return &output{more: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.more <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// line waits for a first line.
func (o *output) line(t *testing.T) string {
	t.Helper()
	timeout := time.After(patience)
	for {
		if line, _, ok := strings.Cut(o.String(), "\n"); ok {
			return line + "\n"
		}
		select {
		case <-o.more:
		case <-timeout:
			t.Fatalf("no line: %q", o)
		}
	}
}

// The sessions of the page about the gateway work as shown: with another reference, since
// that is new each time, and on ports that are free.
func TestSessionsOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/claim-gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	var servers sync.WaitGroup
	t.Cleanup(func() { cancel(); servers.Wait() })

	const claimID = "01M39VMD8RA3C5HR4RBV67Y000" // on the page
	actual := claimID
	ports := make(map[string]string) // of the page, and here
	steps := regexp.MustCompile(`(?m)^\$ (.*)\n((?:[^$\n].*\n)*)`)
	run := 0
	for _, block := range regexp.MustCompile("(?ms)^```console\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		for _, step := range steps.FindAllStringSubmatch(block[1], -1) {
			run++
			line, want := strings.ReplaceAll(step[1], claimID, actual), step[2]
			for page, here := range ports {
				line, want = strings.ReplaceAll(line, page, here), strings.ReplaceAll(want, page, here)
			}
			var got string
			switch words := split(t, line); words[0] {
			case "printf":
				out, err := exec.Command("sh", "-c", line).CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				got = string(out)
			case "go":
				if words[1] != "run" || words[2] != "./examples/gateway" {
					t.Fatalf("%s: not this program", line)
				}
				args := words[3:]
				if args[len(args)-1] != "&" {
					var out, stderr bytes.Buffer
					if status := command(ctx, args, &out, &stderr); status != 0 {
						t.Fatalf("%s: status %d, %s", line, status, &stderr)
					}
					got = out.String()
					if m := regexp.MustCompile(`acme:([0-9A-Z]{26})\n`).FindStringSubmatch(got); m != nil {
						actual = m[1]
					}
					want = strings.ReplaceAll(want, claimID, actual)
					break
				}
				addr := "127.0.0.1:4001"
				for i, a := range args {
					if a == "-listen" {
						addr = args[i+1]
					}
				}
				out := newOutput()
				servers.Go(func() { command(ctx, append(args[:len(args)-1], "-listen", "127.0.0.1:0"), out, io.Discard) })
				got = out.line(t)
				_, here, _ := strings.Cut(strings.TrimSpace(got), "http://")
				ports[addr] = here
				want = strings.ReplaceAll(want, addr, here)
			case "curl":
				got = curl(t, words[1:])
			default:
				t.Fatalf("%s: not known here", line)
			}
			if strings.TrimSuffix(got, "\n") != strings.TrimSuffix(want, "\n") {
				t.Errorf("$ %s\n%s\nthe page shows\n%s", line, got, want)
			}
		}
	}
	if run < 12 {
		t.Errorf("found %d steps", run)
	}
}

// split splits a line of a shell into words.
func split(t *testing.T, line string) []string {
	t.Helper()
	words := regexp.MustCompile(`'[^']*'|[^ ']+`).FindAllString(line, -1)
	for i, w := range words {
		words[i] = strings.Trim(w, "'")
	}
	return words
}

// curl is as much of curl as the page needs.
func curl(t *testing.T, args []string) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, args[len(args)-1], nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	for i := 0; i < len(args)-1; i++ {
		switch args[i] {
		case "-s":
		case "-I":
			req.Method = http.MethodHead
		case "-r":
			i++
			req.Header.Set("Range", "bytes="+args[i])
		case "-H":
			i++
			name, value, _ := strings.Cut(args[i], ": ")
			req.Header.Add(name, value)
		default:
			t.Fatalf("curl %s: not known here", args[i])
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if req.Method != http.MethodHead {
		return string(body)
	}
	resp.Header.Del("Date")
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s\n", resp.Proto, resp.Status)
	if err := resp.Header.Write(&text); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(text.String(), "\r\n", "\n")
}

// A signal ends the program when what it has begun is answered.
func TestSignal(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "body")
			if err := os.WriteFile(file, bytes.Repeat([]byte("b"), 64<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			var printed bytes.Buffer
			if status := command(context.Background(), []string{"-store", dir + "/store", "-checkin", file, "-tenant", "acme"}, &printed, &printed); status != 0 {
				t.Fatalf("status %d, %s", status, &printed)
			}
			id := regexp.MustCompile(`acme:(\w{26})`).FindStringSubmatch(printed.String())[1]

			ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-store", dir+"/store", "-listen", "127.0.0.1:0")
			cmd.Env = append(os.Environ(), asProgram+"=1")
			out := newOutput()
			cmd.Stdout = out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_, base, _ := strings.Cut(strings.TrimSpace(out.line(t)), " on ")
			resp, err := new(http.Client).Get(base + "/v1/claims/acme/" + id)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			// No new connection is taken, and this one is served to its end.
			deadline := time.Now().Add(patience)
			for {
				conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
				if err != nil {
					break
				}
				conn.Close()
				if time.Now().After(deadline) {
					t.Fatal("still listening")
				}
			}
			if n, err := io.Copy(io.Discard, resp.Body); n != 64<<20 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	store := filepath.Join(dir, "store")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "-store is required"},
		{[]string{"-store", store, "extra"}, "other arguments than flags are not"},
		{[]string{"-store", file("file", "")}, "file"},
		{[]string{"-store", store, "-listen", "nowhere:-1"}, "listen"},
		{[]string{"-store", store, "-checkin", filepath.Join(dir, "missing")}, "missing"},
		{[]string{"-store", store, "-checkin", file("body", "body"), "-tenant", "a/b"}, "invalid_tenant"},
		{[]string{"-store", store, "-tokens", filepath.Join(dir, "missing")}, "missing"},
		{[]string{"-store", store, "-tokens", file("empty", "# none\n\n")}, "no tokens"},
		{[]string{"-store", store, "-tokens", file("one", "# a comment\nsecretsecretsecret\n")}, "one:2: not a token and its tenants"},
		{[]string{"-store", store, "-tokens", file("three", "secretsecretsecret acme, initech\n")}, "three:1: not a token and its tenants"},
		{[]string{"-store", store, "-tokens", file("short", "secret acme\n")}, "token 0 is shorter"},
		{[]string{"-store", store, "-tokens", file("tenant", "secretsecretsecret a/b\n")}, "tenant"},
	} {
		var out, stderr bytes.Buffer
		if status := command(t.Context(), tt.args, &out, &stderr); status != 1 || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%q: status %d, %s\nwant %s", tt.args, status, &stderr, tt.want)
		}
		if out.Len() > 0 || strings.Contains(stderr.String(), "secretsecret") {
			t.Errorf("%q: printed %s and %s", tt.args, &out, &stderr)
		}
	}
	var stderr bytes.Buffer
	if status := command(t.Context(), []string{"-h"}, io.Discard, &stderr); status != 0 || !strings.Contains(stderr.String(), "-tokens file") {
		t.Errorf("-h: status %d, %s", status, &stderr)
	}
}
