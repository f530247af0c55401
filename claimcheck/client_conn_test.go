package claimcheck_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// The end of the caller's context ends it, and is found in the error.
func TestClientContext(t *testing.T) {
	reached, stop := make(chan struct{}, 1), make(chan struct{})
	base, _ := rawServer(t, func(conn net.Conn, _ int) bool {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbo")
		reached <- struct{}{}
		<-stop
		return false
	})
	t.Cleanup(func() { close(stop) })
	cause := errors.New("the cause")
	for _, open := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() { <-reached; cancel(cause) }()
		var err error
		if c := newClient(t, base); open {
			from, e := c.Open(ctx, clientSignedRef, textDigest("body"), 4)
			if err = e; err == nil {
				_, err = io.ReadAll(from)
				from.Close()
			}
		} else {
			_, err = c.Redeem(ctx, clientSignedRef, textDigest("body"), 4)
		}
		checkError(t, fmt.Sprint("open ", open), err, claimcheck.CodeUnavailable)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("open %t: %v", open, err)
		}
	}
}

// A connection that was kept and is dead is replaced. One that is new is not: the failure is
// the caller's to repeat.
func TestClientConnections(t *testing.T) {
	var dropped atomic.Int64
	base, _ := rawServer(t, func(conn net.Conn, request int) bool {
		if request == 0 {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody")
			return true
		}
		dropped.Add(1)
		return false
	})
	c := newClient(t, base)
	for i := 0; dropped.Load() == 0 && i < 1000; i++ {
		if body, err := fetch(c, false, clientRef, textDigest("body"), 4); body != "body" || err != nil {
			t.Fatalf("%q, %v", body, err)
		}
	}
	if dropped.Load() == 0 {
		t.Error("no connection is kept")
	}
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	for _, open := range []bool{false, true} {
		_, err := fetch(newClient(t, srv.URL), open, clientSignedRef, textDigest("body"), 4)
		checkError(t, "nobody listens", err, claimcheck.CodeUnavailable)
	}
	// Of many answers one connection is used again, those without a body included.
	var status atomic.Int64
	conns := make(map[string]bool)
	_, srv = listen(t, func(w http.ResponseWriter, r *http.Request) {
		conns[r.RemoteAddr] = true
		w.WriteHeader(int(status.Load()))
		io.WriteString(w, strings.Repeat("x", 10_000))
	})
	c = newClient(t, srv.URL)
	for _, s := range []int64{404, 503, 429, 400, 403, 404} {
		status.Store(s)
		if _, err := fetch(c, false, clientRef, textDigest("body"), 4); err == nil {
			t.Fatal("no error")
		}
	}
	if len(conns) != 1 {
		t.Errorf("%d connections", len(conns))
	}
}

// quoting is a transport whose errors quote what they should not.
type quoting struct{ wrap func(r *http.Request) error }

func (q quoting) RoundTrip(r *http.Request) (*http.Response, error) { return nil, q.wrap(r) }

func TestClientTransportErrors(t *testing.T) {
	cause := errors.New("connection reset")
	for name, wrap := range map[string]func(r *http.Request) error{
		"a URL error": func(r *http.Request) error { return &url.Error{Op: "Get", URL: r.URL.String(), Err: cause} },
		"one around another": func(r *http.Request) error {
			return &url.Error{URL: r.URL.String(), Err: &url.Error{URL: r.URL.String(), Err: cause}}
		},
		"one without cause": func(r *http.Request) error { return &url.Error{Op: "Get", URL: r.URL.String(), Err: errors.New("")} },
		"text":              func(r *http.Request) error { return fmt.Errorf("get %s: %w", r.URL, cause) },
		"no answer":         func(*http.Request) error { return nil },
	} {
		c := newClient(t, "http://gateway", func(c *claimcheck.ClientConfig) { c.HTTPClient = &http.Client{Transport: quoting{wrap}} })
		for _, open := range []bool{false, true} {
			_, err := fetch(c, open, clientSignedRef, textDigest("body"), 4)
			checkError(t, name, err, claimcheck.CodeUnavailable)
			if strings.Contains(name, "one around") && !errors.Is(err, cause) {
				t.Errorf("%s: %v has lost its cause", name, err)
			}
		}
	}
}

// The proxies of the environment are those of net/http. They are read once in a process, so
// this test is one of its own.
func TestClientProxy(t *testing.T) {
	const child = "ENVELOPE_TEST_GATEWAY"
	if base := os.Getenv(child); base != "" {
		body, err := fetch(newClient(t, base), false, clientRef, textDigest("by proxy"), 8)
		fmt.Println("result:", body, err)
		return
	}
	q, proxy := listen(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "by proxy") })
	for noProxy, want := range map[string]string{"": "result: by proxy <nil>", "gateway.invalid": "unavailable"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestClientProxy$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=http://gateway.invalid", "HTTP_PROXY="+proxy.URL, "http_proxy="+proxy.URL, "NO_PROXY="+noProxy, "no_proxy="+noProxy)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("NO_PROXY=%s: %v\n%s\nwant %s", noProxy, err, out, want)
		}
		if seen := q.take(); noProxy == "" && (len(seen) != 1 || seen[0].Host != "gateway.invalid") || noProxy != "" && len(seen) != 0 {
			t.Errorf("NO_PROXY=%s: the proxy had %d requests", noProxy, len(seen))
		}
	}
}

// Many goroutines share a client.
func TestClientConcurrently(t *testing.T) {
	_, srv := listen(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) })
	c := newClient(t, srv.URL)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			r, err := claimcheck.NewRef(fmt.Sprint("tenant", i), packID)
			if err != nil {
				t.Error(err)
				return
			}
			if body, err := fetch(c, i%2 == 0, r.String(), textDigest(r.Path()), int64(len(r.Path()))); body != r.Path() || err != nil {
				t.Errorf("%q, %v", body, err)
			}
		})
	}
	wg.Wait()
}
