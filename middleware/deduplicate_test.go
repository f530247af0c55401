package middleware_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/inbox"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

const dedupeID = "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10" // the UUID of what open returns

func TestDeduplicationKey(t *testing.T) {
	const (
		id          = envelope.MetadataID
		tenant      = envelope.MetadataTenantID
		source      = envelope.MetadataSourceID
		dedupe      = envelope.MetadataDedupeKey
		idempotency = envelope.MetadataIdempotencyKey
		replay      = envelope.MetadataReplayID
	)
	const sealed = `{"v":1,"id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","source_id":"shop","tenant_id":"acme","dedupe_key":"order-7",` +
		`"received_at":1,"size":2,"body_base64":"e30="}`
	tests := []struct {
		rule  string
		msg   *message.Message
		key   string // under the scope "", of DeduplicationKey
		again string // with IncludeReplay and the scope "s"
		code  envelope.Code
	}{
		{"an envelope without a dedupe key", open("{}", id, dedupeID, source, "shop"), ":" + dedupeID, "s:" + dedupeID, ""},
		{"a dedupe key", open("{}", id, dedupeID, source, "shop", tenant, "acme", dedupe, "order-7"), ":acme:shop:order-7", "s:acme:shop:order-7", ""},
		{"a dedupe key without a tenant", open("{}", id, dedupeID, source, "shop", dedupe, "order-7"), ":default:shop:order-7", "s:default:shop:order-7", ""},
		{"a shipped key wins", open("{}", id, dedupeID, source, "shop", dedupe, "order-7", idempotency, "k"), ":k", "s:k", ""},
		{"a replay", open("{}", id, dedupeID, source, "shop", replay, "r1"), ":" + dedupeID, "s:" + dedupeID + "#replay:r1", ""},
		{"no envelope", open("{}"), ":" + dedupeID, "s:" + dedupeID, ""},
		{"no envelope, whatever its metadata", open("{}", idempotency, "k", dedupe, "d", replay, "r"), ":" + dedupeID, "s:" + dedupeID, ""},
		{"derived: the keys are its cause's", open("{}", id, "cause", idempotency, "k", dedupe, "d", replay, "r"), ":" + dedupeID, "s:" + dedupeID, ""},
		{"a claim that is not redeemed", open("", id, dedupeID, envelope.MetadataClaim, claimRef), ":" + dedupeID, "s:" + dedupeID, ""},
		{"still sealed", open(sealed, envelope.MetadataVersion, "1", id, "other"), ":acme:shop:order-7", "s:acme:shop:order-7", ""},
		{"sealed, and malformed", open("{", envelope.MetadataVersion, "1"), "", "", envelope.CodeInvalidJSON},
		{"malformed", open("", id, dedupeID, envelope.MetadataMalformed, "invalid_field:size"), "", "", envelope.CodeInvalidField},
		{"malformed, with a key that is not to be believed", open("", envelope.MetadataMalformed, "integrity", idempotency, "k"), "", "", envelope.CodeIntegrity},
		{"no UUID", message.NewMessage("", nil), "", "", envelope.CodeInvalidField},
	}
	for _, test := range tests {
		t.Run(strings.ReplaceAll(test.rule, " ", "-"), func(t *testing.T) {
			key, err := hookmw.DeduplicationKey(test.msg)
			wantCode(t, err, test.code)
			if key != test.key {
				t.Errorf("key %q, want %q", key, test.key)
			}
			s := &recordingSeen{}
			d := deduplicate(t, hookmw.DeduplicateConfig{Seen: s, Scope: "s", IncludeReplay: true})
			_, err = d.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil })(test.msg)
			wantCode(t, err, test.code)
			if got := strings.Join(s.keys, " "); got != test.again {
				t.Errorf("key %q, want %q", got, test.again)
			}
		})
	}
}

func wantCode(t *testing.T, err error, code envelope.Code) {
	t.Helper()
	var e *envelope.Error
	switch {
	case code == "" && err != nil:
		t.Errorf("error %v", err)
	case code != "" && (!errors.As(err, &e) || e.Code != code || !envelope.IsPermanent(err)):
		t.Errorf("error %v, want the permanent %s", err, code)
	}
}

// A recordingSeen is a Seen that calls every fn, and one that fails before it does when err is set.
type recordingSeen struct {
	keys []string
	err  error
}

type recordingSeenKey struct{}

func (r *recordingSeen) Once(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
	r.keys = append(r.keys, key)
	if r.err != nil {
		return false, r.err
	}
	err := fn(context.WithValue(ctx, recordingSeenKey{}, "in the transaction"))
	return err == nil, err
}

func deduplicate(t *testing.T, c hookmw.DeduplicateConfig) *hookmw.Deduplicate {
	t.Helper()
	if c.Seen == nil {
		m, err := inbox.NewMemory(inbox.MemoryConfig{})
		if err != nil {
			t.Fatal(err)
		}
		c.Seen = m
	}
	d, err := hookmw.NewDeduplicate(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

type drops []string

func (d *drops) DuplicateDropped(topic string) { *d = append(*d, topic) }

func TestDeduplicate(t *testing.T) {
	var dropped drops
	d := deduplicate(t, hookmw.DeduplicateConfig{Observer: &dropped})
	fail := errors.New("no stock")
	var err error
	calls := 0
	h := d.Middleware(func(*message.Message) ([]*message.Message, error) {
		calls++
		return []*message.Message{open("out")}, err
	})
	for i, step := range []struct {
		rule     string
		err      error
		calls    int
		produced int
		dropped  int
	}{
		{"a handler that fails", fail, 1, 0, 0},
		{"leaves no key", fail, 2, 0, 0},
		{"the one that succeeds", nil, 3, 1, 0},
		{"is the last: a duplicate produces nothing", nil, 3, 0, 1},
		{"however often it comes", nil, 3, 0, 2},
	} {
		err = step.err
		out, got := h(open("{}"))
		if !errors.Is(got, step.err) || calls != step.calls || len(out) != step.produced || len(dropped) != step.dropped {
			t.Errorf("%d, %s: %d calls, %d messages, %d dropped, error %v", i, step.rule, calls, len(out), len(dropped), got)
		}
	}
}

func TestDeduplicatePanics(t *testing.T) {
	d := deduplicate(t, hookmw.DeduplicateConfig{})
	msg := open("{}")
	ctx := t.Context()
	msg.SetContext(ctx)
	_, err := wmmw.Recoverer(d.Middleware(func(*message.Message) ([]*message.Message, error) { panic("boom") }))(msg)
	if err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("error %v", err)
	}
	if msg.Context() != ctx {
		t.Error("the message keeps the context that its handler had")
	}
	calls := 0
	if _, err := d.Middleware(func(*message.Message) ([]*message.Message, error) {
		calls++
		return nil, nil
	})(msg); err != nil || calls != 1 {
		t.Errorf("%d calls after the panic, error %v", calls, err)
	}
}

// The handler has the context of the Seen, with its transaction, and nobody else has.
func TestDeduplicateContext(t *testing.T) {
	d := deduplicate(t, hookmw.DeduplicateConfig{Seen: &recordingSeen{}})
	msg := open("{}")
	ctx := t.Context()
	msg.SetContext(ctx)
	_, err := d.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		if msg.Context().Value(recordingSeenKey{}) == nil {
			t.Error("the handler has not the context of the Seen")
		}
		return nil, nil
	})(msg)
	if err != nil || msg.Context() != ctx {
		t.Errorf("error %v, or the message keeps the context that its handler had", err)
	}
}

func TestDeduplicateSeenIsDown(t *testing.T) {
	down := &inbox.Error{Code: inbox.CodeUnavailable, Err: errors.New("connection refused")}
	d := deduplicate(t, hookmw.DeduplicateConfig{Seen: &recordingSeen{err: down}})
	_, err := d.Middleware(func(*message.Message) ([]*message.Message, error) {
		t.Error("the handler was called")
		return nil, nil
	})(open("{}"))
	if !errors.Is(err, inbox.ErrUnavailable) || !envelope.IsTransient(err) || hookmw.ShouldPoison(err) {
		t.Errorf("error %v, which is not transient or goes to the poison topic", err)
	}
}

func TestDeduplicateConfig(t *testing.T) {
	if _, err := hookmw.NewDeduplicate(hookmw.DeduplicateConfig{}); err == nil || err.Error() != "deduplicate: no Seen" {
		t.Errorf("error %v", err)
	}
}

// runRouter delivers every message to every middleware's own handler, named h0, h1 ..., until
// all are acknowledged, and returns the names of the handlers that were called.
func runRouter(t *testing.T, msgs []*message.Message, middlewares ...message.HandlerMiddleware) []string {
	t.Helper()
	pubSub := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: time.Minute}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	var (
		mu    sync.Mutex
		calls []string
	)
	for i, mw := range middlewares {
		router.AddConsumerHandler("h"+string(rune('0'+i)), "hooks", pubSub, func(msg *message.Message) error {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, message.HandlerNameFromCtx(msg.Context()))
			return nil
		}).AddMiddleware(mw)
	}
	done := make(chan error)
	go func() { done <- router.Run(t.Context()) }()
	<-router.Running()
	for _, msg := range msgs {
		if err := pubSub.Publish("hooks", msg); err != nil {
			t.Error(err)
		}
	}
	if err := router.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	slices.Sort(calls)
	return calls
}

func TestDeduplicateHandlers(t *testing.T) {
	twice := []*message.Message{open("{}"), open("{}")}
	var dropped drops
	var mu sync.Mutex
	count := observerFunc(func(topic string) {
		mu.Lock()
		defer mu.Unlock()
		dropped = append(dropped, topic)
	})
	each := deduplicate(t, hookmw.DeduplicateConfig{Observer: count})
	if got := runRouter(t, twice, each.Middleware, each.Middleware); !slices.Equal(got, []string{"h0", "h1"}) {
		t.Errorf("two handlers of one Seen: %v were called", got)
	}
	if !slices.Equal(dropped, []string{"hooks", "hooks"}) {
		t.Errorf("dropped: %v", dropped)
	}
	scoped := deduplicate(t, hookmw.DeduplicateConfig{Scope: "one"})
	if got := runRouter(t, twice, scoped.Middleware, scoped.Middleware); len(got) != 1 {
		t.Errorf("two handlers of one scope: %v were called", got)
	}
}

type observerFunc func(topic string)

func (f observerFunc) DuplicateDropped(topic string) { f(topic) }

// Watermill's own Deduplicator, with our key: two bodies are one event, and one body is two.
func TestDeduplicationKeyInWatermillsDeduplicator(t *testing.T) {
	repository, err := wmmw.NewMapExpiringKeyRepository(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	theirs := wmmw.Deduplicator{KeyFactory: hookmw.DeduplicationKey, Repository: repository, Timeout: time.Minute}
	with := func(id, key, payload string) *message.Message {
		msg := message.NewMessage(id, []byte(payload))
		msg.Metadata[envelope.MetadataID], msg.Metadata[envelope.MetadataIdempotencyKey] = id, key
		return msg
	}
	msgs := []*message.Message{with("1", "a", "x"), with("2", "a", "y"), with("3", "b", "x")}
	got := runRouter(t, msgs, theirs.Middleware, theirs.Middleware)
	if !slices.Equal(got, []string{"h0", "h0", "h1", "h1"}) {
		t.Errorf("%v were called", got)
	}
}

// Two at once of one key, with the Memory: one handles it, the other waits and drops it.
func TestDeduplicateBeside(t *testing.T) {
	d := deduplicate(t, hookmw.DeduplicateConfig{})
	var mu sync.Mutex
	calls := 0
	h := d.Middleware(func(*message.Message) ([]*message.Message, error) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		return []*message.Message{open("out")}, nil
	})
	var wg sync.WaitGroup
	var produced int
	for range 16 {
		wg.Go(func() {
			out, err := h(open("{}"))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			produced += len(out)
		})
	}
	wg.Wait()
	if calls != 1 || produced != 1 {
		t.Errorf("%d calls and %d messages, want 1 of each", calls, produced)
	}
}
