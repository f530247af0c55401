package matrix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// TestMatrix prints the table and fails when any pair is not ok.
func TestMatrix(t *testing.T) {
	begin := time.Now()
	table := run(t, ends(t))
	fmt.Fprintf(os.Stdout, "\n%s\n", table)
	t.Logf("%d pairs with %d messages each in %.1f s", len(table.names)*len(table.names), table.messages, time.Since(begin).Seconds())
	if !table.ok() {
		t.Errorf("not every pair is ok:\n%s", table)
	}
}

// quiet is how long nothing may arrive before the rest counts as lost.
const quiet = 30 * time.Second

// publishers bounds how many ends are published on at the same time.
const publishers = 4

// run sends all messages through all pairs.
func run(t testing.TB, ends []end) *table {
	t.Helper()
	begin := time.Now()
	chain, stored := newChain(t)
	names, sent := make([]string, len(ends)), make([][]hook, len(ends))
	pubs := make([]message.Publisher, len(ends))
	for i, e := range ends {
		names[i], sent[i] = e.name, hooks(t, i, stored)
		pub, err := chain.WrapPublisher(e.publisher(t), e.sealer)
		if err != nil {
			t.Fatal(err)
		}
		pubs[i] = pub
	}
	m := newTable(names, len(sent[0]))
	origins := origins(sent)
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: quiet}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(chain.Middleware)
	for i, e := range ends {
		sub := e.subscriber(t)
		router.AddConsumerHandler(e.name+" in", e.topic(t, sub, "in"), sub, func(msg *message.Message) error {
			o, ok := origins[msg.UUID]
			if !ok || o.end != i {
				m.stray(i, fmt.Sprintf("a message with the id %.60q went in", msg.UUID))
				return nil
			}
			for to, next := range ends {
				// A copy, since a publisher may write into what it publishes.
				if err := pubs[to].Publish(next.address("out"), msg.CopyWithContext()); err != nil {
					m.arrived(pair{i, to}, o.hook.name, []string{"not published: " + err.Error()})
				}
			}
			return nil
		})
		router.AddConsumerHandler(e.name+" out", e.topic(t, sub, "out"), sub, func(msg *message.Message) error {
			o, ok := origins[msg.UUID]
			if !ok {
				m.stray(i, fmt.Sprintf("a message with the id %.60q arrived", msg.UUID))
				return nil
			}
			m.arrived(pair{o.end, i}, o.hook.name, o.hook.check(msg, begin))
			return nil
		})
	}
	start(t, router)
	publish(m, ends, pubs, sent)
	m.wait(t.Context())
	return m
}

// check returns what differs in a message that arrived.
func (h hook) check(msg *message.Message, begin time.Time) []string {
	got, err := envelope.FromMessage(msg)
	if err != nil {
		return []string{err.Error()}
	}
	return differences(h.want(got, begin), got)
}

// newChain is the chain of both sides, and a claim in its store.
func newChain(t testing.TB) (*hookmw.Chain, claim) {
	t.Helper()
	store, err := filestore.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	checker, err := claimcheck.New(claimcheck.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	body := []byte("a body that is stored already")
	stored := checker.CheckIn(suite.Context(t), []claimcheck.Body{{Tenant: "acme", Data: body}})[0]
	check, err := hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: store})
	if err = errors.Join(stored.Err, err); err != nil {
		t.Fatal(err)
	}
	chain, err := hookmw.NewChain(hookmw.ChainConfig{ClaimCheck: check})
	if err != nil {
		t.Fatal(err)
	}
	return chain, claim{stored.Ref.String(), body}
}

// An origin is where a message with some id went in, and what it was.
type origin struct {
	end  int
	hook hook
}

func origins(sent [][]hook) map[string]origin {
	all := map[string]origin{}
	for i, hooks := range sent {
		for _, h := range hooks {
			all[h.sent.ID] = origin{i, h}
		}
	}
	return all
}

// address is what publishers call a topic.
func (e end) address(topic string) string {
	name := "matrix-" + e.name + "-" + topic
	if e.target != nil {
		return e.target(name)
	}
	return name
}

// topic makes a topic, and returns what subscribers call it.
func (e end) topic(t testing.TB, sub message.Subscriber, topic string) string {
	t.Helper()
	name := "matrix-" + e.name + "-" + topic
	if e.create != nil {
		e.create(t, name)
	}
	if s, ok := sub.(message.SubscribeInitializer); ok {
		if err := s.SubscribeInitialize(name); err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
	}
	return name
}

// start runs the router until the test ends. Every handler is subscribed when it returns.
func start(t testing.TB, router *message.Router) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.WithoutCancel(t.Context())) }()
	select {
	case <-router.Running():
	case err := <-ended:
		t.Fatal("the router does not run:", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(router.Close(), <-ended); err != nil {
			t.Error(err)
		}
	})
}

// publish publishes every end's messages on it. One that is not published is lost to all pairs.
func publish(m *table, ends []end, pubs []message.Publisher, sent [][]hook) {
	room := make(chan struct{}, publishers)
	for i, e := range ends {
		go func() {
			room <- struct{}{}
			defer func() { <-room }()
			for _, h := range sent[i] {
				if err := pubs[i].Publish(e.address("in"), h.message()); err != nil {
					for to := range ends {
						m.arrived(pair{i, to}, h.name, []string{"not published at all: " + err.Error()})
					}
				}
			}
		}()
	}
}

// wait returns when everything arrived, or nothing more does.
func (m *table) wait(ctx context.Context) {
	for !m.complete() {
		select {
		case <-m.change:
		case <-time.After(quiet):
			return
		case <-ctx.Done():
			return
		}
	}
}
