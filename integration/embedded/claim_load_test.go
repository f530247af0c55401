package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// captured is a publisher that keeps what it is given.
type captured struct{ messages []*message.Message }

func (c *captured) Publish(_ string, messages ...*message.Message) error {
	c.messages = append(c.messages, messages...)
	return nil
}

func (*captured) Close() error { return nil }

// Two hundred messages are redeemed at once from a store that takes four connections: whether
// the others wait in its queue or are refused, each handler gets its body.
func TestClaimCheckWithFewConnections(t *testing.T) {
	const messages, connections = 200, 4
	var open atomic.Int64
	var once sync.Once
	full := make(chan struct{})
	for name, c := range map[string]struct {
		options servers.Gofakes3Options
		fault   servers.Fault
	}{
		"the others wait": {options: servers.Gofakes3Options{Connections: connections}},
		"the others are refused": {fault: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			defer open.Add(-1)
			if open.Add(1) > connections {
				once.Do(func() { close(full) })
				servers.S3Error(http.StatusServiceUnavailable, "SlowDown")(w, r, next)
				return
			}
			<-full // the first four stay until one more has come
			next.ServeHTTP(w, r)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			store, server := s3Claims(t, c.options)
			cc, err := hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: store})
			if err != nil {
				t.Fatal(err)
			}
			var sent captured
			pub, err := cc.WrapPublisher(&sent, kafkawire.Marshaler{Source: "suite", Tenant: "acme"})
			if err != nil {
				t.Fatal(err)
			}
			bodies := map[string][]byte{}
			for i := range messages {
				msg := message.NewMessage(envelope.NewID(), bytes.Repeat([]byte{byte(i)}, 100_000))
				bodies[msg.UUID] = msg.Payload
				if err := pub.Publish("hooks", msg); err != nil {
					t.Fatal(err)
				}
			}
			server.Break(c.fault)
			var handled, refused atomic.Int64
			handler := cc.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				if !bytes.Equal(msg.Payload, bodies[msg.UUID]) {
					t.Errorf("%s was handled with %d other bytes", msg.UUID, len(msg.Payload))
				}
				handled.Add(1)
				return nil, nil
			})
			retry := wmmw.Retry{
				MaxRetries: 1000, InitialInterval: time.Millisecond, MaxInterval: 50 * time.Millisecond, Multiplier: 1.5,
				ShouldRetry: func(p wmmw.RetryParams) bool {
					refused.Add(1)
					if !envelope.IsTransient(p.Err) {
						t.Errorf("a store with no connection left: %v, want a transient error", p.Err)
					}
					return hookmw.ShouldRetry(p)
				},
			}
			redeem := retry.Middleware(handler)
			var all sync.WaitGroup
			for _, msg := range sent.messages {
				all.Go(func() {
					if _, err := redeem(msg); err != nil {
						t.Errorf("%s: %v", msg.UUID, err)
					}
				})
			}
			all.Wait()
			if handled.Load() != messages {
				t.Errorf("%d messages were handled, want %d", handled.Load(), messages)
			}
			if some := refused.Load() > 0; some != (c.fault != nil) {
				t.Errorf("%d attempts were refused", refused.Load())
			}
		})
	}
}

// A gateway that sends ten gigabytes is cut off at the limit, whether it says how many there
// will be or not.
func TestClientCutsAGatewayOff(t *testing.T) {
	const limit, all = 1 << 20, 10 << 30
	for name, announced := range map[string]bool{"announced": true, "in chunks": false} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			ended := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				defer close(ended)
				if announced {
					w.Header().Set("Content-Length", fmt.Sprint(int64(all)))
				}
				for block := make([]byte, 64<<10); sent.Load() < all; {
					n, err := w.Write(block)
					sent.Add(int64(n))
					if err != nil {
						return
					}
				}
			}))
			t.Cleanup(server.Close)
			client, err := claimcheck.NewClient(claimcheck.ClientConfig{BaseURL: server.URL, MaxBodyBytes: limit})
			if err != nil {
				t.Fatal(err)
			}
			const ref = "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002"
			const digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
			body, err := client.Redeem(t.Context(), ref, digest, -1)
			if !errors.Is(err, claimcheck.ErrTooLarge) || !envelope.IsPermanent(err) || body != nil {
				t.Errorf("got %d bytes, %v; want a permanent ErrTooLarge", len(body), err)
			}
			select {
			case <-ended:
			case <-suite.Context(t).Done():
				t.Fatal("the connection was not closed")
			}
			if n := sent.Load(); n > 64*limit {
				t.Errorf("%d bytes were sent before the connection was closed", n)
			}
		})
	}
}
