package suite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/claimcheck/s3store"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// A ClaimStore is where the claims of one test lie, empty when the test begins.
type ClaimStore struct {
	claimcheck.PrunableStore
	// Outage stops and starts its server.
	Outage Outage
}

// S3Claims is a store of claims on an S3 server, which outage stops and starts.
func S3Claims(t testing.TB, client s3store.Client, bucket string, outage Outage) ClaimStore {
	t.Helper()
	store, err := s3store.New(s3store.Config{Client: client, Bucket: bucket})
	if err != nil {
		t.Fatal(err)
	}
	return ClaimStore{store, outage}
}

// FileClaims is a store of claims in a folder of the test's own. Its outage is that of a file
// system: what is in the folder goes away, and comes back.
func FileClaims(t testing.TB) ClaimStore {
	t.Helper()
	dir := t.TempDir()
	store, err := filestore.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return ClaimStore{store, folder(dir)}
}

// A folder is that of a file store.
type folder string

func (f folder) move(from, to string) error {
	return os.Rename(filepath.Join(string(f), from), filepath.Join(string(f), to))
}

func (f folder) Stop() error                 { return f.move("claims", "away") }
func (f folder) Start(context.Context) error { return f.move("away", "claims") }

// ClaimServers are what the flows of the claim check run on.
type ClaimServers struct {
	Broker Broker
	Peer   Peer // of the same server
	// Next is another broker, which hooks are passed on to.
	Next     Broker
	NextPeer Peer
	// Store returns a new store that is closed with the test.
	Store func(t testing.TB) ClaimStore
}

// ClaimCheck runs the flows of the claim check: bodies of any size go through the broker,
// and nothing is lost when a store, a broker or an object fails.
func ClaimCheck(t *testing.T, s ClaimServers) {
	for _, f := range []struct {
		name string
		run  func(*testing.T, ClaimServers)
	}{
		{"two groups both get every body", claimTwoGroups},
		{"the poison topic holds the claim", claimPoison},
		{"passed on to another broker", claimBridge},
		{"a store that is down", claimOutage},
		{"objects that are damaged", claimDamage},
		{"the broker refuses after the put", claimRefused},
		{"the answer of a put is lost", claimLostAnswer},
		{"redeemed through a gateway", claimGateway},
		{"a consumer without a claim check", claimNotEnabled},
	} {
		t.Run(f.name, func(t *testing.T) { f.run(t, s) })
	}
}

// keys returns the keys of the store's objects, sorted.
func (s ClaimStore) keys(ctx context.Context, t testing.TB) []string {
	t.Helper()
	var keys []string
	for key, err := range s.List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// holds checks how many objects lie in the store.
func (s ClaimStore) holds(ctx context.Context, t testing.TB, n int, why string) {
	t.Helper()
	if keys := s.keys(ctx, t); len(keys) != n {
		t.Errorf("the store holds %d objects, want %d (%s)", len(keys), n, why)
	}
}

// claimCheck makes the middleware of the tests.
func claimCheck(t testing.TB, c hookmw.ClaimCheckConfig) *hookmw.ClaimCheck {
	t.Helper()
	cc, err := hookmw.NewClaimCheck(c)
	if err != nil {
		t.Fatal(err)
	}
	return cc
}

// checkedIn returns a publisher on the broker that checks bodies in.
func checkedIn(t testing.TB, b Broker, cc *hookmw.ClaimCheck) message.Publisher {
	t.Helper()
	pub, err := cc.WrapPublisher(b.Publisher(t), b.Sealer)
	if err != nil {
		t.Fatal(err)
	}
	return pub
}

// hookStack is the stack that the documentation shows, around a handler of hooks whose
// bodies may be claims.
func hookStack(t testing.TB, cc *hookmw.ClaimCheck, poison message.Publisher, poisonTopic string) []message.HandlerMiddleware {
	t.Helper()
	queue, err := wmmw.PoisonQueueWithFilter(poison, poisonTopic, hookmw.ShouldPoison)
	if err != nil {
		t.Fatal(err)
	}
	return []message.HandlerMiddleware{
		queue,
		wmmw.Retry{MaxRetries: ownRetries, InitialInterval: 10 * time.Millisecond, ShouldRetry: hookmw.ShouldRetry}.Middleware,
		cc.Middleware,
		hookmw.Malformed{}.Middleware,
	}
}

// hook is a message with a body of n bytes of its own, with all that an envelope has: nothing
// of it has to change when it is published.
func hook(n int) *message.Message {
	id := envelope.NewID()
	return (&envelope.Envelope{
		ID: id, SourceID: "suite", TenantID: "acme", ReceivedAt: time.Now(), Body: bodyOf(id, n),
		Verification: envelope.Verification{Status: envelope.VerificationSkipped},
	}).Message()
}

// bodyOf is n bytes that only the message with the id has.
func bodyOf(id string, n int) []byte {
	body := make([]byte, n)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte(id))).Read(body) // never fails
	return body
}

// bodiesOf is what handlers must get of the messages, for a ledger to be compared with.
func bodiesOf(msgs ...*message.Message) map[string]string {
	bodies := map[string]string{}
	for _, msg := range msgs {
		bodies[msg.UUID] = string(msg.Payload)
	}
	return bodies
}

// gets waits until everything of want was handled, and checks the bodies.
func (l *ledger) gets(ctx context.Context, t testing.TB, what string, want map[string]string) {
	t.Helper()
	l.until(ctx, t, what, func(handled int, _ map[string]int) bool { return handled >= len(want) })
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		t.Errorf("%s: %v", what, l.failed)
	}
	for id, body := range want {
		if got, ok := l.bodies[id]; !ok || got != body {
			t.Errorf("%s: message %s was handled (%t) with %d bytes, want its own %d", what, id, ok, len(got), len(body))
		}
	}
	if len(l.bodies) != len(want) {
		t.Errorf("%s: %d messages were handled, want %d", what, len(l.bodies), len(want))
	}
}

// claimsOf reads the envelopes of n messages on the wire, by their ids.
func claimsOf(t testing.TB, raws []Raw) map[string]*envelope.Envelope {
	t.Helper()
	found := map[string]*envelope.Envelope{}
	for _, raw := range raws {
		e, err := envelope.ParseWire(raw.Body)
		if err != nil {
			t.Fatalf("%v in %.200q", err, raw.Body)
		}
		found[e.ID] = e
	}
	return found
}

// publish sends the messages in one call.
func publish(t testing.TB, pub message.Publisher, topic string, msgs ...*message.Message) {
	t.Helper()
	if err := pub.Publish(topic, msgs...); err != nil {
		t.Fatal(err)
	}
}

func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// object returns all bytes of an object.
func (s ClaimStore) object(ctx context.Context, t testing.TB, key string) []byte {
	t.Helper()
	r, err := s.Get(ctx, key, 0, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	object, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// replace puts other bytes under a key that is taken, as no program of ours does.
func (s ClaimStore) replace(ctx context.Context, t testing.TB, key string, object []byte) {
	t.Helper()
	if err := s.Delete(ctx, key); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ctx, key, io.NewSectionReader(bytes.NewReader(object), 0, int64(len(object)))); err != nil {
		t.Fatal(err)
	}
}

// passOn runs a router whose handler's messages go to another topic.
func passOn(ctx context.Context, t testing.TB, from Broker, topic string, to message.Publisher, toTopic string, handler message.HandlerFunc, middlewares ...message.HandlerMiddleware) {
	t.Helper()
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: Timeout}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(middlewares...)
	router.AddHandler("bridge", topic, initialized(t, from.NewSubscriber(t, "bridge"), topic), toTopic, to, handler)
	start(ctx, t, router)
}
