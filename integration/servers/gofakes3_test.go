package servers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

func gofakes3Server(t *testing.T, o Gofakes3Options) *Gofakes3 {
	t.Helper()
	g, err := StartGofakes3(o)
	if err != nil {
		t.Fatal(err)
	}
	CloseAfter(t, g)
	return g
}

func put(ctx context.Context, g *Gofakes3, c *s3.Client, key, body string) error {
	_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(g.Bucket()), Key: aws.String(key), Body: strings.NewReader(body)})
	return err
}

func get(ctx context.Context, g *Gofakes3, c *s3.Client, key string) (string, error) {
	out, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(g.Bucket()), Key: aws.String(key)})
	if err != nil {
		return "", err
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	return string(body), err
}

func TestGofakes3KeepsItsObjects(t *testing.T) {
	g := gofakes3Server(t, Gofakes3Options{})
	c := g.Client()
	if err := put(t.Context(), g, c, "k", "body"); err != nil {
		t.Fatal(err)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if body, err := get(t.Context(), g, c, "k"); err == nil {
		t.Errorf("a stopped server answered %q", body)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if body, err := get(t.Context(), g, c, "k"); body != "body" || err != nil {
		t.Errorf("after a restart the object is %q, %v", body, err)
	}
	if puts, gets := g.Requests(http.MethodPut), g.Requests(http.MethodGet); puts != 1 || gets != 1 {
		t.Errorf("%d puts and %d gets were counted, want 1 and 1: who was refused is no request", puts, gets)
	}
}

func TestGofakes3Faults(t *testing.T) {
	g := gofakes3Server(t, Gofakes3Options{})
	c := g.Client()
	whole := strings.Repeat("0123456789", 10_000)
	if err := put(t.Context(), g, c, "k", whole); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name   string
		fault  Fault
		body   string // of the get, as far as it came
		status int    // of a refusal
		fails  bool
	}{
		{"an S3 error", S3Error(503, "SlowDown"), "", 503, true},
		{"a page", Answer(200, "text/html", "<html>"), "<html>", 0, false},
		{"the answer is lost", LoseAnswer(), "", 0, true},
		{"the request is lost", LoseRequest(), "", 0, true},
		{"the body is cut", CutBody(50_000), whole[:50_000], 0, true},
		{"the body is cut at once", CutBody(0), "", 0, true},
		{"another body", Change(func(b []byte) []byte { return b[:7] }), whole[:7], 0, false},
		{"not for this method", S3Error(503, "SlowDown").On(http.MethodPut), whole, 0, false},
		{"not for the first", S3Error(503, "SlowDown").Times(0), whole, 0, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			g.Break(x.fault)
			defer g.Break(nil)
			body, err := get(t.Context(), g, c, "k")
			if body != x.body || (err != nil) != x.fails {
				t.Errorf("%d bytes, %v; want %d bytes, failure %t", len(body), err, len(x.body), x.fails)
			}
			var response *smithyhttp.ResponseError
			if x.status != 0 && (!errors.As(err, &response) || response.HTTPStatusCode() != x.status) {
				t.Errorf("error %v, want status %d", err, x.status)
			}
		})
	}
	g.Break(LoseAnswer().Times(1))
	if err := put(t.Context(), g, c, "lost", "stored"); err == nil {
		t.Error("the answer was not lost")
	}
	if body, err := get(t.Context(), g, c, "lost"); body != "stored" || err != nil {
		t.Errorf("what was put before its answer was lost is %q, %v", body, err)
	}
}

func TestGofakes3Hangs(t *testing.T) {
	g := gofakes3Server(t, Gofakes3Options{})
	reached := make(chan struct{})
	hang := Hang()
	g.Break(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		close(reached)
		hang(w, r, next)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-reached
		cancel()
	}()
	if _, err := get(ctx, g, g.Client(), "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that the context was cancelled", err)
	}
}

// Many requests through few connections all come to an end.
func TestGofakes3Connections(t *testing.T) {
	g := gofakes3Server(t, Gofakes3Options{Connections: 2})
	if err := put(t.Context(), g, g.Client(), "k", "body"); err != nil {
		t.Fatal(err)
	}
	var open, most atomic.Int64
	g.Break(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		n := open.Add(1)
		defer open.Add(-1)
		for {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		next.ServeHTTP(w, r)
	})
	c := g.Client() // which keeps what it may
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			if body, err := get(t.Context(), g, c, "k"); body != "body" || err != nil {
				t.Errorf("%q, %v", body, err)
			}
		})
	}
	all.Wait()
	if n := most.Load(); n > 2 {
		t.Errorf("%d requests at a time, want 2 at most", n)
	}
}
