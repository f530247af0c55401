package webhook_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/webhook"
)

// fuzzOptions makes options of bits.
func fuzzOptions(bits uint8, most uint16) webhook.RequestOptions {
	o := webhook.RequestOptions{Source: "fuzz", MaxBodyBytes: int64(most) + 1}
	if bits&1 != 0 {
		o.DropHeaders = []string{"x-a"}
	}
	if bits&2 != 0 {
		o.HashHeaders = []string{"X-B", "x-token", "content-type"}
	}
	if bits&4 != 0 {
		o.DedupeHeader = "x-d"
	}
	o.TraceContext = bits&8 != 0
	if bits&16 != 0 {
		o.Forward = envelope.ForwardOptions{MaxHeaders: 2, MaxHeaderBytes: 40}
	}
	if bits&32 != 0 {
		o.Verify = webhook.GitHub(gitHubSecret)
	}
	if bits&64 != 0 {
		o.Verify = webhook.GitHub(gitHubSecret)
		o.OnFailure = webhook.Flag
	}
	return o
}

// naively is FromRequest word by word for a request whose body was read before.
func naively(h http.Header, body []byte, bodyErr error, o webhook.RequestOptions) (*envelope.Envelope, bool) {
	name := regexp.MustCompile(`^[!-~]+$`)
	value := regexp.MustCompile(`^[\t -~]*$`)
	seen := map[string][]string{}
	var names []string
	for k, vs := range h {
		l := strings.ToLower(k)
		if slices.Contains(o.DropHeaders, l) {
			continue
		}
		for _, v := range vs {
			if slices.ContainsFunc(o.HashHeaders, func(n string) bool { return strings.ToLower(n) == l }) {
				v = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(v)))
			}
			if !name.MatchString(k) || !value.MatchString(v) {
				return nil, false
			}
			seen[l] = append(seen[l], v)
		}
		names = append(names, l)
	}
	if bodyErr != nil || int64(len(body)) > o.MaxBodyBytes {
		return nil, false
	}
	first := func(n string) string {
		if len(seen[n]) == 0 {
			return ""
		}
		return seen[n][0]
	}
	e := &envelope.Envelope{
		SourceID: o.Source, ContentType: first("content-type"), Body: body, Size: int64(len(body)),
		Verification: envelope.Verification{Status: envelope.VerificationSkipped},
	}
	if o.Verify != nil {
		e.Verification.Status = envelope.VerificationOK
		if o.Verify.Verify(h, body) != nil {
			if o.OnFailure == webhook.Reject {
				return nil, false
			}
			e.Verification = envelope.Verification{Status: envelope.VerificationFailed, Flagged: true}
		}
	}
	if o.DedupeHeader != "" {
		if e.DedupeKey = first(o.DedupeHeader); len(e.DedupeKey) > 200 {
			e.DedupeKey = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(e.DedupeKey)))
		}
	}
	if p := seen["traceparent"]; o.TraceContext && len(p) == 1 && envelope.ValidTraceparent(p[0]) {
		e.Traceparent = p[0]
		e.Tracestate = envelope.TruncateTracestate(strings.Join(seen["tracestate"], ","))
	}
	slices.Sort(names)
	var list []envelope.Header
	for _, n := range names {
		list = append(list, envelope.Header{Name: n, Value: strings.Join(seen[n], ", ")})
	}
	e.Headers, _ = envelope.ForwardHeaders(list, o.Forward)
	return e, true
}

func FuzzFromRequest(f *testing.F) {
	for i, tt := range requests {
		f.Add([]byte(tt.raw), uint8(i), uint16(1000))
		f.Add([]byte(tt.raw), uint8(0), uint16(4))
	}
	f.Fuzz(func(t *testing.T, raw []byte, bits uint8, most uint16) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		o := fuzzOptions(bits, most)
		body, bodyErr := io.ReadAll(r.Body)
		want, ok := naively(r.Header, body, bodyErr, o)
		got, err := webhook.FromRequest(parse(t, string(raw)), o)
		if (err == nil) != ok {
			t.Fatalf("error %v, want an envelope: %v", err, ok)
		}
		if err != nil {
			if status := webhook.StatusCode(err); status < 400 || status > 413 {
				t.Errorf("%v is %d, want a fault of the request", err, status)
			}
			return
		}
		want.ID, want.ReceivedAt = got.ID, got.ReceivedAt
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %s\nwant %s", dump(got), dump(want))
		}
		checkTravels(t, got)
	})
}

// checkTravels seals e, and reads it again, both as JSON and as an open message.
func checkTravels(t *testing.T, e *envelope.Envelope) {
	t.Helper()
	wire, err := e.AppendWire(nil)
	if err != nil {
		t.Fatalf("what FromRequest returned cannot be written: %v", err)
	}
	read, err := envelope.ParseWire(wire)
	if err != nil {
		t.Fatal(err)
	}
	same := func(what string, got *envelope.Envelope) {
		t.Helper()
		g, w := *got, *e
		g.IdempotencyKey, g.SHA256, w.IdempotencyKey, w.SHA256 = "", "", "", "" // written where they were not there
		g.ReceivedAt, w.ReceivedAt = time.UnixMilli(g.ReceivedAt.UnixMilli()), time.UnixMilli(w.ReceivedAt.UnixMilli())
		if len(g.Headers) == 0 && len(w.Headers) == 0 {
			g.Headers, w.Headers = nil, nil
		}
		if !reflect.DeepEqual(g, w) {
			t.Errorf("%s: got %s\nwant %s", what, dump(&g), dump(&w))
		}
	}
	same("as JSON", read)
	opened, err := envelope.FromMessage(e.Message())
	if err != nil {
		t.Fatal(err)
	}
	same("as a message", opened)
}
