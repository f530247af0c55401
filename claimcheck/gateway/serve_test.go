package gateway_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/watermill-envelope/envelope/claimcheck/gateway"
)

const bodyHeaders = "Accept-Ranges: bytes\nCache-Control: private, max-age=31536000, immutable\n"

// ok is the answer, as it is on the wire, of a body that may be a part.
func ok(status, contentLength, contentRange, body string) string {
	if contentRange != "" {
		contentRange = "Content-Range: " + contentRange + "\n"
	}
	return "HTTP/1.1 " + status + "\n" + bodyHeaders + "Content-Length: " + contentLength + "\n" + contentRange +
		"Content-Type: application/octet-stream\nX-Content-Type-Options: nosniff\n\n" + body
}

// refused is the answer, as it is on the wire, of a request without a body to answer it.
func refused(status, code string, more ...string) string {
	text := `{"error":"` + code + `"}`
	lines := append([]string{
		"Cache-Control: no-store", "Content-Length: " + itoa(len(text)), "Content-Type: application/json", "X-Content-Type-Options: nosniff",
	}, more...)
	slices.Sort(lines)
	return "HTTP/1.1 " + status + "\n" + strings.Join(lines, "\n") + "\n\n" + text
}

// withoutBody is the answer to HEAD where answer is that to GET.
func withoutBody(answer string) string {
	head, _, _ := strings.Cut(answer, "\n\n")
	return head + "\n\n"
}

// Every row of the specification's gateway, byte for byte, for GET and HEAD.
func TestAnswers(t *testing.T) {
	srv := serve(t, newGateway(t, gateway.Config{Store: newShelf(t, "Hello, World!", "", "\x00\xff\r\n")}))
	noSuchPack := "/v1/claims/acme/01M39VMD8RA3C5HR4RBV67Z000"
	for _, tt := range []struct{ path, want string }{
		{claimPath(0), ok("200 OK", "13", "", "Hello, World!")},
		{claimPath(1), ok("200 OK", "0", "", "")},
		{claimPath(2), ok("200 OK", "4", "", "\x00\xff\r\n")},
		{claimPath(3), refused("404 Not Found", "not_found")}, // past the end of the index
		{claimPath(9), refused("404 Not Found", "not_found")},
		{noSuchPack, refused("404 Not Found", "not_found")},
		{strings.Replace(claimPath(0), "acme", "other", 1), refused("404 Not Found", "not_found")},
		{claimPath(0) + "?exp=1999999999&sig=" + strings.Repeat("s", 43), refused("400 Bad Request", "bad_signature")},
		{claimPath(0) + "?download=1", ok("200 OK", "13", "", "Hello, World!")},
		{"/health", "HTTP/1.1 200 OK\nCache-Control: no-store\nContent-Length: 15\nContent-Type: application/json\n" +
			"X-Content-Type-Options: nosniff\n\n" + `{"status":"ok"}`},
	} {
		if got := wire(t, srv, "GET "+tt.path); got != tt.want {
			t.Errorf("GET %s:\n%s\nwant\n%s", tt.path, got, tt.want)
		}
		if got := wire(t, srv, "HEAD "+tt.path); got != withoutBody(tt.want) {
			t.Errorf("HEAD %s:\n%s\nwant\n%s", tt.path, got, withoutBody(tt.want))
		}
	}
}

func TestRanges(t *testing.T) {
	srv := serve(t, newGateway(t, gateway.Config{Store: newShelf(t, "0123456789", "")}))
	part := func(contentRange, body string) string {
		return ok("206 Partial Content", itoa(len(body)), contentRange, body)
	}
	whole := ok("200 OK", "10", "", "0123456789")
	empty := ok("200 OK", "0", "", "")
	none := func(size string) string {
		return refused("416 Requested Range Not Satisfiable", "range_not_satisfiable", "Content-Range: bytes */"+size)
	}
	for _, tt := range []struct {
		index   int
		headers []string
		want    string
	}{
		{0, []string{"bytes=0-0"}, part("bytes 0-0/10", "0")},
		{0, []string{"bytes=2-5"}, part("bytes 2-5/10", "2345")},
		{0, []string{"bytes=0-9"}, part("bytes 0-9/10", "0123456789")},
		{0, []string{"bytes=0-"}, part("bytes 0-9/10", "0123456789")},
		{0, []string{"bytes=9-"}, part("bytes 9-9/10", "9")},
		{0, []string{"bytes=7-99"}, part("bytes 7-9/10", "789")},
		{0, []string{"bytes=7-99999999999999999999999999"}, part("bytes 7-9/10", "789")},
		{0, []string{"bytes=-3"}, part("bytes 7-9/10", "789")},
		{0, []string{"bytes=-10"}, part("bytes 0-9/10", "0123456789")},
		{0, []string{"bytes=-99999999999999999999999999"}, part("bytes 0-9/10", "0123456789")},
		{0, []string{"bytes=0002-0003"}, part("bytes 2-3/10", "23")},
		{0, []string{"bytes= \t2-3"}, part("bytes 2-3/10", "23")},
		{0, []string{"BYTES=2-3"}, part("bytes 2-3/10", "23")}, // RFC 9110, 14.1: units in any case

		{0, []string{"bytes=10-"}, none("10")},
		{0, []string{"bytes=10-20"}, none("10")},
		{0, []string{"bytes=99999999999999999999999999-"}, none("10")},
		{0, []string{"bytes=18446744073709551616-"}, none("10")}, // 2^64
		{0, []string{"bytes=-0"}, none("10")},
		{1, []string{"bytes=0-0"}, none("0")},
		{1, []string{"bytes=0-"}, none("0")},
		{1, []string{"bytes=-1"}, none("0")},

		{0, []string{"bytes=0-1,3-4"}, whole},
		{0, []string{"bytes=0-1,"}, whole},
		{0, []string{"bytes=0-1", "bytes=3-4"}, whole},
		{0, []string{"items=0-1"}, whole},
		{0, []string{"bytes=5-2"}, whole}, // RFC 9110, 14.1.1: invalid
		{0, []string{"bytes=-"}, whole},
		{0, []string{"bytes=--1"}, whole},
		{0, []string{"bytes=1--2"}, whole},
		{0, []string{"bytes=+1-2"}, whole},
		{0, []string{"bytes=1-2-3"}, whole},
		{0, []string{"bytes=0x1-2"}, whole},
		{0, []string{"bytes=0 - 1"}, whole},
		{0, []string{"bytes 0-1"}, whole},
		{0, []string{"bytes"}, whole},
		{0, []string{""}, whole},
		{0, []string{"bytes=\u0661-2"}, whole}, // a digit, but not of ASCII
		{1, []string{"items=0-1"}, empty},
	} {
		var headers []string
		for _, h := range tt.headers {
			headers = append(headers, "Range: "+h)
		}
		if got := wire(t, srv, "GET "+claimPath(tt.index), headers...); got != tt.want {
			t.Errorf("claim %d, Range %q:\n%s\nwant\n%s", tt.index, tt.headers, got, tt.want)
		}
		if got := wire(t, srv, "HEAD "+claimPath(tt.index), headers...); got != withoutBody(tt.want) {
			t.Errorf("HEAD of claim %d, Range %q:\n%s\nwant\n%s", tt.index, tt.headers, got, withoutBody(tt.want))
		}
		headers = append(headers, `If-Range: "tag"`)
		if got, want := wire(t, srv, "GET "+claimPath(tt.index), headers...), []string{whole, empty}[tt.index]; got != want {
			t.Errorf("claim %d, Range %q, If-Range:\n%s\nwant\n%s", tt.index, tt.headers, got, want)
		}
	}
}

// Nothing but the literal path of a claim reaches the store, and then only its own pack.
func TestPaths(t *testing.T) {
	s := newShelf(t, "mine")
	s.add(t, "other", packID, "not mine")
	srv := serve(t, newGateway(t, gateway.Config{Store: s}))
	id := packID
	const notFound, badTenant, badID = "404 Not Found/not_found", "400 Bad Request/invalid_tenant", "400 Bad Request/invalid_id"
	for _, tt := range []struct{ path, want string }{
		{"/", notFound},
		{"/v1", notFound},
		{"/v1/claims", notFound},
		{"/v1/claims/", notFound},
		{"/v1/claims/acme", notFound},
		{"/v1/claims/acme/", notFound},
		{"/v1/claims//" + id, notFound},
		{"/v1/claims/acme/" + id + "/", notFound},
		{"/v1/claims/acme/" + id + "/x", notFound},
		{"/v1/claims/acme//" + id, notFound},
		{"//v1/claims/acme/" + id, notFound},
		{"/v1//claims/acme/" + id, notFound},
		{"/v1/./claims/acme/" + id, notFound},
		{"/v2/claims/acme/" + id, notFound},
		{"/V1/claims/acme/" + id, notFound},
		{"/v1/Claims/acme/" + id, notFound},
		{"/v1/claims/acme/../other/" + id, notFound},
		{"/v1/claims/other/../acme/" + id, notFound},
		{"/x/../v1/claims/acme/" + id, notFound},
		{"/%761/claims/acme/" + id, notFound},
		{"/v1%2fclaims/acme/" + id, notFound},
		{"/v1/claims/acme%2f" + id, notFound},
		{"/v1/claims/acme%2F" + id, notFound},
		{"/v1/claims/acme\\" + id, notFound},
		{"/health/", notFound},
		{"/Health", notFound},
		{"/healthz", notFound},
		{"/health%20", notFound},

		{"/v1/claims/../" + id, badTenant},
		{"/v1/claims/./" + id, badTenant},
		{"/v1/claims/%2e%2e/" + id, badTenant},
		{"/v1/claims/acme%2f../" + id, badTenant},
		{"/v1/claims/..%2fother/" + id, badTenant},
		{"/v1/claims/..%5cother/" + id, badTenant},
		{"/v1/claims/%61cme/" + id, badTenant}, // acme, encoded
		{"/v1/claims/acme%00/" + id, badTenant},
		{"/v1/claims/acme%0a/" + id, badTenant},
		{"/v1/claims/ac.me/" + id, badTenant},
		{"/v1/claims/acm\u00e9/" + id, badTenant},
		{"/v1/claims/*/" + id, badTenant},
		{"/v1/claims/" + strings.Repeat("a", 65) + "/" + id, badTenant},
		{"/v1/claims/tenant=acme/" + id, badTenant},
		{"/v1/claims/acme;x/" + id, badTenant},

		{"/v1/claims/acme/" + id[:25], badID},
		{"/v1/claims/acme/" + id + "0", badID},
		{"/v1/claims/acme/8" + id[1:], badID},
		{"/v1/claims/acme/" + strings.ToLower(id), badID},
		{"/v1/claims/acme/" + id[:25] + "I", badID}, // an alias of 1
		{"/v1/claims/acme/" + id[:25] + "O", badID}, // an alias of 0
		{"/v1/claims/acme/" + id[:25] + "U", badID},
		{"/v1/claims/acme/" + id + "%0a", badID},
		{"/v1/claims/acme/%30" + id[1:], badID}, // 0, encoded
		{"/v1/claims/acme/..", badID},
		{"/v1/claims/acme/..%2f..%2fother%2f" + id, badID},
		{"/v1/claims/acme/" + id + "%2f..", badID},
		{"/v1/claims/acme/" + id + ";x=1", badID},
		{"/v1/claims/acme/" + id + "%3fexp=1", badID},
		{"/v1/claims/acme/7ZZZZZZZZZZZZZZZZZZZZZZZZZ", badID}, // after the year 9999
	} {
		status, code, _ := strings.Cut(tt.want, "/")
		if got := wire(t, srv, "GET "+tt.path); got != refused(status, code) {
			t.Errorf("%s:\n%s\nwant %s", tt.path, got, tt.want)
		}
		if calls := s.take(t); len(calls) != 0 {
			t.Errorf("%s: the store is asked for %q", tt.path, calls)
		}
	}
	for tenant, want := range map[string]string{"acme": "mine", "other": "not mine"} {
		got := wire(t, srv, "GET http://elsewhere/v1/claims/"+tenant+"/"+id) // as a proxy is asked
		if got != ok("200 OK", itoa(len(want)), "", want) {
			t.Errorf("%s:\n%s", tenant, got)
		}
		for _, call := range s.take(t) {
			if key, _, _ := strings.Cut(call, " "); key != strings.Replace(packKey, "acme", tenant, 1) {
				t.Errorf("%s: the store is asked for %s", tenant, call)
			}
		}
	}
}

func TestMethods(t *testing.T) {
	s := newShelf(t, "body")
	srv := serve(t, newGateway(t, gateway.Config{Store: s}))
	want := refused("405 Method Not Allowed", "method_not_allowed", "Allow: GET, HEAD")
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get"} {
		for _, path := range []string{claimPath(0), "/health", "/v1/claims/../x"} {
			if got := wire(t, srv, method+" "+path); got != want {
				t.Errorf("%s %s:\n%s\nwant\n%s", method, path, got, want)
			}
		}
		if got := wire(t, srv, method+" /elsewhere"); got != refused("404 Not Found", "not_found") {
			t.Errorf("%s /elsewhere:\n%s", method, got)
		}
	}
	if got := wire(t, srv, "OPTIONS *"); got != refused("404 Not Found", "not_found") {
		t.Errorf("OPTIONS *:\n%s", got)
	}
	if calls := s.take(t); len(calls) != 0 {
		t.Errorf("the store is asked for %q", calls)
	}
}

// Requests do not share what they are answered from.
func TestConcurrently(t *testing.T) {
	bodies := []string{strings.Repeat("a", 200_000), strings.Repeat("b", 150_000), "c", ""}
	srv := serve(t, newGateway(t, gateway.Config{Store: newShelf(t, bodies...)}))
	client := srv.Client()
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			want := bodies[i%len(bodies)]
			req, err := http.NewRequest(http.MethodGet, srv.URL+claimPath(i%len(bodies)), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if i%3 == 0 && want != "" {
				req.Header.Set("Range", "bytes=-"+itoa(i+1))
				want = want[max(0, len(want)-i-1):]
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); string(body) != want || err != nil {
				t.Errorf("request %d: %d, %d bytes, %v", i, resp.StatusCode, len(body), err)
			}
		})
	}
	wg.Wait()
}

// What may be asked for and is not to be had: another encoding, a condition, another type.
func TestNegotiation(t *testing.T) {
	g := newGateway(t, gateway.Config{Store: newShelf(t, strings.Repeat("a", 100_000))})
	w := do(g, http.MethodGet, claimPath(0), "Accept-Encoding: gzip, br", "Accept: text/html", "If-None-Match: *", "If-Modified-Since: Mon, 02 Jan 2040 15:04:05 GMT")
	if w.Code != 200 || w.Body.String() != strings.Repeat("a", 100_000) || w.Header().Get("Content-Encoding") != "" {
		t.Errorf("%d, %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
}

func TestUnderAPrefix(t *testing.T) {
	g := newGateway(t, gateway.Config{Store: newShelf(t, "body")})
	h := http.StripPrefix("/claims-gateway", g)
	for path, want := range map[string]int{
		"/claims-gateway" + claimPath(0):                    200,
		"/claims-gateway/v1/claims/acme%2f..%2fx/" + packID: 400,
		claimPath(0): 404,
	} {
		if w := do(h, http.MethodGet, path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
