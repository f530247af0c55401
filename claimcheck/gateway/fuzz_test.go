package gateway_test

import (
	"bytes"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"testing"

	"github.com/watermill-envelope/envelope/claimcheck/gateway"
)

// FuzzPath asks for any path and query. The one object that is there comes out for the one
// path that is its, and the store is asked for a key only when the path spells it.
func FuzzPath(f *testing.F) {
	for _, path := range []string{
		claimPath(0), claimPath(0) + "/", "/v1/claims/acme/../other/" + packID, "/v1/claims/acme%2f" + packID, "/v1/claims/%2e%2e/" + packID,
		"//v1/claims/acme/" + packID, "/v1/claims/acme/" + packID + "%00", "/v1/claims/acme/8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "/health", "*", "",
	} {
		f.Add(path, "")
		f.Add(path, "exp=1&sig=x")
	}
	s := newShelf(f, "body")
	g := newGateway(f, gateway.Config{Store: s})
	valid := regexp.MustCompile(`^/v1/claims/([A-Za-z0-9_-]{1,64})/([0-7][0-9A-HJKMNP-TV-Z]{25})$`)
	f.Fuzz(func(t *testing.T, path, query string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return // net/http answers that
		}
		u.RawQuery = query
		w := httptest.NewRecorder()
		g.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}})
		calls := s.take(t)
		m := valid.FindStringSubmatch(path)
		if m == nil && len(calls) != 0 {
			t.Fatalf("%q asks the store for %q", path, calls)
		}
		for _, call := range calls {
			key := regexp.MustCompile(`^claims/tenant=` + m[1] + `/dt=\d{4}-\d\d-\d\d/` + m[2][:22] + `[0-9A-Z]{4} \[`)
			if !key.MatchString(call) {
				t.Fatalf("%q asks the store for %q", path, call)
			}
		}
		switch w.Code {
		case 200:
			if path != "/health" && (path != claimPath(0) || w.Body.String() != "body") {
				t.Fatalf("%q: %s", path, w.Body)
			}
		case 400, 404:
			if path == claimPath(0) && query == "" {
				t.Fatalf("%q: %d", path, w.Code)
			}
		default:
			t.Fatalf("%q: %d", path, w.Code)
		}
	})
}

// FuzzRange compares the gateway's answer to a Range with an oracle that is slow and plain.
func FuzzRange(f *testing.F) {
	for _, r := range []string{
		"bytes=0-0", "bytes=2-5", "bytes=9-", "bytes=10-", "bytes=-3", "bytes=-0", "bytes=-", "bytes=5-2", "bytes=0-1,3-4", "bytes= \t2-3 ", "BYTES=1-1",
		"bytes=99999999999999999999999999-", "bytes=7-99999999999999999999999999", "items=0-1", "bytes=+1-2", "bytes=99999999999999999999999999-9999999999999999999999999", "bytes=0 - 1", "bytes=\u0661-2", "",
	} {
		f.Add(r, 10)
		f.Add(r, 0)
	}
	form := regexp.MustCompile(`^(?i:bytes)=[ \t]*([0-9]*)-([0-9]*)[ \t]*$`)
	f.Fuzz(func(t *testing.T, value string, size int) {
		if size < 0 || size > 100 {
			return
		}
		body := bytes.Repeat([]byte("0123456789"), 10)[:size]
		g := newGateway(t, gateway.Config{Store: newShelf(t, string(body))})
		r := httptest.NewRequest(http.MethodGet, claimPath(0), nil)
		r.Header["Range"] = []string{value}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)

		status, contentRange, want := oracle(form.FindStringSubmatch(value), body)
		if w.Code != status || w.Header().Get("Content-Range") != contentRange || status != 416 && !bytes.Equal(w.Body.Bytes(), want) {
			t.Fatalf("%q of %d bytes: %d, Content-Range %q, %q; want %d, %q, %q", value, size,
				w.Code, w.Header().Get("Content-Range"), w.Body, status, contentRange, want)
		}
	})
}

// oracle takes the parts of a Range header, or nil for one that is none.
func oracle(m []string, body []byte) (status int, contentRange string, want []byte) {
	if m == nil || m[1] == "" && m[2] == "" {
		return 200, "", body
	}
	first, okFirst := new(big.Int).SetString(m[1], 10)
	last, okLast := new(big.Int).SetString(m[2], 10)
	if okFirst && okLast && last.Cmp(first) < 0 {
		return 200, "", body
	}
	var part []int
	for i := range body {
		switch at := big.NewInt(int64(i)); {
		case !okFirst && big.NewInt(int64(len(body)-i)).Cmp(last) > 0:
		case okFirst && at.Cmp(first) < 0:
		case okFirst && okLast && at.Cmp(last) > 0:
		default:
			part = append(part, i)
		}
	}
	if len(part) == 0 {
		return 416, fmt.Sprintf("bytes */%d", len(body)), nil
	}
	from, to := part[0], part[len(part)-1]
	return 206, fmt.Sprintf("bytes %d-%d/%d", from, to, len(body)), body[from : to+1]
}
