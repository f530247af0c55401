package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/webhook"
)

// A store is a Publisher that remembers what it was given.
type store struct {
	// publish, when not nil, decides about a message before it is stored.
	publish func(msg *message.Message) error

	mu     sync.Mutex
	topics []string
	kept   []*message.Message
}

func (s *store) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		if s.publish != nil {
			if err := s.publish(msg); err != nil {
				return err
			}
		}
		s.mu.Lock()
		s.topics = append(s.topics, topic)
		s.kept = append(s.kept, msg)
		s.mu.Unlock()
	}
	return nil
}

func (s *store) Close() error { return nil }

// take returns what was stored since the last call, as "topic: body".
func (s *store) take(t testing.TB) (texts []string, envelopes []*envelope.Envelope) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, msg := range s.kept {
		e, err := envelope.FromMessage(msg)
		if err != nil {
			t.Fatalf("what was published is no envelope: %v", err)
		}
		texts = append(texts, s.topics[i]+": "+string(msg.Payload))
		envelopes = append(envelopes, e)
	}
	s.topics, s.kept = nil, nil
	return texts, envelopes
}

// serve starts a server of its own for c, without any timeout of its own.
func serve(t testing.TB, c webhook.ReceiverConfig) *httptest.Server {
	t.Helper()
	rcv, err := webhook.NewReceiver(c)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(rcv)
	srv.Client().Timeout = patience
	t.Cleanup(srv.Close)
	return srv
}

// An answer is what came back for a request.
type answer struct {
	status int
	text   string
	header http.Header
}

// send sends a request and returns the answer.
func send(t testing.TB, srv *httptest.Server, method, path, body string, h http.Header) answer {
	t.Helper()
	r, err := http.NewRequest(method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(r.Header, h)
	a, err := do(srv.Client(), r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func do(client *http.Client, r *http.Request) (answer, error) {
	resp, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(text), resp.Header}, err
}

// post is send for goroutines: what goes wrong is an answer with status 0.
func post(client *http.Client, url, body string) answer {
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return answer{text: err.Error()}
	}
	a, err := do(client, r)
	if err != nil {
		return answer{text: err.Error()}
	}
	return a
}

// challengeBody and its signature by Slack's documented secret and time:
// printf 'v0:1531420618:{"token":"t","challenge":"3eZbrw1aB","type":"url_verification"}' | openssl dgst -sha256 -hmac 8f742231b10e8888abcd99yyyzzz85a5
const (
	challengeBody = `{"token":"t","challenge":"3eZbrw1aB","type":"url_verification"}`
	challengeSum  = "f5aebbedaa8f13a9aef4c97c81707f31864a90d3c9a92dae4195596aebf34fe3"
)

// Signed in the same way.
const likeChallenge = `{"type":"event_callback","challenge":"3eZbrw1aB","event":{"text":"url_verification"}}`

var largeChallenge = challengeBody + strings.Repeat(" ", 4096)

func TestReceiver(t *testing.T) {
	slack := webhook.RequestOptions{Source: "slack", Verify: at(slackTime, webhook.Slack(slackSecret))}
	slackFlagged := slack
	slackFlagged.OnFailure = webhook.Flag
	slackChallenge := with(slackHeader, "X-Slack-Signature: v0="+challengeSum)
	gitHub := webhook.RequestOptions{Source: "github", Tenant: "acme", Verify: webhook.GitHub(gitHubSecret), DedupeHeader: "X-GitHub-Delivery"}
	flagged := gitHub
	flagged.OnFailure = webhook.Flag
	test := webhook.RequestOptions{Source: "test"}
	panics := test
	panics.DedupeFunc = func(http.Header, []byte) (string, error) { panic("s3cret of the panic") }
	small := test
	small.MaxBodyBytes = 4

	tests := []struct {
		name    string
		o       webhook.RequestOptions
		publish func(*message.Message) error
		method  string // "" is POST
		header  http.Header
		body    string

		status int
		answer string   // without the id of a 202
		stored []string // "topic: body"
		verify envelope.Verification
		logged string // "" is nothing
	}{
		{name: "plain", o: test, body: "b\x00\xff", status: 202, stored: []string{"hooks: b\x00\xff"}, verify: envelope.Verification{Status: "skipped"}},
		{name: "an empty body", o: test, status: 202, stored: []string{"hooks: "}, verify: envelope.Verification{Status: "skipped"}},
		{name: "verified", o: gitHub, header: gitHubHeader, body: gitHubBody, status: 202, stored: []string{"hooks: " + gitHubBody}, verify: envelope.Verification{Status: "ok"}},
		{
			name: "not verified", o: gitHub, header: gitHubHeader, body: "Hello, Mallory!", status: 401, answer: `{"error":"no_matching_signature"}`,
			logged: "level=WARN msg=\"webhook not accepted\" code=no_matching_signature status=401 topic=hooks source_id=github tenant_id=acme field=x-hub-signature-256",
		},
		{name: "not signed", o: gitHub, body: "x", status: 401, answer: `{"error":"missing_header"}`, logged: "code=missing_header"},
		{
			name: "not verified and flagged", o: flagged, header: gitHubHeader, body: "Hello, Mallory!", status: 202,
			stored: []string{"hooks: Hello, Mallory!"}, verify: envelope.Verification{Status: "failed", Flagged: true},
		},
		{name: "GET", o: test, method: "GET", status: 405, answer: `{"error":"method_not_allowed"}`, logged: "code=method_not_allowed"},
		{name: "PUT", o: test, method: "PUT", body: "x", status: 405, answer: `{"error":"method_not_allowed"}`, logged: "code=method_not_allowed"},
		{name: "HEAD", o: test, method: "HEAD", status: 405, logged: "code=method_not_allowed"},
		{name: "a header that is not ASCII", o: test, header: header("X-A: caf\xc3\xa9"), status: 400, answer: `{"error":"invalid_header"}`, logged: "X-A"},
		{name: "as large as the cap", o: small, body: "1234", status: 202, stored: []string{"hooks: 1234"}, verify: envelope.Verification{Status: "skipped"}},
		{name: "too large", o: small, body: "12345", status: 413, answer: `{"error":"body_too_large"}`, logged: "over 4 bytes"},
		{
			name: "the broker is down", o: test, body: "b", publish: func(*message.Message) error { return errors.New("connection refused") },
			status: 503, answer: `{"error":"publish_failed"}`, logged: "level=ERROR msg=\"webhook not accepted\" code=publish_failed status=503 topic=hooks source_id=test message_id=",
		},
		{
			name: "the broker will never take it", o: test, body: "b", publish: func(*message.Message) error { return &envelope.TooLargeError{Size: 9, Max: 8} },
			status: 413, answer: `{"error":"message_too_large"}`, logged: "9 bytes, at most 8",
		},
		{
			name: "the publisher panics", o: test, body: "b", publish: func(*message.Message) error { panic("s3cret of the panic") },
			status: 500, answer: `{"error":"internal"}`, logged: "panic with a value of type string",
		},
		{name: "a function panics", o: panics, body: "b", status: 500, answer: `{"error":"internal"}`, logged: "stack="},
		{name: "a verifier cannot tell", o: webhook.RequestOptions{Source: "test", Verify: verdict{errOutage}}, status: 503, answer: `{"error":"unavailable"}`, logged: "code=unavailable"},
		{
			name: "a verifier with an error of its own", o: webhook.RequestOptions{Source: "test", Verify: verdict{errors.New("s3cret text")}},
			status: 401, answer: `{"error":"verification_failed"}`, logged: "code=verification_failed",
		},
		{name: "Slack's handshake", o: slack, header: slackChallenge, body: challengeBody, status: 200, answer: "3eZbrw1aB"},
		{name: "Slack's handshake with a wrong signature", o: slack, header: slackHeader, body: challengeBody, status: 401, answer: `{"error":"no_matching_signature"}`, logged: "slack"},
		{
			name: "the same, flagged: not answered", o: slackFlagged, header: slackHeader, body: challengeBody, status: 202,
			stored: []string{"hooks: " + challengeBody}, verify: envelope.Verification{Status: "failed", Flagged: true},
		},
		{name: "Slack's other requests", o: slack, header: slackHeader, body: slackBody, status: 202, stored: []string{"hooks: " + slackBody}, verify: envelope.Verification{Status: "ok"}},
		{
			name: "an event that is like Slack's handshake", o: slack, header: with(slackHeader, "X-Slack-Signature: v0=246f90a8b40cdb49e3030bd2ba667329e80f7b093cae6eb5bb82559815e78ed9"), body: likeChallenge, status: 202,
			stored: []string{"hooks: " + likeChallenge}, verify: envelope.Verification{Status: "ok"},
		},
		{
			name: "a handshake that is too large to be one", o: slack, header: with(slackHeader, "X-Slack-Signature: v0=34ee036568dd89449b47c74338e98fb9ca03cbb869c644f7c5064c47d4b3d97a"), body: largeChallenge, status: 202,
			stored: []string{"hooks: " + largeChallenge}, verify: envelope.Verification{Status: "ok"},
		},
		{name: "a handshake that is not for Slack", o: test, body: challengeBody, status: 202, stored: []string{"hooks: " + challengeBody}, verify: envelope.Verification{Status: "skipped"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var logged bytes.Buffer
			pub := &store{publish: tt.publish}
			srv := serve(t, webhook.ReceiverConfig{
				Publisher: pub, Topic: "hooks", Request: tt.o, RetryAfter: 1500 * time.Millisecond,
				Logger: slog.New(slog.NewTextHandler(&logged, nil)),
			})
			method := tt.method
			if method == "" {
				method = "POST"
			}
			// What must never be logged.
			h := tt.header.Clone()
			if h == nil {
				h = http.Header{}
			}
			h.Set("X-Secret", "s3cret")
			h.Set("X-GitHub-Delivery", "s3cret")
			got := send(t, srv, method, "/", tt.body, h)

			if got.status != tt.status {
				t.Errorf("status %d, want %d", got.status, tt.status)
			}
			stored, envelopes := pub.take(t)
			if !reflect.DeepEqual(stored, tt.stored) {
				t.Errorf("stored %q, want %q", stored, tt.stored)
			}
			if tt.status == 202 {
				var id struct{ ID string }
				if err := json.Unmarshal([]byte(got.text), &id); err != nil || id.ID != envelopes[0].ID {
					t.Errorf("answer %q, want the id %q", got.text, envelopes[0].ID)
				}
				if e := envelopes[0]; e.Verification != tt.verify || e.SourceID != tt.o.Source || e.TenantID != tt.o.Tenant {
					t.Errorf("published %s, want verification %+v", dump(e), tt.verify)
				}
			} else if got.text != tt.answer {
				t.Errorf("answer %q, want %q", got.text, tt.answer)
			}
			contentType := "application/json"
			if tt.status == 200 {
				contentType = "text/plain; charset=utf-8"
			}
			want := map[string]string{"Content-Type": contentType, "X-Content-Type-Options": "nosniff", "Allow": "", "Retry-After": ""}
			switch tt.status {
			case 405:
				want["Allow"] = "POST"
			case 503:
				want["Retry-After"] = "2" // 1.5 s, rounded up
			}
			for name, value := range want {
				if got.header.Get(name) != value {
					t.Errorf("%s: %q, want %q", name, got.header.Get(name), value)
				}
			}
			srv.Close() // waits for the handler, and so for its log

			lines := strings.Count(logged.String(), "\n")
			if tt.logged == "" && lines != 0 || tt.logged != "" && lines != 1 || !strings.Contains(logged.String(), tt.logged) {
				t.Errorf("logged %q, want one line with %q", &logged, tt.logged)
			}
			for _, secret := range []string{"s3cret", "Hello", gitHubSum, gitHubSecret, slackSum, "3eZbrw1aB", "café"} {
				if strings.Contains(logged.String(), secret) {
					t.Errorf("logged %q, which shows %q", &logged, secret)
				}
			}
		})
	}
}

func TestReceiverRoute(t *testing.T) {
	pub := &store{}
	srv := serve(t, webhook.ReceiverConfig{
		Publisher: pub, MaxBytesInFlight: 64 << 20,
		Route: func(r *http.Request) (string, webhook.RequestOptions, error) {
			tenant, source, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
			o := webhook.RequestOptions{Source: source, Tenant: tenant, HashHeaders: []string{"X-Token"}, DedupeHeader: "X-Token"}
			switch source {
			case "unknown":
				return "", o, &webhook.Error{Code: webhook.CodeNotFound}
			case "outage":
				return "", o, errOutage
			case "error":
				return "", o, errVerdict
			case "no-topic":
				return "", o, nil
			case "huge":
				o.MaxBodyBytes = 32 << 20
			case "panic":
				panic("route")
			case "verified":
				o.Verify = webhook.GitHub(r.Header.Get("X-Token")) // before it is hashed
			}
			return "ankusa." + source, o, nil
		},
	})
	for _, tt := range []struct {
		path   string
		status int
		answer string
		stored []string
	}{
		{"/acme/stripe", 202, "", []string{"ankusa.stripe: Hello, World!"}},
		{"/acme/verified", 202, "", []string{"ankusa.verified: Hello, World!"}},
		{"/acme/unknown", 404, `{"error":"not_found"}`, nil},
		{"/acme/outage", 503, `{"error":"unavailable"}`, nil},
		{"/acme/error", 500, `{"error":"internal"}`, nil},
		{"/acme/no-topic", 500, `{"error":"invalid_options"}`, nil},
		{"/acme/huge", 500, `{"error":"invalid_options"}`, nil},
		{"/acme/", 500, `{"error":"invalid_options"}`, nil},
		{"/acme/panic", 500, `{"error":"internal"}`, nil},
	} {
		got := send(t, srv, http.MethodPost, tt.path, gitHubBody, with(gitHubHeader, "X-Token: "+gitHubSecret))
		stored, envelopes := pub.take(t)
		if got.status != tt.status || tt.answer != "" && got.text != tt.answer || !reflect.DeepEqual(stored, tt.stored) {
			t.Errorf("%s: %d %s, stored %q; want %d %s, %q", tt.path, got.status, got.text, stored, tt.status, tt.answer, tt.stored)
		}
		for _, e := range envelopes {
			// printf "It's a Secret to Everybody" | sha256sum
			if e.TenantID != "acme" || e.DedupeKey != "sha256:2f8894d90ffb75600928464c7839208284c8687671dc831cc2667a7ae04aa455" {
				t.Errorf("%s: published %s", tt.path, dump(e))
			}
		}
	}
}

// TestReceiverRecorder has a writer that cannot set deadlines.
func TestReceiverRecorder(t *testing.T) {
	pub := &store{}
	rcv, err := webhook.NewReceiver(webhook.ReceiverConfig{Publisher: pub, Topic: "hooks", Request: webhook.RequestOptions{Source: "s"}})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder() // which has no deadlines to set
	rcv.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("b")))
	if stored, _ := pub.take(t); w.Code != 202 || len(stored) != 1 {
		t.Errorf("%d, stored %q", w.Code, stored)
	}
}

func TestReceiverAborts(t *testing.T) {
	abort := func(http.Header, []byte) (string, error) { panic(http.ErrAbortHandler) }
	srv := serve(t, webhook.ReceiverConfig{Publisher: &store{}, Topic: "t", Request: webhook.RequestOptions{Source: "s", DedupeFunc: abort}})
	if got := post(srv.Client(), srv.URL, "b"); got.status != 0 {
		t.Errorf("%d: want the connection to be cut, as net/http says of ErrAbortHandler", got.status)
	}
}

func TestNewReceiverValidates(t *testing.T) {
	good := webhook.ReceiverConfig{Publisher: &store{}, Topic: "t", Request: webhook.RequestOptions{Source: "s"}}
	route := func(*http.Request) (string, webhook.RequestOptions, error) { return "", webhook.RequestOptions{}, nil }
	if _, err := webhook.NewReceiver(webhook.ReceiverConfig{Publisher: &store{}, Route: route}); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		change func(*webhook.ReceiverConfig)
		want   []string // no mistake when empty
	}{
		{func(*webhook.ReceiverConfig) {}, nil},
		{func(c *webhook.ReceiverConfig) { c.Request.MaxBodyBytes, c.MaxBytesInFlight = 10, 22 }, nil},
		{func(c *webhook.ReceiverConfig) { c.Request.MaxBodyBytes = 1 << 30 }, nil}, // the default goes along
		{func(c *webhook.ReceiverConfig) { *c = webhook.ReceiverConfig{} }, []string{"Publisher is nil", "Topic is empty", "Source is empty"}},
		{func(c *webhook.ReceiverConfig) { c.Request.Verify = webhook.GitHub("") }, []string{"empty secret"}},
		{func(c *webhook.ReceiverConfig) { c.Request.MaxBodyBytes, c.MaxBytesInFlight = 10, 21 }, []string{"MaxBytesInFlight 21"}},
		{func(c *webhook.ReceiverConfig) { c.Route = route }, []string{"Route is set beside"}},
		{
			func(c *webhook.ReceiverConfig) {
				c.MaxConcurrent, c.MaxBytesInFlight, c.BodyTimeout, c.PublishTimeout, c.RetryAfter = -1, -1, -1, -1, -1
			},
			[]string{"MaxConcurrent is neg", "MaxBytesInFlight is neg", "BodyTimeout is neg", "PublishTimeout is neg", "RetryAfter is neg"},
		},
	} {
		c := good
		tt.change(&c)
		rcv, err := webhook.NewReceiver(c)
		if (err == nil) != (len(tt.want) == 0) || (rcv == nil) != (err != nil) {
			t.Errorf("got %v, %v, want %q", rcv, err, tt.want)
		}
		for _, want := range tt.want {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%v: want all mistakes, %q among them", err, want)
			}
		}
	}
}

// TestReceiverContext checks what the context of a message has of that of the request.
func TestReceiverContext(t *testing.T) {
	type key struct{}
	var published context.Context
	pub := &store{publish: func(msg *message.Message) error { published = msg.Context(); return nil }}
	rcv, err := webhook.NewReceiver(webhook.ReceiverConfig{Publisher: pub, Topic: "t", Request: webhook.RequestOptions{Source: "s"}, PublishTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "v"))
	cancel() // the client has left
	w := httptest.NewRecorder()
	rcv.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("b")).WithContext(ctx))
	if w.Code != 202 {
		t.Errorf("%d, want the request published all the same", w.Code)
	}
	if published.Value(key{}) != "v" {
		t.Error("the values of the request's context are lost")
	}
	if _, ok := published.Deadline(); !ok {
		t.Error("the message's context has no deadline")
	}
}
