package webhook_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/webhook"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// raw makes the text of a POST request with a right Content-Length.
func raw(body string, headers ...string) string {
	var b strings.Builder
	b.WriteString("POST /hooks HTTP/1.1\r\nHost: example.com\r\n")
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return b.String()
}

func chunked(framed string, headers ...string) string {
	return "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n" +
		strings.Join(append(headers, "", ""), "\r\n") + framed
}

func parse(t testing.TB, raw string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pairs(texts ...string) []envelope.Header {
	var hs []envelope.Header
	for _, t := range texts {
		name, value, _ := strings.Cut(t, ": ")
		hs = append(hs, envelope.Header{Name: name, Value: value})
	}
	return hs
}

// plain is what FromRequest makes of a request without headers.
func plain(body string) envelope.Envelope {
	return envelope.Envelope{
		SourceID: "test", Body: []byte(body), Size: int64(len(body)),
		Verification: envelope.Verification{Status: envelope.VerificationSkipped},
	}
}

// and returns e changed by each of the functions.
func and(e envelope.Envelope, changes ...func(*envelope.Envelope)) envelope.Envelope {
	for _, change := range changes {
		change(&e)
	}
	return e
}

func headers(texts ...string) func(*envelope.Envelope) {
	return func(e *envelope.Envelope) { e.Headers = pairs(texts...) }
}

func dedupe(key string) func(*envelope.Envelope) {
	return func(e *envelope.Envelope) { e.DedupeKey = key }
}

// verdict is a Verifier that says the same of everything.
type verdict struct{ err error }

func (v verdict) Verify(http.Header, []byte) error { return v.err }

var (
	errVerdict = errors.New("said no")
	errOutage  = envelope.Transient(errors.New("no database"))
)

// requests is a table of requests and what becomes of them; it seeds FuzzFromRequest.
var requests = []struct {
	name string
	raw  string
	o    webhook.RequestOptions // its Source is "test" when it has none
	want envelope.Envelope      // without ID and ReceivedAt
	code webhook.Code           // "" is no error
}{
	{name: "an empty body", raw: raw(""), want: plain("")},
	{name: "bytes that are no text", raw: raw("\x00\xff\r\n"), want: plain("\x00\xff\r\n")},
	{name: "a body that only looks like JSON", raw: raw(`{"a": 1.0, "a": 2`), want: plain(`{"a": 1.0, "a": 2`)},
	{name: "what is after the announced length is not the body", raw: raw("abc") + "def", want: plain("abc")},
	{name: "chunks", raw: chunked("3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\n"), want: plain("abcd")},
	{name: "trailers are no headers", raw: chunked("1\r\na\r\n0\r\nX-T: v\r\n\r\n", "Trailer: X-T"), want: plain("a")},
	{name: "HTTP/1.0 without a length", raw: "POST / HTTP/1.0\r\n\r\n", want: plain("")},
	{
		name: "a content coding is kept as it came",
		raw:  raw("\x1f\x8b not even gzip", "Content-Encoding: gzip"),
		want: and(plain("\x1f\x8b not even gzip"), headers("content-encoding: gzip")),
	},
	{
		name: "the content type is verbatim and no forwarded header",
		raw:  raw("", "content-type:  Application/JSON;  charset=\"utf-8\" "),
		want: and(plain(""), func(e *envelope.Envelope) { e.ContentType = `Application/JSON;  charset="utf-8"` }),
	},
	{
		name: "headers in the order of their names, values as they came",
		raw:  raw("", "X-B: 2", "x-a_c: 9", "X-A: 3", "x-b: 1", "Accept: */*", "X-A-B: 4", "X-_: 5"),
		want: and(plain(""), headers("accept: */*", "x-_: 5", "x-a: 3", "x-a-b: 4", "x-a_c: 9", "x-b: 2, 1")),
	},
	{
		name: "credentials and ours are not forwarded",
		raw:  raw("", "Authorization: Bearer x", "Cookie: a=b", "X-Api-Key: k", "X-Ankusa-Id: forged", "Connection: close", "X-Kept: 1"),
		want: and(plain(""), headers("x-kept: 1")),
	},
	{
		name: "the rules of forwarding",
		raw:  raw("", "X-A: 1", "X-B: 2", "X-C: 3"),
		o:    webhook.RequestOptions{Forward: envelope.ForwardOptions{Mode: envelope.ForwardAllowList, Allow: []string{"X-B", "x-c"}, MaxHeaders: 1}},
		want: and(plain(""), headers("x-b: 2")),
	},
	{
		name: "a header with a tab is forwarded",
		raw:  raw("", "X-A: a\tb"),
		want: and(plain(""), headers("x-a: a\tb")),
	},
	{name: "a header that is not ASCII is refused", raw: raw("", "X-A: caf\xc3\xa9"), code: webhook.CodeInvalidHeader},
	{name: "one that would not be forwarded too", raw: raw("", "Cookie: caf\xc3\xa9"), code: webhook.CodeInvalidHeader},
	{
		name: "unless it is dropped",
		raw:  raw("", "X-A: caf\xc3\xa9"),
		o:    webhook.RequestOptions{DropHeaders: []string{"x-a"}},
		want: plain(""),
	},
	{
		name: "or hashed",
		raw:  raw("", "X-A: caf\xc3\xa9"),
		o:    webhook.RequestOptions{HashHeaders: []string{"x-a"}},
		// printf 'caf\303\251' | sha256sum
		want: and(plain(""), headers("x-a: sha256:850f7dc43910ff890f8879c0ed26fe697c93a067ad93a7d50f466a7028a9bf4e")),
	},
	{
		name: "each value is hashed, names are dropped in any case, dropping goes first",
		raw:  raw("", "X-Token: hello", "X-Token: ", "X-Gone: 1", "X-Both: 1"),
		o:    webhook.RequestOptions{HashHeaders: []string{"X-TOKEN", "x-both"}, DropHeaders: []string{"X-gone", "X-BOTH"}},
		want: and(plain(""), headers("x-token: sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824, sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")),
	},
	{
		name: "hashing does not make a credential forwarded",
		raw:  raw("", "Authorization: Bearer x"),
		o:    webhook.RequestOptions{HashHeaders: []string{"authorization"}},
		want: plain(""),
	},
	{
		name: "a dropped content type is none",
		raw:  raw("", "Content-Type: text/plain"),
		o:    webhook.RequestOptions{DropHeaders: []string{"content-type"}},
		want: plain(""),
	},
	{
		name: "the dedupe key of a header",
		raw:  raw("", "X-Delivery: d-1", "X-Delivery: d-2"),
		o:    webhook.RequestOptions{DedupeHeader: "x-DELIVERY"},
		want: and(plain(""), headers("x-delivery: d-1, d-2"), dedupe("d-1")),
	},
	{
		name: "no such header, no key",
		raw:  raw(""),
		o:    webhook.RequestOptions{DedupeHeader: "X-Delivery"},
		want: plain(""),
	},
	{
		name: "the dedupe key of a hashed header is the hash",
		raw:  raw("", "X-Delivery: hello"),
		o:    webhook.RequestOptions{DedupeHeader: "X-Delivery", HashHeaders: []string{"X-Delivery"}, Forward: envelope.ForwardOptions{Mode: envelope.ForwardNone}},
		want: and(plain(""), dedupe("sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")),
	},
	{
		name: "a key of 200 bytes stays",
		raw:  raw("", "X-D: "+strings.Repeat("k", 200)),
		o:    webhook.RequestOptions{DedupeHeader: "X-D", DropHeaders: nil, Forward: envelope.ForwardOptions{Mode: envelope.ForwardNone}},
		want: and(plain(""), dedupe(strings.Repeat("k", 200))),
	},
	{
		name: "one of 201 is digested",
		raw:  raw("", "X-D: "+strings.Repeat("k", 201)),
		o:    webhook.RequestOptions{DedupeHeader: "X-D", Forward: envelope.ForwardOptions{Mode: envelope.ForwardNone}},
		// printf 'k%.0s' $(seq 201) | sha256sum
		want: and(plain(""), dedupe("sha256:ebf0ead0a3b837bc388d6a36c93833fff64a0a8bc8198fc0f1b7b5031dddd254")),
	},
	{
		name: "the dedupe key of a function, which sees redacted headers",
		raw:  raw("body", "X-A: 1", "X-Gone: 2", "X-Hashed: hello"),
		o: webhook.RequestOptions{
			DropHeaders: []string{"x-gone"}, HashHeaders: []string{"x-hashed"},
			Forward: envelope.ForwardOptions{Mode: envelope.ForwardNone},
			DedupeFunc: func(h http.Header, body []byte) (string, error) {
				return h.Get("X-A") + h.Get("X-Gone") + h.Get("X-Hashed")[:9] + string(body), nil
			},
		},
		want: and(plain("body"), dedupe("1sha256:2cbody")),
	},
	{
		name: "a dedupe key that is not UTF-8",
		raw:  raw("\xff"),
		o:    webhook.RequestOptions{DedupeFunc: func(_ http.Header, body []byte) (string, error) { return string(body), nil }},
		code: webhook.CodeRefused,
	},
	{
		name: "trace context is left alone",
		raw:  raw("", "Traceparent: "+traceparent),
		want: and(plain(""), headers("traceparent: "+traceparent)),
	},
	{
		name: "or taken",
		raw:  raw("", "Traceparent: "+traceparent, "Tracestate: a=1", "tracestate: b=2"),
		o:    webhook.RequestOptions{TraceContext: true, Forward: envelope.ForwardOptions{Mode: envelope.ForwardNone}},
		want: and(plain(""), func(e *envelope.Envelope) { e.Traceparent, e.Tracestate = traceparent, "a=1,b=2" }),
	},
	{
		name: "an invalid one is none, its tracestate too",
		raw:  raw("", "Traceparent: "+strings.ToUpper(traceparent), "Tracestate: a=1"),
		o:    webhook.RequestOptions{TraceContext: true, Forward: envelope.ForwardOptions{Mode: envelope.ForwardNone}},
		want: plain(""),
	},
	{
		name: "and so are two",
		raw:  raw("", "Traceparent: "+traceparent, "Traceparent: "+traceparent),
		o:    webhook.RequestOptions{TraceContext: true, Forward: envelope.ForwardOptions{Mode: envelope.ForwardNone}},
		want: plain(""),
	},
	{
		name: "a long tracestate is truncated",
		raw:  raw("", "Traceparent: "+traceparent, "Tracestate: l="+strings.Repeat("v", 127)+",a=1,b="+strings.Repeat("w", 120)+",c="+strings.Repeat("w", 120)+",d="+strings.Repeat("w", 120)+",e="+strings.Repeat("w", 120)+",f=1"),
		o:    webhook.RequestOptions{TraceContext: true, Forward: envelope.ForwardOptions{Mode: envelope.ForwardNone}},
		want: and(plain(""), func(e *envelope.Envelope) {
			e.Traceparent = traceparent
			e.Tracestate = "a=1,b=" + strings.Repeat("w", 120) + ",c=" + strings.Repeat("w", 120) + ",d=" + strings.Repeat("w", 120) + ",e=" + strings.Repeat("w", 120) + ",f=1"
		}),
	},
	{
		name: "what is configured",
		raw:  raw(""),
		o:    webhook.RequestOptions{Source: "github", Tenant: "acme", Instance: "i-1", Region: "eu"},
		want: and(plain(""), func(e *envelope.Envelope) {
			e.SourceID, e.TenantID, e.Instance, e.Region = "github", "acme", "i-1", "eu"
		}),
	},
	{name: "a body as large as the cap", raw: raw("12345"), o: webhook.RequestOptions{MaxBodyBytes: 5}, want: plain("12345")},
	{name: "one byte more", raw: raw("123456"), o: webhook.RequestOptions{MaxBodyBytes: 5}, code: webhook.CodeBodyTooLarge},
	{name: "chunks as large as the cap", raw: chunked("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), o: webhook.RequestOptions{MaxBodyBytes: 5}, want: plain("abcde")},
	{name: "chunks of one byte more", raw: chunked("3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"), o: webhook.RequestOptions{MaxBodyBytes: 5}, code: webhook.CodeBodyTooLarge},
	{name: "an announced length over the cap", raw: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\n", code: webhook.CodeBodyTooLarge},
	{name: "a body shorter than announced", raw: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabc", code: webhook.CodeIncompleteBody},
	{name: "chunks that end early", raw: chunked("5\r\nabc"), code: webhook.CodeIncompleteBody},
	{name: "chunks that are none", raw: chunked("zz\r\nabc"), code: webhook.CodeIncompleteBody},

	{
		name: "verified", raw: raw("b"), o: webhook.RequestOptions{Verify: verdict{}},
		want: and(plain("b"), func(e *envelope.Envelope) { e.Verification.Status = envelope.VerificationOK }),
	},
	{name: "refused", raw: raw("b"), o: webhook.RequestOptions{Verify: verdict{errVerdict}}, code: webhook.CodeVerificationFailed},
	{
		name: "refused and flagged", raw: raw("b"), o: webhook.RequestOptions{Verify: verdict{errVerdict}, OnFailure: webhook.Flag},
		want: and(plain("b"), func(e *envelope.Envelope) {
			e.Verification = envelope.Verification{Status: envelope.VerificationFailed, Flagged: true}
		}),
	},
	{
		name: "verified where failures are flagged", raw: raw("b"), o: webhook.RequestOptions{Verify: verdict{}, OnFailure: webhook.Flag},
		want: and(plain("b"), func(e *envelope.Envelope) { e.Verification.Status = envelope.VerificationOK }),
	},
	{name: "refused with a code", raw: raw("b"), o: webhook.RequestOptions{Verify: webhook.GitHub("s")}, code: webhook.CodeMissingHeader},
	{name: "an outage refuses", raw: raw("b"), o: webhook.RequestOptions{Verify: verdict{errOutage}}, code: webhook.CodeUnavailable},
	{name: "an outage is never flagged", raw: raw("b"), o: webhook.RequestOptions{Verify: verdict{errOutage}, OnFailure: webhook.Flag}, code: webhook.CodeUnavailable},
	{
		name: "nor is a secret that cannot be used", raw: raw("b"), code: webhook.CodeInvalidSecret,
		o: webhook.RequestOptions{Verify: verdict{&webhook.Error{Code: webhook.CodeInvalidSecret}}, OnFailure: webhook.Flag},
	},
	{
		name: "a verifier sees headers as they were sent, and the exact body",
		raw:  raw(gitHubBody, "X-Hub-Signature-256: sha256="+gitHubSum),
		o:    webhook.RequestOptions{Verify: webhook.GitHub(gitHubSecret), DropHeaders: []string{"x-hub-signature-256"}},
		want: and(plain(gitHubBody), func(e *envelope.Envelope) { e.Verification.Status = envelope.VerificationOK }),
	},
	{name: "options that cannot work", raw: raw(""), o: webhook.RequestOptions{Verify: webhook.GitHub("")}, code: webhook.CodeInvalidOptions},
}
