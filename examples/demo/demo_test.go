//go:build !race

// The embedded AMQP server has data races of its own, so these tests are not built with the
// race detector. They run the program as a process: this test binary, called again.

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// asProgram, when set, makes the test binary the program, with the handler of this name.
const asProgram = "ENVELOPE_DEMO_HANDLER"

// handlers are the program's own and some that spoil what they pass on.
var handlers = map[string]message.HandlerFunc{
	"ordinary": handle,
	"changes a byte": func(msg *message.Message) ([]*message.Message, error) {
		if len(msg.Payload) > 0 {
			msg.Payload[0] ^= 1
		}
		return handle(msg)
	},
	"makes new messages": func(msg *message.Message) ([]*message.Message, error) {
		out := message.NewMessage(envelope.NewID(), msg.Payload)
		maps.Copy(out.Metadata, msg.Metadata)
		return handle(out)
	},
	"drops the provider's headers": func(msg *message.Message) ([]*message.Message, error) {
		delete(msg.Metadata, envelope.MetadataHeaders)
		return handle(msg)
	},
	"drops the tenant": func(msg *message.Message) ([]*message.Message, error) {
		delete(msg.Metadata, envelope.MetadataTenantID)
		return handle(msg)
	},
}

func TestMain(m *testing.M) {
	if name := os.Getenv(asProgram); name != "" {
		os.Exit(command(os.Args[1:], handlers[name], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// program returns the command that runs the program with one of handlers.
func program(t *testing.T, handler string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"="+handler, "TMPDIR="+t.TempDir())
	return cmd
}

func TestDemo(t *testing.T) {
	cmd := program(t, "ordinary")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v\n%s\n%s", err, out, &stderr)
	}
	text := string(out)
	for _, want := range []string{
		"POST /github  application/json  737 bytes  7 headers -> 202",
		"POST /github  application/json  737 bytes  6 headers -> 401",
		`{"error":"no_matching_signature"}`,
		`"content_type":"application/x-www-form-urlencoded"`,
		`"body_base64":"AAECAwQFBgcICQoLDA0ODxAR[320 more]"`,
		`"body_base64":""`,
		`reason envelope: invalid_field "id"`,
		"POST /standard  text/plain  3145728 bytes  6 headers -> 202",
		"POST /standard  text/plain  20971520 bytes  6 headers -> 202",
		`"claim":"urn:ankusa:claim:v1:acme:`,
		"claims/tenant=acme/dt=",
		"trace     send hooks [kafka]",
		"─ send hooks [rabbitmq]",
		`envelope_claim_checkins_total{code="ok",topic=""} 2`,
		`envelope_handler_failures_total{class="permanent",code="invalid_field",handler="archive"} 1`,
		"8 hooks equal end to end, 2 of them with the body in the store, 1 refused, 1 broken message kept in the poison topic.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q", want)
		}
	}
	if n := strings.Count(text, "✓ JSON 757   ✓ claim") + strings.Count(text, "✓ JSON 758   ✓ claim"); n != 2 {
		t.Errorf("%d claims are the same at both ends, want 2", n)
	}
	if n := strings.Count(text, "✓ ids   ✓ bytes"); n != len(stops) {
		t.Errorf("%d hooks are equal, want %d", n, len(stops))
	}
	if strings.Contains(text, "✗") || strings.Contains(text, "never-forwarded") {
		t.Error("something differs, or a credential is shown")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// What carries the hooks on from the handler makes no difference.
func TestDemoOverEachTransport(t *testing.T) {
	for _, to := range transports[1:] { // the first is the default
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			cmd := program(t, "ordinary", "-transport", to.name)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil || stderr.Len() > 0 {
				t.Fatalf("%v\n%s\n%s", err, out, &stderr)
			}
			for _, want := range []string{
				"-> an ordinary Watermill handler -> " + to.title + "\n",
				" [" + to.name + "]\n",
				"8 hooks equal end to end, 2 of them with the body in the store, 1 refused, 1 broken message kept in the poison topic.",
			} {
				if !strings.Contains(string(out), want) {
					t.Errorf("the report does not say %q\n%s", want, out)
				}
			}
			// And the checks see what differs there.
			out, err = program(t, "drops the provider's headers", "-transport", to.name).Output()
			if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 ||
				!bytes.Contains(out, []byte("DIFFERS headers: "+to.title+": x-github-event is missing")) {
				t.Errorf("%v, want exit status 1 and a header that is missing\n%s", err, out)
			}
		})
	}
}

// A bucket is as good as a folder, and nothing stays in it.
func TestDemoWithABucket(t *testing.T) {
	bucket := &bucket{objects: map[string][]byte{}}
	server := httptest.NewServer(bucket)
	defer server.Close()
	cmd := program(t, "ordinary", "-s3", server.URL+"/hooks")
	cmd.Env = append(cmd.Env, "AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "2 of them with the body in the store") ||
		!strings.Contains(string(out), "lie in the bucket hooks") {
		t.Fatalf("%v\n%s", err, out)
	}
	bucket.mu.Lock()
	defer bucket.mu.Unlock()
	if bucket.puts != 2 || len(bucket.objects) != 0 {
		t.Errorf("%d objects were put and %d are left, want 2 and 0", bucket.puts, len(bucket.objects))
	}
}

// A bucket is the little of S3 that the demo needs.
type bucket struct {
	mu      sync.Mutex
	puts    int
	objects map[string][]byte
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	object, found := b.objects[r.URL.Path]
	switch {
	case !strings.HasPrefix(r.URL.Path, "/hooks/claims/tenant=acme/dt="):
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == http.MethodPut:
		b.puts++
		w.Header().Set("ETag", `"1"`)
		b.objects[r.URL.Path] = body
	case r.Method == http.MethodDelete:
		delete(b.objects, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	case !found:
		w.WriteHeader(http.StatusNotFound)
	default:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(object))
	}
}

func TestDemoFailsWhenSomethingDiffers(t *testing.T) {
	tests := []struct{ handler, want string }{
		{"changes a byte", "✗ bytes"},
		{"makes new messages", "✗ ids"},
		{"drops the provider's headers", "✗ headers"},
		{"drops the tenant", "✗ metadata"},
	}
	for _, tt := range tests {
		t.Run(tt.handler, func(t *testing.T) {
			out, err := program(t, tt.handler).Output()
			exit, ok := err.(*exec.ExitError)
			if !ok || exit.ExitCode() != 1 {
				t.Fatalf("%v, want exit status 1\n%s", err, out)
			}
			if len(exit.Stderr) > 0 {
				t.Errorf("said on stderr: %s", exit.Stderr)
			}
			if !bytes.Contains(out, []byte(tt.want)) || !bytes.Contains(out, []byte("steps DIFFER")) {
				t.Errorf("the report does not show %q\n%s", tt.want, out)
			}
		})
	}
}

func TestLiveTrafficUntilInterrupted(t *testing.T) {
	for _, to := range transports {
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			liveTraffic(t, to.name)
		})
	}
}

func liveTraffic(t *testing.T, transport string) {
	cmd := program(t, "ordinary", "-listen", "127.0.0.1:0", "-transport", transport)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := bufio.NewScanner(stderr)
	url := ""
	for url == "" && log.Scan() {
		if m := regexp.MustCompile(`msg=ready url=(\S+)`).FindStringSubmatch(log.Text()); m != nil {
			url = m[1]
		}
	}
	if url == "" {
		t.Fatal("never ready")
	}
	want := make(map[string]bool) // ids that were answered with 202
	for _, s := range append(stops, stop{file: "forged"}) {
		status, id := post(t, url, s.file)
		switch {
		case s.file == "forged" && status == http.StatusUnauthorized:
		case s.file != "forged" && status == http.StatusAccepted && id != "":
			want[id] = true
		default:
			t.Errorf("%s: answered %d", s.file, status)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	last := ""
	for log.Scan() {
		last = log.Text()
		if m := regexp.MustCompile(`msg=hook id=(\S+)`).FindStringSubmatch(last); m != nil {
			delete(want, m[1])
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v, want exit status 0", err)
	}
	if len(want) > 0 {
		t.Errorf("%d hooks were answered with 202 and not handled before the end", len(want))
	}
	if !strings.Contains(last, "msg=stopped hooks=8") {
		t.Errorf("the last line is %s", last)
	}
}

func post(t *testing.T, url, file string) (status int, id string) {
	t.Helper()
	r, err := readRequest(file)
	if err != nil {
		t.Fatal(err)
	}
	r.sign(time.Now())
	q, err := r.to(url)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := new(http.Client).Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`"id":"([^"]+)"`).FindSubmatch(body); m != nil {
		id = string(m[1])
	}
	return resp.StatusCode, id
}

func TestBadUse(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"-nonsense"}, "flag provided but not defined: -nonsense"},
		{[]string{"-amqp", "http://user:secret@host"}, "demo: -amqp is not the URL of an AMQP server"},
		{[]string{"-transport", "carrier-pigeon"}, "demo: -transport carrier-pigeon is none of rabbitmq, kafka, nats, "},
		{[]string{"-transport", "nats", "-amqp", "amqp://guest:secret@host"}, "demo: -amqp is an address of -transport rabbitmq"},
		{[]string{"-s3", "http://user:secret@host/claims"}, "demo: -s3 is not the URL of a bucket"},
		{[]string{"-s3", "http://localhost:9000"}, "demo: -s3 is not the URL of a bucket"},
		{[]string{"-s3", "http://localhost:9000/claims", "-store", "x"}, "demo: -s3 and -store are two places"},
	}
	for _, tt := range tests {
		var out, stderr bytes.Buffer
		if code := command(tt.args, handle, &out, &stderr); code != 1 {
			t.Errorf("%v: status %d, want 1", tt.args, code)
		}
		if !strings.Contains(stderr.String(), tt.want) || strings.Contains(stderr.String(), "secret") {
			t.Errorf("%v: said %s", tt.args, &stderr)
		}
	}
}

func TestCurl(t *testing.T) {
	var out, stderr bytes.Buffer
	if code := command([]string{"-curl", "-listen", ":9000"}, handle, &out, &stderr); code != 0 {
		t.Fatal(&stderr)
	}
	for _, want := range []string{
		"cd demo/requests\n",
		`curl -i -w '\n' -K github-push.curl --connect-to ::localhost:9000` + "\n",
		"yes 'one of many lines of a body that no broker takes' | head -c 3145728 > 3MiB.txt\ncurl -i -w '\\n' -K large.curl",
		`curl -i -w '\n' -K stripe-payment.curl --connect-to ::localhost:9000 \` + "\n  -H 'Stripe-Signature: t=",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
