package suite

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/gateway"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// A consumer that has no access to the store redeems through a gateway. When the gateway does
// not do its work the message waits, and when it refuses, or gives other bytes than the
// message's, the message goes to the poison topic: its claim is there, and the reason.
func claimGateway(t *testing.T, s ClaimServers) {
	ctx := Context(t)
	topic, poisonTopic := topicName(t, "hooks"), topicName(t, "poison")
	store := s.Store(t)
	serves, err := gateway.New(gateway.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	var now atomic.Pointer[http.Handler] // what answers
	answer := func(h http.Handler) { now.Store(&h) }
	answer(serves)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*now.Load()).ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	client, err := claimcheck.NewClient(claimcheck.ClientConfig{
		BaseURL: server.URL, Header: http.Header{"Authorization": {"Bearer secret-of-the-test"}},
		Timeout: time.Second, // for the one that hangs
	})
	if err != nil {
		t.Fatal(err)
	}
	var book LogBook
	plain := s.Broker.Publisher(t)
	pub, err := claimCheck(t, hookmw.ClaimCheckConfig{Store: store}).WrapPublisher(plain, s.Broker.Sealer)
	if err != nil {
		t.Fatal(err)
	}
	watch, poisoned := s.Peer.Watch(ctx, t, topic), s.Peer.Watch(ctx, t, poisonTopic)
	l, failed := newLedger(), make(chan failure, 1024)
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Gateway: client, Logger: book.Logger()})
	stack := slices.Insert(hookStack(t, cc, plain, poisonTopic), 2, tells(failed)) // of each attempt
	consumer(ctx, t, s.Broker, "behind", topic, l.handler("behind"), stack...)

	var good []*message.Message
	for _, fault := range []struct {
		name   string
		answer http.HandlerFunc
		reason claimcheck.Code // of the poisoned message; empty: it waits
	}{
		{name: "hangs", answer: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{name: "redirects", answer: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the redirect was followed")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}},
		{name: "is overloaded", answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, `{"error":"overloaded"}`, http.StatusServiceUnavailable)
		}},
		{name: "cuts the connection", answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(make([]byte, 500))
			panic(http.ErrAbortHandler)
		}},
		{name: "answers 200 with an error page", reason: claimcheck.CodeIntegrity, answer: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<html>the service is not available</html>")
		}},
		{name: "refuses the token", reason: claimcheck.CodeRejected, answer: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"forbidden_tenant"}`, http.StatusForbidden)
		}},
		{name: "has lost the body", reason: claimcheck.CodeNotFound, answer: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"not_found"}`, http.StatusNotFound)
		}},
		{name: "sends without an end", reason: claimcheck.CodeIntegrity, answer: func(w http.ResponseWriter, _ *http.Request) {
			for block := make([]byte, 64<<10); ; { // until the reader has had enough
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}},
	} {
		answer(fault.answer)
		msg := hook(3 << 20)
		publish(t, pub, topic, msg)
		claim := claimsOf(t, watch(1))[msg.UUID].Claim
		if fault.reason == "" {
			select {
			case f := <-failed:
				if !envelope.IsTransient(f.err) {
					t.Errorf("a gateway that %s: %v, want a transient error", fault.name, f.err)
				}
			case <-ctx.Done():
				t.Fatalf("a gateway that %s: no failure: %v", fault.name, ctx.Err())
			}
			answer(serves)
			good = append(good, msg)
			l.gets(ctx, t, "after a gateway that "+fault.name, bodiesOf(good...))
			for len(failed) > 0 { // of this fault
				<-failed
			}
		} else {
			raw := poisoned(1)[0]
			e := claimsOf(t, []Raw{raw})[msg.UUID]
			if e == nil || e.Claim != claim {
				t.Fatalf("a gateway that %s: the poison topic has %.300q", fault.name, raw.Body)
			}
			if reason, _ := raw.Header(wmmw.ReasonForPoisonedKey); !strings.Contains(reason, string(fault.reason)) {
				t.Errorf("a gateway that %s: the reason is %q, want %s", fault.name, reason, fault.reason)
			}
		}
		if log := book.String(); !strings.Contains(log, msg.UUID) || !strings.Contains(log, claim) {
			t.Errorf("a gateway that %s: the log does not name %s and %s:\n%s", fault.name, msg.UUID, claim, log)
		}
	}
	if log := book.String(); strings.Contains(log, "secret-of-the-test") || strings.Contains(log, "not available</html>") {
		t.Errorf("the log shows a credential or a body:\n%s", log)
	}
}
