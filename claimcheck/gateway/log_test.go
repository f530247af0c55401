package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/gateway"
)

// One line for each request, with nothing in it that a reader of logs must not know.
func TestLog(t *testing.T) {
	secret := strings.Repeat("S", 43)
	broken := func(context.Context, int, string, int64, int64) (io.ReadCloser, error) {
		return nil, &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "get", Key: packKey, Err: errors.New("connection refused")}
	}
	const claim = " tenant_id=acme claim=urn:ankusa:claim:v1:acme:" + packID
	for _, tt := range []struct {
		method, target string
		get            func(context.Context, int, string, int64, int64) (io.ReadCloser, error)
		want           string
	}{
		{"GET", claimPath(0), nil, "level=INFO method=GET status=200 bytes=4" + claim},
		{"HEAD", claimPath(0), nil, "level=INFO method=HEAD status=200 bytes=0" + claim},
		{"GET", claimPath(0) + "?who=" + secret, nil, "level=INFO method=GET status=200 bytes=4" + claim},
		{"GET", claimPath(0) + "?exp=1&sig=" + secret, nil, "level=WARN method=GET status=400 bytes=0 code=bad_signature" + claim},
		{"GET", "/v1/claims/acme/" + packID[:25] + "9", nil, "level=WARN method=GET status=404 bytes=0 code=not_found tenant_id=acme claim=urn:ankusa:claim:v1:acme:" +
			packID[:25] + `9 error="claimcheck: locate: not_found key \"claims/tenant=acme/dt=2026-09-24/` + packID + `\" ref \"urn:ankusa:claim:v1:acme:` + packID[:25] +
			`9\": the claim is after the end of the pack's index"`},
		{"GET", "/" + secret, nil, "level=WARN method=GET status=404 bytes=0 code=not_found"},
		{"GET", "/v1/claims/urn:ankusa:claim:v2:acme:" + packID + ":1:" + secret + "/x", nil, "level=WARN method=GET status=400 bytes=0 code=invalid_tenant"},
		{secret, claimPath(0), nil, "level=WARN method=other status=405 bytes=0 code=method_not_allowed"},
		{"GET", claimPath(0), broken, "level=ERROR method=GET status=503 bytes=0 code=store_unavailable" + claim +
			` error="claimcheck: locate: unavailable ref \"urn:ankusa:claim:v1:acme:` + packID + `\": claimcheck: get: unavailable key \"claims/tenant=acme/dt=2026-09-24/` +
			packID + `\": connection refused"`},
		{"GET", "/health", nil, ""},
	} {
		s := newShelf(t, "body")
		s.get = tt.get
		var log bytes.Buffer
		g := newGateway(t, gateway.Config{Store: s, Logger: textLogger(&log)})
		r := httptest.NewRequest(http.MethodGet, tt.target, nil)
		r.Method = tt.method
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("Range", "bytes=x"+secret)
		g.ServeHTTP(httptest.NewRecorder(), r)
		got := regexp.MustCompile(` took=\S+ remote=192.0.2.1:1234`).ReplaceAllString(log.String(), "")
		got = strings.TrimSuffix(strings.Replace(got, `msg="claim requested" `, "", 1), "\n")
		if got != tt.want {
			t.Errorf("%s %s: logged\n%s\nwant\n%s", tt.method, tt.target, got, tt.want)
		}
	}
}

func TestNew(t *testing.T) {
	g, err := gateway.New(gateway.Config{MaxInFlight: -1, StallTimeout: -1})
	if g != nil || err == nil {
		t.Fatalf("%v, %v", g, err)
	}
	for _, want := range []string{"Store is nil", "MaxInFlight is negative", "StallTimeout is negative"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want all mistakes, %q among them", err, want)
		}
	}
	if err := (gateway.Config{Store: newShelf(t, "body")}).Validate(); err != nil {
		t.Error(err)
	}
}

// No time-out of a server is left without a bound.
func TestServer(t *testing.T) {
	g := newGateway(t, gateway.Config{Store: newShelf(t, "body")})
	srv := g.Server("127.0.0.1:4001")
	if srv.Addr != "127.0.0.1:4001" || srv.Handler != http.Handler(g) || srv.ReadHeaderTimeout <= 0 || srv.ReadTimeout <= 0 ||
		srv.WriteTimeout <= gateway.DefaultStallTimeout || srv.IdleTimeout <= 0 || srv.MaxHeaderBytes <= 0 {
		t.Errorf("%+v", srv)
	}
}
