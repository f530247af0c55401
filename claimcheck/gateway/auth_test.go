package gateway_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck/gateway"
)

const (
	acmeToken  = "acme-token-0123456789"
	bothToken  = "both-token-0123456789"
	adminToken = "admin-token-012345678="
)

func tokens(t testing.TB) *gateway.BearerTokens {
	t.Helper()
	set, err := gateway.NewBearerTokens([]gateway.BearerToken{
		{Token: acmeToken, Tenants: []string{"acme"}},
		{Token: bothToken, Tenants: []string{"other", "acme"}},
		{Token: adminToken, Tenants: []string{gateway.AllTenants}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestBearerTokens(t *testing.T) {
	s := newShelf(t, "body")
	s.add(t, "other", packID, "body")
	s.add(t, "third", packID, "body")
	var log bytes.Buffer
	g := newGateway(t, gateway.Config{Store: s, Authorize: tokens(t).Authorize, Logger: textLogger(&log)})
	for _, tt := range []struct {
		name    string
		headers []string
		want    [3]int // of acme, other and third
	}{
		{"of one tenant", []string{"Authorization: Bearer " + acmeToken}, [3]int{200, 403, 403}},
		{"of two", []string{"Authorization: Bearer " + bothToken}, [3]int{200, 200, 403}},
		{"of all", []string{"Authorization: Bearer " + adminToken}, [3]int{200, 200, 200}},
		{"scheme in another case, more spaces", []string{"Authorization: bEARER   " + acmeToken}, [3]int{200, 403, 403}},
		{"none", nil, [3]int{401, 401, 401}},
		{"empty", []string{"Authorization: "}, [3]int{401, 401, 401}},
		{"empty token", []string{"Authorization: Bearer "}, [3]int{401, 401, 401}},
		{"another", []string{"Authorization: Bearer unknown-0123456789abc"}, [3]int{401, 401, 401}},
		{"a part", []string{"Authorization: Bearer " + acmeToken[:20]}, [3]int{401, 401, 401}},
		{"more", []string{"Authorization: Bearer " + acmeToken + "0"}, [3]int{401, 401, 401}},
		{"another case", []string{"Authorization: Bearer " + strings.ToUpper(acmeToken)}, [3]int{401, 401, 401}},
		{"no scheme", []string{"Authorization: " + acmeToken}, [3]int{401, 401, 401}},
		{"another scheme", []string{"Authorization: Basic " + acmeToken}, [3]int{401, 401, 401}},
		{"another header", []string{"X-Api-Key: " + acmeToken, "Cookie: token=" + acmeToken}, [3]int{401, 401, 401}},
		{"twice", []string{"Authorization: Bearer " + acmeToken, "Authorization: Bearer " + acmeToken}, [3]int{401, 401, 401}},
	} {
		for i, tenant := range []string{"acme", "other", "third"} {
			s.take(t)
			w := do(g, http.MethodGet, strings.Replace(claimPath(0), "acme", tenant, 1), tt.headers...)
			want := map[int]string{200: "body", 401: `{"error":"unauthorized"}`, 403: `{"error":"forbidden_tenant"}`}[tt.want[i]]
			if w.Code != tt.want[i] || w.Body.String() != want {
				t.Errorf("%s, tenant %s: %d %s, want %d", tt.name, tenant, w.Code, w.Body, tt.want[i])
			}
			if got := w.Header().Get("WWW-Authenticate"); got != map[int]string{401: "Bearer"}[w.Code] {
				t.Errorf("%s, tenant %s: %d with WWW-Authenticate %q", tt.name, tenant, w.Code, got)
			}
			if calls := s.take(t); w.Code != 200 && len(calls) != 0 {
				t.Errorf("%s, tenant %s: the store is asked for %q", tt.name, tenant, calls)
			}
		}
	}
	// A token in the URL is none, and nothing of it is logged.
	if w := do(g, http.MethodGet, claimPath(0)+"?access_token="+acmeToken); w.Code != 401 {
		t.Errorf("in the query: %d", w.Code)
	}
	if w := do(g, http.MethodGet, "/v1/claims/"+acmeToken+"/"+acmeToken, "Authorization: Bearer "+acmeToken); w.Code != 400 {
		t.Errorf("in the path: %d", w.Code)
	}
	// What anybody may see is not guarded.
	for path, want := range map[string]int{"/health": 200, "/": 404, "/v1/claims/a.b/" + packID: 400} {
		if w := do(g, http.MethodGet, path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	if strings.Contains(log.String(), "token") {
		t.Errorf("a token is logged:\n%s", &log)
	}
}

func TestNewBearerTokens(t *testing.T) {
	good := gateway.BearerToken{Token: acmeToken, Tenants: []string{"acme"}}
	for _, tt := range []struct {
		tokens []gateway.BearerToken
		want   []string
	}{
		{nil, []string{"no tokens"}},
		{[]gateway.BearerToken{good, good}, []string{"token 1 is the same as token 0"}},
		{[]gateway.BearerToken{{}}, []string{"token 0 is shorter than 16", "token 0 has no tenants"}},
		{
			[]gateway.BearerToken{good, {Token: "0123456789abcde", Tenants: []string{"a"}}, {Token: "0123456789abcdef", Tenants: []string{"a", "*"}}},
			[]string{"token 1 is shorter than 16", `token 2 has a tenant "*"`},
		},
		{[]gateway.BearerToken{{Token: "0123456789 abcdef", Tenants: []string{"a"}}}, []string{"token 0 has characters"}},
		{[]gateway.BearerToken{{Token: "0123456789abcdef\n", Tenants: []string{"a"}}}, []string{"token 0 has characters"}},
		{[]gateway.BearerToken{{Token: "0123=456789abcdef", Tenants: []string{"a"}}}, []string{"token 0 has characters"}},
		{[]gateway.BearerToken{{Token: "0123456789abcdef\u00e9", Tenants: []string{"a.b"}}}, []string{"token 0 has characters", `tenant "a.b"`}},
	} {
		set, err := gateway.NewBearerTokens(tt.tokens)
		if err == nil || set != nil {
			t.Errorf("%v: no error", tt.tokens)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: want all mistakes, %q among them", err, want)
			}
		}
		for _, token := range tt.tokens {
			if token.Token != "" && strings.Contains(err.Error(), token.Token) {
				t.Errorf("%v shows a token", err)
			}
		}
	}
	changed := []string{"acme"}
	set, err := gateway.NewBearerTokens([]gateway.BearerToken{{Token: acmeToken, Tenants: changed}})
	if err != nil {
		t.Fatal(err)
	}
	changed[0] = "other"
	g := newGateway(t, gateway.Config{Store: newShelf(t, "body"), Authorize: set.Authorize})
	if w := do(g, http.MethodGet, claimPath(0), "Authorization: Bearer "+acmeToken); w.Code != 200 {
		t.Errorf("the set has the caller's slice: %d", w.Code)
	}
}

// Neither fmt nor slog shows a token.
func TestTokensInALog(t *testing.T) {
	token := gateway.BearerToken{Token: acmeToken, Tenants: []string{"acme"}}
	set := tokens(t)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("", "token", token, "set", set)
	text := log.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		text += fmt.Sprintf(verb+verb+verb+"\n", token, &token, set) + fmt.Sprintf(verb, []gateway.BearerToken{token})
	}
	if strings.Contains(text, "0123456789") || strings.Contains(text, "3031323334") {
		t.Errorf("a token is shown:\n%s", text)
	}
	if want := "gateway.BearerTokens(3 tokens)"; set.String() != want {
		t.Errorf("%s, want %s", set, want)
	}
}

// What an Authorize function answers, and what becomes of it.
func TestAuthorize(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, "200 body"},
		{gateway.ErrUnauthorized, "401 unauthorized"},
		{fmt.Errorf("expired: %w", gateway.ErrUnauthorized), "401 unauthorized"},
		{gateway.ErrForbidden, "403 forbidden_tenant"},
		{errors.New("anything"), "403 forbidden_tenant"}, // never let in by mistake
		{envelope.Transient(errors.New("identity provider down")), "503 unavailable 1"},
	} {
		s := newShelf(t, "body")
		var asked string
		g := newGateway(t, gateway.Config{Store: s, Authorize: func(r *http.Request, tenant string) error {
			asked = tenant + " " + r.Header.Get("X-Who")
			return tt.err
		}})
		w := do(g, http.MethodGet, claimPath(0), "X-Who: me")
		if got := answered(w.Code, w.Body.Bytes(), w.Header()); got != tt.want || asked != "acme me" {
			t.Errorf("%v: answered %s, asked for %q, want %s", tt.err, got, asked, tt.want)
		}
		if calls := s.take(t); tt.err != nil && len(calls) != 0 {
			t.Errorf("%v: the store is asked for %q", tt.err, calls)
		}
	}
}

// answered describes an answer: status, code or body, Retry-After.
func answered(status int, body []byte, h http.Header) string {
	var answer struct{ Error string }
	if json.Unmarshal(body, &answer) != nil {
		answer.Error = string(body)
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", status, answer.Error, h.Get("Retry-After")))
}

func TestSignatures(t *testing.T) {
	sig := strings.Repeat("Az09_-s", 7)[:43]
	const bad = "400 bad_signature"
	synctest.Test(t, func(t *testing.T) {
		soon := fmt.Sprint(time.Now().Unix() + 1)
		now := fmt.Sprint(time.Now().Unix())
		verdicts := map[string]error{sig: nil, sig[:42] + "x": errors.New("another"), sig[:42] + "y": envelope.Transient(errors.New("no key"))}
		for _, tt := range []struct {
			query    string
			verified bool   // the verifier is asked
			want     string // with a verifier
		}{
			{"exp=" + soon + "&sig=" + sig, true, "200 body"},
			{"sig=" + sig + "&exp=" + soon, true, "200 body"},
			{"exp=" + soon + "&sig=" + sig + "&download=1", true, "200 body"},
			{"exp=999999999999&sig=" + sig, true, "200 body"},
			{"exp=" + now + "&sig=" + sig, true, "410 ref_expired"},
			{"exp=1&sig=" + sig, true, "410 ref_expired"},
			{"exp=1&sig=" + sig[:42] + "x", true, bad}, // nobody learns more about what is forged
			{"exp=" + soon + "&sig=" + sig[:42] + "x", true, bad},
			{"exp=" + soon + "&sig=" + sig[:42] + "y", true, "503 unavailable 1"},
			{"exp=" + soon, false, bad},
			{"sig=" + sig, false, bad},
			{"exp=&sig=", false, bad},
			{"exp", false, bad},
			{"sig", false, bad},
			{"%65xp=" + soon + "&sig=" + sig, true, "200 body"}, // the same query
			{"%73ig=" + sig, false, bad},
			{"exp=" + soon + "&exp=" + soon + "&sig=" + sig, false, bad},
			{"exp=" + soon + "&sig=" + sig + "&sig=" + sig, false, bad},
			{"exp=0&sig=" + sig, false, bad},
			{"exp=0" + soon + "&sig=" + sig, false, bad},
			{"exp=-1&sig=" + sig, false, bad},
			{"exp=%2B1&sig=" + sig, false, bad},
			{"exp=1e9&sig=" + sig, false, bad},
			{"exp=1000000000000&sig=" + sig, false, bad},
			{"exp=" + soon + "&sig=" + sig[:42], false, bad},
			{"exp=" + soon + "&sig=" + sig + "A", false, bad},
			{"exp=" + soon + "&sig=" + sig[:42] + "%3D", false, bad},
			{"exp=" + soon + "&sig=" + sig[:42] + "+", false, bad},
			{"exp=" + soon + ";sig=" + sig, false, bad}, // not read, so it may hide one
			{"x=%zz", false, bad},
			{"Exp=1&SIG=x", false, "200 body"}, // others
			{"", false, "200 body"},
		} {
			s := newShelf(t, "body")
			for _, with := range []bool{false, true} {
				var asked []gateway.Signature
				c := gateway.Config{Store: s}
				want := tt.want
				if with {
					c.VerifySignature = func(s gateway.Signature) error { asked = append(asked, s); return verdicts[s.Value] }
				} else if want != "200 body" || tt.verified {
					want = bad
				}
				w := do(newGateway(t, c), http.MethodGet, claimPath(0)+"?"+tt.query)
				if got := answered(w.Code, w.Body.Bytes(), w.Header()); got != want {
					t.Errorf("%q, with a verifier %t: answered %s, want %s", tt.query, with, got, want)
				}
				if (len(asked) == 1) != (with && tt.verified) {
					t.Errorf("%q, with a verifier %t: it is asked %v", tt.query, with, asked)
				}
				for _, a := range asked {
					if a.Tenant != "acme" || a.ClaimID != packID || !strings.Contains(tt.query, "="+a.Expires) || !strings.Contains(tt.query, "="+a.Value) {
						t.Errorf("%q: the verifier is asked %+v", tt.query, a)
					}
				}
				if calls := s.take(t); w.Code != 200 && len(calls) != 0 {
					t.Errorf("%q: the store is asked for %q", tt.query, calls)
				}
			}
		}
	})
}

// A signature does not stand in for a credential, unless Authorize says so.
func TestSignatureAndToken(t *testing.T) {
	signed := claimPath(0) + "?exp=999999999999&sig=" + strings.Repeat("s", 43)
	verify := func(gateway.Signature) error { return nil }
	set := tokens(t)
	c := gateway.Config{Store: newShelf(t, "body"), Authorize: set.Authorize, VerifySignature: verify}
	if w := do(newGateway(t, c), http.MethodGet, signed); w.Code != 401 {
		t.Errorf("without a token: %d", w.Code)
	}
	if w := do(newGateway(t, c), http.MethodGet, signed, "Authorization: Bearer "+acmeToken); w.Code != 200 {
		t.Errorf("with both: %d", w.Code)
	}
	c.Authorize = func(r *http.Request, tenant string) error {
		if r.URL.Query().Has("sig") {
			return nil
		}
		return set.Authorize(r, tenant)
	}
	for path, want := range map[string]int{signed: 200, claimPath(0): 401, claimPath(0) + "?sig=": 400, claimPath(0) + "?;&sig=x": 400} {
		if w := do(newGateway(t, c), http.MethodGet, path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

// A function of the Config that panics is a 500 of this request, and shows nothing.
func TestPanics(t *testing.T) {
	var log bytes.Buffer
	for _, c := range []gateway.Config{
		{Authorize: func(*http.Request, string) error { panic("secret") }},
		{VerifySignature: func(gateway.Signature) error { panic("secret") }},
	} {
		c.Store, c.MaxInFlight, c.Logger = newShelf(t, "body"), 1, textLogger(&log)
		g := newGateway(t, c)
		for range 2 { // the slot is free again
			w := do(g, http.MethodGet, claimPath(0)+"?exp=1&sig="+strings.Repeat("s", 43))
			if got := answered(w.Code, w.Body.Bytes(), w.Header()); got != "500 internal" {
				t.Errorf("answered %s", got)
			}
		}
	}
	if text := log.String(); strings.Contains(text, "secret") || strings.Count(text, "panic with a value of type string") != 4 {
		t.Errorf("logged\n%s", text)
	}
}
