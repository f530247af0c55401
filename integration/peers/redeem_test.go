package peers_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/integration/peers"
)

// A redemption is what a gateway answers to a reader that redeems a claim of "hello".
type redemption struct {
	name    string
	gateway http.HandlerFunc
	// want is what package claimcheck says of it: accept, or the code, and the status of a
	// request that was rejected.
	want string
	// differ has the SDKs that do not agree.
	differ map[peers.SDK]disagreement

	ref, sha256 string // of the claim, where it is another
	base        string // what follows the server's address in the base URL
}

// The reason for a disagreement about redeeming. docs/interoperability.md has it.
const decompresses = "asks for a compressed body and takes it"

// answer is a gateway that always answers the same.
func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // a status may forbid it
	}
}

// raw is a gateway that writes these bytes in place of an answer and closes the connection.
func raw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = conn.Write([]byte(text))
	}
}

// hangs is a gateway that writes these bytes and nothing more until the reader gives up.
func hangs(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = conn.Write([]byte(text))
		_, _ = conn.Read(make([]byte, 1)) // until it closes
	}
}

// when is a gateway that answers "hello" to what it expects and 418 to anything else.
func when(expected func(*http.Request) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !expected(r) {
			http.Error(w, "not what was expected", http.StatusTeapot)
			return
		}
		fmt.Fprint(w, "hello")
	}
}

func compressed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text)) // to memory
	_ = w.Close()
	return b.String()
}

func redemptions() []redemption {
	py := func(verdict, reason string) differ { return differ{peers.Python050: {verdict, reason}} }
	const path = "/v1/claims/acme/01M39VMD8RA3C5HR4RBV67Y002"
	const page = "<html><body>503 Service Unavailable</body></html>"
	signed := strings.TrimPrefix(signedRef, "urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:")
	exp, sig, _ := strings.Cut(signed, ":")
	rows := []redemption{
		{name: "the body", gateway: answer(200, "hello"), want: accept},
		{name: "the path", gateway: when(func(r *http.Request) bool {
			return r.Method == http.MethodGet && r.RequestURI == path
		}), want: accept},
		{name: "a base URL with a path", base: "/gate/way", gateway: when(func(r *http.Request) bool {
			return r.RequestURI == "/gate/way"+path
		}), want: accept},
		{name: "a base URL that ends with a slash", base: "/", gateway: when(func(r *http.Request) bool {
			return r.RequestURI == path
		}), want: accept},
		{name: "a header of the configuration", gateway: when(func(r *http.Request) bool {
			return r.Header.Get("Authorization") == "Bearer t-1"
		}), want: accept},
		{name: "in chunks", gateway: raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"), want: accept},
		{name: "until the end of the connection", gateway: raw("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"), want: accept},
		{name: "a content type of its own", gateway: answer(200, "hello", "Content-Type", "text/html"), want: accept},
		{
			name: "a signed reference", ref: signedRef, gateway: when(func(r *http.Request) bool {
				return r.RequestURI == path+"?exp="+exp+"&sig="+sig
			}),
			want: accept, differ: py("invalid_ref", onlyV1Refs),
		},
		{
			name: "compressed though nobody asked", gateway: answer(200, compressed("hello"), "Content-Encoding", "gzip"),
			want: "integrity", differ: py(accept, decompresses),
		},

		// Other bytes, complete.
		{name: "another body", gateway: answer(200, "hellO"), want: "integrity"},
		{name: "nothing", gateway: answer(200, ""), want: "integrity"},
		{name: "a shorter body", gateway: answer(200, "hell"), want: "integrity"},
		{name: "a longer body", gateway: answer(200, "hello\n"), want: "integrity"},
		{name: "an error page with 200", gateway: answer(200, page, "Content-Type", "text/html"), want: "integrity"},
		{name: "an error document with 200", gateway: answer(200, `{"error":"not_found"}`), want: "integrity"},

		// Connections.
		{name: "cut before the announced end", gateway: raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"), want: "unavailable"},
		{name: "cut before any of it", gateway: raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), want: "unavailable"},
		{name: "cut inside a chunk", gateway: raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"), want: "unavailable"},
		{name: "cut after a chunk", gateway: raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), want: "unavailable"},
		{name: "closed without an answer", gateway: raw(""), want: "unavailable"},
		{name: "no HTTP", gateway: raw("SSH-2.0-OpenSSH_9.2\r\n"), want: "unavailable"},
		{name: "hangs", gateway: hangs(""), want: "unavailable"},
		{name: "hangs after the header", gateway: hangs("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), want: "unavailable"},
		{name: "hangs within the body", gateway: hangs("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"), want: "unavailable"},
		{name: "nobody listens", want: "unavailable"},
		{name: "a redirect", gateway: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				fmt.Fprint(w, "hello")
				return
			}
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, want: "unavailable"},

		// What is refused before a request.
		{name: "not a reference", ref: "acme:01M39VMD8RA3C5HR4RBV67Y002", gateway: answer(200, "hello"), want: "invalid_ref"},
		{name: "a path for a tenant", ref: "urn:ankusa:claim:v1:..:01M39VMD8RA3C5HR4RBV67Y002", gateway: answer(200, "hello"), want: "invalid_ref"},
		{name: "a digest in upper case", sha256: strings.ToUpper(helloSHA256), gateway: answer(200, "hello"), want: "invalid_ref"},
		{name: "no digest", sha256: "-", gateway: answer(200, "hello"), want: "invalid_ref"},
	}
	// Every status that a gateway or something in front of it may give, with the right body.
	for status, want := range map[int]string{
		201: "unavailable", 202: "unavailable", 203: "unavailable", 204: "unavailable", 206: "unavailable",
		300: "unavailable", 304: "unavailable", 307: "unavailable", 399: "unavailable",
		400: "rejected 400", 401: "rejected 401", 402: "rejected 402", 403: "rejected 403",
		404: "not_found", 405: "rejected 405", 406: "rejected 406", 407: "rejected 407", 408: "unavailable",
		409: "rejected 409", 410: "rejected 410", 413: "rejected 413", 416: "rejected 416", 418: "rejected 418",
		421: "rejected 421", 425: "rejected 425", 426: "rejected 426", 429: "unavailable", 451: "rejected 451", 499: "rejected 499",
		500: "unavailable", 501: "unavailable", 502: "unavailable", 503: "unavailable", 504: "unavailable",
		507: "unavailable", 599: "unavailable", 600: "unavailable", 999: "unavailable",
	} {
		rows = append(rows, redemption{name: fmt.Sprint(status), gateway: answer(status, "hello"), want: want})
	}
	return append(rows,
		redemption{name: "503 and when to come back", gateway: answer(503, `{"error":"store_unavailable"}`, "Retry-After", "1"), want: "unavailable"},
		redemption{name: "429 and when to come back", gateway: answer(429, "", "Retry-After", "Fri, 31 Dec 2999 23:59:59 GMT"), want: "unavailable"},
		redemption{name: "a rejection that is JSON under another type", gateway: answer(
			403, `{"error":"forbidden_tenant","retry":false,"codes":[1,2.5,null]}`, "Content-Type", "text/plain"), want: "rejected 403"},
		redemption{name: "a rejection that is almost JSON", gateway: answer(400, `{"error":"x"} `+"\n"+`trailing`, "Content-Type", "application/json"), want: "rejected 400"},
		redemption{name: "a rejection that is a JSON text", gateway: answer(422, `"no"`), want: "rejected 422"},
		redemption{name: "a rejection that is not UTF-8", gateway: answer(400, "\xff\xfe"), want: "rejected 400"},
		redemption{name: "an empty 401", gateway: answer(401, ""), want: "rejected 401"},
		redemption{name: "a 403 that is a page", gateway: answer(403, page, "Content-Type", "text/html"), want: "rejected 403"},
	)
}

// One answer of a gateway has one verdict: this library and both SDKs read the same of it,
// and all agree on whether the message is retried or dead-lettered.
func TestRedemptions(t *testing.T) {
	sdks := []*peers.Peer{peers.Python(t), peers.Rust(t)}
	for _, r := range redemptions() {
		t.Run(r.name, func(t *testing.T) {
			var requests atomic.Int32
			base := serve(t, r, &requests)
			ref, digest := r.ref, r.sha256
			if ref == "" {
				ref = claimRef
			}
			switch digest {
			case "":
				digest = helloSHA256
			case "-":
				digest = ""
			}
			const timeout = 300 * time.Millisecond // ends what hangs; nothing else may need it
			client, err := claimcheck.NewClient(claimcheck.ClientConfig{
				BaseURL: base, Header: http.Header{"Authorization": {"Bearer t-1"}}, Timeout: patience(r, timeout),
			})
			if err != nil {
				t.Fatal(err)
			}
			body, err := client.Redeem(t.Context(), ref, digest, -1)
			if got := verdict(t, body, err); got != r.want {
				t.Errorf("Client: %s, want %s", got, r.want)
			}
			sent := requests.Load()
			if refused := r.want == "invalid_ref"; refused != (sent == 0) && r.gateway != nil {
				t.Errorf("Client sent %d requests", sent)
			}
			if sent > 1 {
				t.Errorf("Client sent %d requests, want no hidden retries", sent)
			}
			for _, p := range sdks {
				want := r.want
				listed, ok := r.differ[p.SDK]
				if ok {
					want = listed.verdict
				}
				got, refusal := theirVerdict(t, p, peers.Claim{
					BaseURL: base, Headers: map[string]string{"Authorization": "Bearer t-1"}, Timeout: patience(r, timeout),
					Ref: ref, SHA256: digest,
				}, "hello")
				if got != want {
					t.Errorf("%s: %s, want %s", p.SDK, got, want)
				}
				var rejected *claimcheck.RejectedError
				if errors.As(err, &rejected) && refusal != nil {
					var said any // with numbers as they are in ours
					if err := json.Unmarshal([]byte(refusal.Body), &said); err != nil {
						t.Fatal(err)
					}
					if !reflect.DeepEqual(said, rejected.Body) {
						t.Errorf("%s reads the rejection %#v, Client %#v", p.SDK, said, rejected.Body)
					}
				}
			}
		})
	}
}

// patience is the timeout of a reader: short only for the gateways that hang.
func patience(r redemption, short time.Duration) time.Duration {
	if strings.HasPrefix(r.name, "hangs") {
		return short
	}
	return time.Minute
}

// serve starts the row's gateway and returns its base URL.
func serve(t *testing.T, r redemption, requests *atomic.Int32) string {
	t.Helper()
	if r.gateway == nil {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close() // nobody listens
		return "http://" + listener.Addr().String()
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests.Add(1)
		r.gateway(w, req)
	}))
	t.Cleanup(server.Close)
	return server.URL + r.base
}

// verdict is what our own reader makes of a claim of "hello".
func verdict(t *testing.T, body []byte, err error) string {
	t.Helper()
	if err == nil {
		if string(body) != "hello" {
			t.Errorf("accepted with the body %.50q", body)
		}
		return accept
	}
	var e *claimcheck.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *claimcheck.Error", err)
	}
	transient := e.Code == claimcheck.CodeUnavailable
	if envelope.IsTransient(err) != transient || envelope.IsPermanent(err) == transient {
		t.Errorf("%v: transient %t, permanent %t", err, envelope.IsTransient(err), envelope.IsPermanent(err))
	}
	if body != nil {
		t.Errorf("%v came with a body", err)
	}
	if strings.Contains(err.Error(), "hell") || strings.Contains(err.Error(), "t-1") {
		t.Errorf("the text shows a body or a credential: %v", err)
	}
	switch e.Code {
	case claimcheck.CodeRejected, claimcheck.CodeRefExpired:
		return fmt.Sprintf("rejected %d", e.Status)
	default:
		return string(e.Code)
	}
}

// theirVerdict is what an SDK makes of a claim of want, and its error.
func theirVerdict(t *testing.T, p *peers.Peer, c peers.Claim, want string) (string, *peers.ClaimRefusal) {
	t.Helper()
	body, refusal := p.Redeem(t, c)
	switch {
	case refusal == nil:
		if string(body) != want {
			t.Errorf("%s: accepted with another body of %d bytes", p.SDK, len(body))
		}
		return accept, nil
	case refusal.Retryable != (refusal.Code == "unavailable"):
		t.Errorf("%s: %s, but retryable is %t", p.SDK, refusal.Code, refusal.Retryable)
	}
	switch refusal.Code {
	case "":
		return refusal.Class, refusal
	case "rejected":
		return fmt.Sprintf("rejected %d", refusal.Status), refusal
	default:
		return refusal.Code, refusal
	}
}

func hexDigest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
