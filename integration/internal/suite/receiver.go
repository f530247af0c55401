package suite

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/webhook"
)

// ReceiverOutage sends requests, many at once, to a [webhook.Receiver] while its broker goes
// down and comes back. It checks that the broker has everything that was answered 202, that
// the rest was answered 503 with a Retry-After, and that requests are accepted again.
func ReceiverOutage(t *testing.T, b Broker, peer Peer, outage Outage) {
	ctx := Context(t)
	topic := topicName(t, "hooks")
	peer.Keep(t, topic)
	receiver, err := webhook.NewReceiver(webhook.ReceiverConfig{
		Publisher: b.Publisher(t), Topic: topic, MaxConcurrent: 64, PublishTimeout: 5 * time.Second,
		Request: webhook.RequestOptions{Source: "github", DedupeHeader: "X-GitHub-Delivery"},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)

	var mu sync.Mutex
	accepted := map[string]string{} // body by envelope ID
	post := func(body string) (status int) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0
		}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Error(err)
			return 0
		}
		var doc struct{ ID, Error string }
		if err := json.Unmarshal(answer, &doc); err != nil {
			t.Errorf("the answer %q is not JSON: %v", answer, err)
		}
		switch response.StatusCode {
		case http.StatusAccepted:
			mu.Lock()
			defer mu.Unlock()
			accepted[doc.ID] = body
		case http.StatusServiceUnavailable:
			if response.Header.Get("Retry-After") == "" || doc.Error == "" {
				t.Errorf("503 with Retry-After %q and code %q", response.Header.Get("Retry-After"), doc.Error)
			}
		default:
			t.Errorf("answered %s: %s", response.Status, answer)
		}
		return response.StatusCode
	}
	burst := func(name string, n int) (accepted int) {
		var wg sync.WaitGroup
		statuses := make([]int, n)
		for i := range n {
			wg.Go(func() { statuses[i] = post(fmt.Sprintf("%s %d \x00\xff", name, i)) })
		}
		wg.Wait()
		for _, s := range statuses {
			if s == http.StatusAccepted {
				accepted++
			}
		}
		return accepted
	}

	if post("before") != http.StatusAccepted {
		t.Fatal("a request was not accepted while the broker was up")
	}
	if err := outage.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := burst("down", Count(1000)); n != 0 {
		t.Errorf("%d requests were accepted while the broker was down", n)
	}
	if err := outage.Start(ctx); err != nil {
		t.Fatal(err)
	}
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for post("back") != http.StatusAccepted { // until the client of the broker has noticed
		select {
		case <-retry.C:
		case <-ctx.Done():
			t.Fatal("no request is accepted after the broker came back")
		}
	}
	burst("up", Count(1000))

	stored := peer.Watch(ctx, t, topic)
	found := map[string]string{}
	missing := func() int {
		n := 0
		for id, body := range accepted {
			if found[id] != body {
				n++
			}
		}
		return n
	}
	for missing() > 0 {
		e, err := envelope.ParseWire(stored(1)[0].Body)
		if err != nil {
			t.Fatal(err)
		}
		found[e.ID] = string(e.Body)
	}
}
