package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/webhook"
)

// A request of GitHub, published and consumed.
func Example() {
	pubsub := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
	defer pubsub.Close()

	rcv, err := webhook.NewReceiver(webhook.ReceiverConfig{
		Publisher: pubsub,
		Topic:     "hooks",
		Request: webhook.RequestOptions{
			Source:       "github",
			Tenant:       "acme",
			Verify:       webhook.GitHub("It's a Secret to Everybody"),
			DedupeHeader: "X-GitHub-Delivery",
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/hooks/github", rcv)
	srv := httptest.NewServer(mux)
	defer srv.Close()

	for _, body := range []string{"Hello, World!", "Hello, Mallory!"} {
		r, _ := http.NewRequest(http.MethodPost, srv.URL+"/hooks/github", strings.NewReader(body))
		r.Header.Set("X-GitHub-Event", "push")
		r.Header.Set("X-GitHub-Delivery", "72d3162e")
		r.Header.Set("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusAccepted {
			answer = []byte("the envelope's id") // another one each time
		}
		fmt.Printf("%d %s\n", resp.StatusCode, answer)
	}

	messages, err := pubsub.Subscribe(context.Background(), "hooks")
	if err != nil {
		fmt.Println(err)
		return
	}
	msg := <-messages
	msg.Ack()
	e, err := envelope.FromMessage(msg)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(msg.Payload), e.Verification.Trusted(), e.DeduplicationKey())
	// Output:
	// 202 the envelope's id
	// 401 {"error":"no_matching_signature"}
	// Hello, World! true acme:github:72d3162e
}

// A handler of one's own, for what a Receiver does not do.
func ExampleFromRequest() {
	handler := func(w http.ResponseWriter, r *http.Request) {
		e, err := webhook.FromRequest(r, webhook.RequestOptions{
			Source:      "shop",
			HashHeaders: []string{"X-Token"},
			DedupeFunc: func(_ http.Header, body []byte) (string, error) {
				var event struct{ ID string }
				return event.ID, json.Unmarshal(body, &event)
			},
		})
		if err != nil {
			http.Error(w, err.Error(), webhook.StatusCode(err))
			return
		}
		fmt.Printf("%s\n%s\n", e.Body, e.DedupeKey)
		for _, h := range e.Headers {
			fmt.Println(h.Name+":", h.Value)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"id": "evt_1"}`))
	r.Header.Set("X-Token", "hello")
	r.Header.Set("X-Topic", "orders/create")
	r.Header.Set("Authorization", "Bearer not for consumers")
	handler(httptest.NewRecorder(), r)
	// Output:
	// {"id": "evt_1"}
	// evt_1
	// x-token: sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
	// x-topic: orders/create
}
