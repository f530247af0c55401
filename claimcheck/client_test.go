package claimcheck_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
)

const (
	clientRef       = "urn:ankusa:claim:v1:acme:" + packID
	clientSig       = "sIgNaTuRe-0123456789_0123456789-abcdefghijk"
	clientSignedRef = "urn:ankusa:claim:v2:acme:" + packID + ":1999999999:" + clientSig
	clientToken     = "Bearer t0ken-of-the-client"
)

func textDigest(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// newClient returns a client of the gateway at base with a token, or ends the test.
func newClient(t testing.TB, base string, change ...func(*claimcheck.ClientConfig)) *claimcheck.Client {
	t.Helper()
	c := claimcheck.ClientConfig{BaseURL: base, Header: http.Header{"Authorization": {clientToken}}}
	for _, f := range change {
		f(&c)
	}
	client, err := claimcheck.NewClient(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// requests counts what reaches a handler.
type requests struct {
	http.HandlerFunc
	mu   sync.Mutex
	seen []*http.Request
}

func (q *requests) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q.mu.Lock()
	q.seen = append(q.seen, r)
	q.mu.Unlock()
	q.HandlerFunc(w, r)
}

func (q *requests) take() []*http.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	seen := q.seen
	q.seen = nil
	return seen
}

// listen starts a server with h.
func listen(t testing.TB, h http.HandlerFunc) (*requests, *httptest.Server) {
	t.Helper()
	q := &requests{HandlerFunc: h}
	srv := httptest.NewServer(q)
	t.Cleanup(srv.Close)
	return q, srv
}

// fetch redeems, or opens and reads, and returns the body.
func fetch(r claimcheck.Redeemer, open bool, ref, digest string, size int64) (string, error) {
	if !open {
		body, err := r.Redeem(context.Background(), ref, digest, size)
		if body == nil && err == nil {
			return "", errors.New("nil for a body")
		}
		return string(body), err
	}
	from, err := r.Open(context.Background(), ref, digest, size)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(from)
	if e := from.Close(); e != nil && err == nil {
		err = e
	}
	return string(body), err
}

// checkError checks that err is an *Error of the code, of the code's class, and shows no secret.
func checkError(t *testing.T, what string, err error, code claimcheck.Code) claimcheck.Error {
	t.Helper()
	var e *claimcheck.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("%s: %v, want %s", what, err, code)
		return claimcheck.Error{}
	}
	transient := code == claimcheck.CodeUnavailable
	if envelope.IsTransient(err) != transient || envelope.IsPermanent(err) == transient {
		t.Errorf("%s: %v is permanent %t, transient %t", what, err, envelope.IsPermanent(err), envelope.IsTransient(err))
	}
	for _, secret := range []string{clientSig, "t0ken"} {
		if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, secret) {
			t.Errorf("%s: %s shows %s", what, text, secret)
		}
	}
	return *e
}

// One GET, with what is configured on it, to the place that the reference names.
func TestClientRequest(t *testing.T) {
	q, srv := listen(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "body") })
	for _, tt := range []struct{ base, ref, uri string }{
		{"", clientRef, "/v1/claims/acme/" + packID},
		{"/", clientRef, "/v1/claims/acme/" + packID},
		{"///", clientRef, "/v1/claims/acme/" + packID},
		{"/claims-gateway", clientRef, "/claims-gateway/v1/claims/acme/" + packID},
		{"/a%2Fb/c/", clientRef, "/a%2Fb/c/v1/claims/acme/" + packID},
		{"", clientSignedRef, "/v1/claims/acme/" + packID + "?exp=1999999999&sig=" + clientSig},
		{"/p", clientSignedRef, "/p/v1/claims/acme/" + packID + "?exp=1999999999&sig=" + clientSig},
	} {
		for _, open := range []bool{false, true} {
			c := newClient(t, srv.URL+tt.base, func(c *claimcheck.ClientConfig) {
				c.Header.Add("X-Twice", "1")
				c.Header.Add("X-Twice", "2")
				c.Header.Set("Host", "gateway.example")
			})
			if body, err := fetch(c, open, tt.ref, textDigest("body"), 4); body != "body" || err != nil {
				t.Fatalf("%q, %v", body, err)
			}
			seen := q.take()
			if len(seen) != 1 {
				t.Fatalf("%d requests", len(seen))
			}
			r := seen[0]
			r.Header.Del("User-Agent")
			want := http.Header{"Authorization": {clientToken}, "X-Twice": {"1", "2"}, "Accept-Encoding": {"identity"}}
			if r.Method != "GET" || r.RequestURI != tt.uri || r.Host != "gateway.example" || !reflect.DeepEqual(r.Header, want) || r.ContentLength != 0 {
				t.Errorf("%s: %s %s of %s with %v", tt.base, r.Method, r.RequestURI, r.Host, r.Header)
			}
		}
	}
}

// A client has its own copy of the headers.
func TestClientKeepsItsHeader(t *testing.T) {
	q, srv := listen(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "body") })
	h := http.Header{}
	const lower = "authorization" // a map that was written by hand
	h[lower] = []string{clientToken}
	c := newClient(t, srv.URL, func(c *claimcheck.ClientConfig) { c.Header = h })
	maps.DeleteFunc(h, func(_ string, v []string) bool { v[0] = "changed"; return false })
	h["New"] = []string{"new"}
	if _, err := fetch(c, false, clientRef, textDigest("body"), 4); err != nil {
		t.Fatal(err)
	}
	if got := q.take()[0].Header; got.Get("Authorization") != clientToken || got.Get("New") != "" || len(h) != 2 {
		t.Errorf("sent %v", got)
	}
}

// What is no reference, digest or size is not asked for.
func TestClientAsksForNothing(t *testing.T) {
	q, srv := listen(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "body") })
	c := newClient(t, srv.URL, func(c *claimcheck.ClientConfig) { c.MaxBodyBytes = 100 })
	good := textDigest("body")
	for _, tt := range []struct {
		ref, digest string
		size        int64
		code        claimcheck.Code
	}{
		{"", good, 4, claimcheck.CodeInvalidRef},
		{clientRef + "\n", good, 4, claimcheck.CodeInvalidRef},
		{"urn:ankusa:claim:v1:../x:" + packID, good, 4, claimcheck.CodeInvalidRef},
		{"urn:ankusa:claim:v1:acme:" + packID + "?x", good, 4, claimcheck.CodeInvalidRef},
		{srv.URL + "/v1/claims/acme/" + packID, good, 4, claimcheck.CodeInvalidRef},
		{clientRef, "", 4, claimcheck.CodeInvalidRef},
		{clientRef, good[:63], 4, claimcheck.CodeInvalidRef},
		{clientRef, strings.ToUpper(good), 4, claimcheck.CodeInvalidRef},
		{clientRef, good, 101, claimcheck.CodeTooLarge},
	} {
		_, err := fetch(c, false, tt.ref, tt.digest, tt.size)
		checkError(t, tt.ref+" "+tt.digest, err, tt.code)
		if tt.code == claimcheck.CodeInvalidRef {
			_, err = fetch(c, true, tt.ref, tt.digest, tt.size)
			checkError(t, "open "+tt.ref+" "+tt.digest, err, tt.code)
		}
	}
	if seen := q.take(); len(seen) != 0 {
		t.Errorf("%d requests, the first for %s", len(seen), seen[0].RequestURI)
	}
}

// What becomes of each status: one request, and one class.
func TestClientStatus(t *testing.T) {
	var status int
	var header http.Header
	var text string
	q, srv := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		io.WriteString(w, text)
	})
	location := http.Header{"Location": {srv.URL + "/elsewhere"}}
	object := func(code string) map[string]any { return map[string]any{"error": code} }
	for _, tt := range []struct {
		status int
		header http.Header
		text   string
		code   claimcheck.Code
		body   any // of a RejectedError
	}{
		{201, nil, "body", claimcheck.CodeUnavailable, nil},
		{202, nil, "body", claimcheck.CodeUnavailable, nil},
		{203, nil, "body", claimcheck.CodeUnavailable, nil},
		{204, nil, "", claimcheck.CodeUnavailable, nil},
		{206, http.Header{"Content-Range": {"bytes 0-3/4"}}, "body", claimcheck.CodeUnavailable, nil},
		{300, location, "", claimcheck.CodeUnavailable, nil},
		{301, location, "", claimcheck.CodeUnavailable, nil},
		{302, location, "", claimcheck.CodeUnavailable, nil},
		{303, location, "", claimcheck.CodeUnavailable, nil},
		{304, nil, "", claimcheck.CodeUnavailable, nil},
		{307, location, "", claimcheck.CodeUnavailable, nil},
		{308, location, "", claimcheck.CodeUnavailable, nil},
		{302, http.Header{"Location": {"http://%zz/" + clientSig}}, "", claimcheck.CodeUnavailable, nil},
		{302, nil, "", claimcheck.CodeUnavailable, nil},
		{404, nil, `{"error":"not_found"}`, claimcheck.CodeNotFound, nil},
		{404, nil, "", claimcheck.CodeNotFound, nil},
		{408, nil, `{"error":"anything"}`, claimcheck.CodeUnavailable, nil},
		{429, http.Header{"Retry-After": {"1"}}, "", claimcheck.CodeUnavailable, nil},
		{500, nil, `{"error":"internal"}`, claimcheck.CodeUnavailable, nil},
		{502, nil, "<html>", claimcheck.CodeUnavailable, nil},
		{503, http.Header{"Retry-After": {"60"}}, `{"error":"store_forbidden"}`, claimcheck.CodeUnavailable, nil},
		{504, nil, "", claimcheck.CodeUnavailable, nil},
		{599, nil, "", claimcheck.CodeUnavailable, nil},
		{999, nil, "", claimcheck.CodeUnavailable, nil},

		{400, nil, `{"error":"invalid_id"}`, claimcheck.CodeRejected, object("invalid_id")},
		{400, nil, `{"error":"bad_signature"}`, claimcheck.CodeRejected, object("bad_signature")},
		{401, nil, `{"error":"unauthorized"}`, claimcheck.CodeRejected, object("unauthorized")},
		{403, http.Header{"Content-Type": {"application/json"}}, `{"error":"forbidden_tenant"}`, claimcheck.CodeRejected, object("forbidden_tenant")},
		{402, nil, "pay", claimcheck.CodeRejected, "pay"},
		{405, nil, "", claimcheck.CodeRejected, ""},
		{410, nil, `gone`, claimcheck.CodeRejected, "gone"},
		{410, nil, `{"error":"ref_expired"}`, claimcheck.CodeRejected, object("ref_expired")}, // of a reference that has no end
		{416, nil, `[1,"2"]`, claimcheck.CodeRejected, []any{1.0, "2"}},
		{418, http.Header{"Content-Type": {"text/html"}}, ` "a JSON string" `, claimcheck.CodeRejected, "a JSON string"},
		{422, nil, "null", claimcheck.CodeRejected, nil},
		{451, nil, `{"error":`, claimcheck.CodeRejected, `{"error":`},
		{499, nil, strings.Repeat("x", 100_000), claimcheck.CodeRejected, strings.Repeat("x", 64<<10)},
	} {
		for _, open := range []bool{false, true} {
			status, header, text = tt.status, tt.header, tt.text
			what := fmt.Sprint(tt.status, " ", tt.text[:min(40, len(tt.text))])
			_, err := fetch(newClient(t, srv.URL), open, clientRef, textDigest("body"), 4)
			e := checkError(t, what, err, tt.code)
			if e.Status != tt.status || e.Ref != clientRef {
				t.Errorf("%s: status %d, ref %s", what, e.Status, e.Ref)
			}
			if seen := q.take(); len(seen) != 1 || seen[0].URL.Path == "/elsewhere" {
				t.Errorf("%s: %d requests", what, len(seen))
			}
			var r *claimcheck.RejectedError
			if got := errors.As(err, &r); got != (tt.code == claimcheck.CodeRejected) {
				t.Errorf("%s: has a RejectedError %t", what, got)
			} else if got && (r.Status != tt.status || !reflect.DeepEqual(r.Body, tt.body)) {
				t.Errorf("%s: %d, %#v", what, r.Status, r.Body)
			}
		}
	}
}

// Of what a gateway answers, the text of an error has its code and nothing else.
func TestRejectedErrorText(t *testing.T) {
	for _, tt := range []struct {
		body any
		want string
	}{
		{map[string]any{"error": "bad_signature"}, "the gateway says bad_signature"},
		{map[string]any{"error": "bad signature"}, "the gateway refuses the request"},
		{map[string]any{"error": strings.Repeat("x", 41)}, "the gateway refuses the request"},
		{map[string]any{"error": ""}, "the gateway refuses the request"},
		{map[string]any{"error": 1.0}, "the gateway refuses the request"},
		{map[string]any{"code": "x"}, "the gateway refuses the request"},
		{"secret", "the gateway refuses the request"},
		{nil, "the gateway refuses the request"},
	} {
		err := &claimcheck.RejectedError{Status: 400, Body: tt.body}
		if err.Error() != tt.want || !errors.Is(err, claimcheck.ErrRejected) || errors.Is(err, claimcheck.ErrForbidden) {
			t.Errorf("%#v: %q, want %q", tt.body, err, tt.want)
		}
	}
}

// The answers to signed references, which only their gateway can check.
func TestClientSigned(t *testing.T) {
	var status int
	var text string
	_, srv := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, text)
	})
	for _, tt := range []struct {
		status int
		text   string
		code   claimcheck.Code
		is     error
		want   string
	}{
		{400, `{"error":"bad_signature"}`, claimcheck.CodeRejected, claimcheck.ErrRejected, "claimcheck: redeem: rejected ref \"" +
			envelope.MaskClaim(clientSignedRef) + "\" (HTTP status 400): the gateway says bad_signature"},
		{410, `{"error":"ref_expired"}`, claimcheck.CodeRefExpired, claimcheck.ErrRefExpired, "claimcheck: redeem: ref_expired ref \"" +
			envelope.MaskClaim(clientSignedRef) + "\" (HTTP status 410): the gateway says ref_expired"},
		{410, "gone", claimcheck.CodeRejected, claimcheck.ErrRejected, ""},
		{404, "", claimcheck.CodeNotFound, claimcheck.ErrNotFound, ""},
		{503, clientSig, claimcheck.CodeUnavailable, claimcheck.ErrUnavailable, ""},
		{200, "other", claimcheck.CodeIntegrity, claimcheck.ErrIntegrity, ""},
	} {
		status, text = tt.status, tt.text
		_, err := fetch(newClient(t, srv.URL), false, clientSignedRef, textDigest("body"), 4)
		e := checkError(t, tt.text, err, tt.code)
		if !errors.Is(err, tt.is) || tt.want != "" && err.Error() != tt.want {
			t.Errorf("%v, want %s", err, tt.want)
		}
		if strings.Contains(e.Ref, clientSig) || e.Ref == "" {
			t.Errorf("%v has the reference %q", err, e.Ref)
		}
		if tt.status == 410 && !errors.Is(err, claimcheck.ErrRejected) {
			t.Errorf("%v is not rejected", err)
		}
	}
}

// Neither fmt nor slog shows what is in the headers.
func TestClientInALog(t *testing.T) {
	config := claimcheck.ClientConfig{BaseURL: "https://gateway.example/p/", Header: http.Header{"Authorization": {clientToken}}}
	c, err := claimcheck.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("", "client", c, "config", config)
	text := log.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		text += fmt.Sprintf(verb+verb+verb, c, config, &config)
	}
	if strings.Contains(text, "t0ken") || strings.Contains(text, hex.EncodeToString([]byte("t0ken"))) {
		t.Errorf("shows the token: %s", text)
	}
	if got, want := fmt.Sprint(c, " ", config), "claimcheck.Client(https://gateway.example/p, 1 headers) claimcheck.ClientConfig(https://gateway.example/p, 1 headers)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestNewClient(t *testing.T) {
	for _, tt := range []struct {
		change func(*claimcheck.ClientConfig)
		want   []string // no mistake when empty
	}{
		{func(*claimcheck.ClientConfig) {}, nil},
		{func(c *claimcheck.ClientConfig) { c.BaseURL = "http://127.0.0.1:4001/a/b/" }, nil},
		{func(c *claimcheck.ClientConfig) { c.BaseURL = "HTTPS://[::1]:4001" }, nil},
		{func(c *claimcheck.ClientConfig) { c.BaseURL = "" }, []string{"BaseURL is required"}},
		{func(c *claimcheck.ClientConfig) { c.BaseURL = "gateway:4001" }, []string{"not an absolute http or https URL"}},
		{func(c *claimcheck.ClientConfig) { c.BaseURL = "/v1" }, []string{"not an absolute"}},
		{func(c *claimcheck.ClientConfig) { c.BaseURL = "//gateway/v1" }, []string{"not an absolute"}},
		{func(c *claimcheck.ClientConfig) { c.BaseURL = "ftp://gateway" }, []string{"not an absolute"}},
		{func(c *claimcheck.ClientConfig) { c.BaseURL = "http:gateway" }, []string{"not an absolute"}},
		{func(c *claimcheck.ClientConfig) { c.BaseURL = "http://:4001" }, []string{"not an absolute"}},
		{func(c *claimcheck.ClientConfig) { c.BaseURL = "http://gateway/\n" }, []string{"not an absolute"}},
		{func(c *claimcheck.ClientConfig) { c.BaseURL = "http://user:p4ss%zz@gateway" }, []string{"not an absolute"}},
		{func(c *claimcheck.ClientConfig) { c.BaseURL = "http://user:p4ss@gateway" }, []string{"user information"}},
		{func(c *claimcheck.ClientConfig) { c.BaseURL = "http://gateway?p4ss=1" }, []string{"a query"}},
		{func(c *claimcheck.ClientConfig) { c.BaseURL = "http://gateway/#p4ss" }, []string{"a fragment"}},
		{func(c *claimcheck.ClientConfig) { c.Header = http.Header{"a b": {"p4ss"}, "": nil} }, []string{`name "a b"`, `name ""`}},
		{func(c *claimcheck.ClientConfig) { c.Header = http.Header{"A": {"p4ss\r\nB: c"}} }, []string{"control character in a value of A"}},
		{func(c *claimcheck.ClientConfig) { c.Header = http.Header{"range": {"p4ss"}, "If-None-Match": {"p4ss"}} }, []string{"has Range", "has If-None-Match"}},
		{func(c *claimcheck.ClientConfig) { c.Header = http.Header{"accept-encoding": {"gzip"}} }, []string{"has Accept-Encoding"}},
		{func(c *claimcheck.ClientConfig) { c.Timeout, c.MaxBodyBytes, c.BaseURL = -1, -1, "p4ss" }, []string{"Timeout is neg", "MaxBodyBytes is neg", "BaseURL is not"}},
	} {
		c := claimcheck.ClientConfig{BaseURL: "https://gateway.example"}
		tt.change(&c)
		client, err := claimcheck.NewClient(c)
		if (err == nil) != (len(tt.want) == 0) || (client == nil) != (err != nil) {
			t.Errorf("%q: %v, %v, want %q", c.BaseURL, client, err, tt.want)
		}
		for _, want := range tt.want {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%v: want all mistakes, %q among them", err, want)
			}
		}
		if strings.Contains(fmt.Sprint(err, c), "p4ss") {
			t.Errorf("%v of %v shows a part of what was given", err, c)
		}
	}
}

func TestClientHealth(t *testing.T) {
	var status int
	var text string
	q, srv := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, text)
	})
	for _, tt := range []struct {
		status int
		text   string
		well   bool
	}{
		{200, `{"status":"ok"}`, true},
		{200, ` {"version":"0.7","status":"degraded"} `, true},
		{200, `{"status":1}`, false},
		{200, `{"status":null}`, false},
		{200, `{"Status":"ok"}`, false},
		{200, `{}`, false},
		{200, `["status"]`, false},
		{200, `"ok"`, false},
		{200, `ok`, false},
		{200, ``, false},
		{200, `{"status":"ok"`, false},
		{200, `{"status":"` + strings.Repeat("x", 100_000) + `"}`, false},
		{201, `{"status":"ok"}`, false},
		{302, `{"status":"ok"}`, false},
		{404, `{"status":"ok"}`, false},
		{503, `{"status":"ok"}`, false},
	} {
		status, text = tt.status, tt.text
		err := newClient(t, srv.URL+"/p/").Health(context.Background())
		if what := fmt.Sprint(tt.status, tt.text[:min(40, len(tt.text))]); tt.well && err != nil {
			t.Errorf("%s: %v", what, err)
		} else if !tt.well {
			if e := checkError(t, what, err, claimcheck.CodeUnavailable); e.Status != tt.status {
				t.Errorf("%s: status %d", what, e.Status)
			}
		}
		if seen := q.take(); len(seen) != 1 || seen[0].RequestURI != "/p/health" || !slices.Equal(seen[0].Header["Authorization"], []string{clientToken}) {
			t.Errorf("%d requests, the first for %s", len(seen), seen[0].RequestURI)
		}
	}
	srv.Close()
	checkError(t, "closed", newClient(t, srv.URL).Health(context.Background()), claimcheck.CodeUnavailable)
}
