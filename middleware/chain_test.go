package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel/attribute"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func newChain(t testing.TB, c hookmw.ChainConfig) *hookmw.Chain {
	t.Helper()
	chain, err := hookmw.NewChain(c)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

func chained(t testing.TB, chain *hookmw.Chain, pub message.Publisher, sealer marshaler.Sealer) message.Publisher {
	t.Helper()
	wrapped, err := chain.WrapPublisher(pub, sealer)
	if err != nil {
		t.Fatal(err)
	}
	return wrapped
}

// The gate lets claims through where, and only where, the chain redeems them.
func TestChainGate(t *testing.T) {
	s := &store{}
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s})
	b := &broker{}
	large := text(70_000)
	if err := chained(t, newChain(t, hookmw.ChainConfig{ClaimCheck: cc}), b, nil).Publish("hooks", hook(large)); err != nil {
		t.Fatal(err)
	}
	lazy := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Lazy: true})
	tests := []struct {
		rule  string
		chain hookmw.ChainConfig
		msg   *message.Message
		code  string // "": the handler is called
		body  []byte
	}{
		{"a claim behind a claim check", hookmw.ChainConfig{ClaimCheck: cc}, b.receive(t, 0), "", large},
		{"a claim behind a lazy one", hookmw.ChainConfig{ClaimCheck: lazy}, b.receive(t, 0), "", nil},
		{"a claim without one", hookmw.ChainConfig{}, b.receive(t, 0), "claim_not_enabled", nil},
		{
			"a claim without one that is to be passed on",
			hookmw.ChainConfig{Malformed: hookmw.Malformed{PassClaims: true}},
			b.receive(t, 0), "", nil,
		},
		{
			"a malformed message that pretends to be a claim",
			hookmw.ChainConfig{ClaimCheck: cc},
			open("", envelope.MetadataMalformed, "integrity", envelope.MetadataClaim, claimRef), "integrity", nil,
		},
		{"an inline body", hookmw.ChainConfig{ClaimCheck: cc}, hook(text(5)), "", text(5)},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			called := false
			before := maps.Clone(tt.msg.Metadata)
			_, err := newChain(t, tt.chain).Middleware(func(msg *message.Message) ([]*message.Message, error) {
				called = true
				if !slices.Equal(msg.Payload, tt.body) {
					t.Errorf("the handler got %d bytes, want %d", len(msg.Payload), len(tt.body))
				}
				return nil, nil
			})(tt.msg)
			var e *envelope.Error
			if errors.As(err, &e) != (tt.code != "") || e != nil && string(e.Code) != tt.code {
				t.Errorf("error %v, want code %q", err, tt.code)
			}
			if called != (tt.code == "") {
				t.Errorf("handler called: %v", called)
			}
			if !called && !maps.Equal(tt.msg.Metadata, before) {
				t.Error("a message that was refused was changed")
			}
		})
	}
}

// What a handler makes has the tenant and the region of what it was made of, and nothing else
// of it, whichever way it is published.
func TestChainGivesTheCause(t *testing.T) {
	const (
		tenant = envelope.MetadataTenantID
		region = envelope.MetadataRegion
	)
	tests := []struct {
		rule string
		made *message.Message
		want message.Metadata // what of ours it has when it is published
	}{
		{"a new message", open("new"), message.Metadata{tenant: "acme", region: "eu"}},
		{"one without metadata", &message.Message{UUID: "u"}, message.Metadata{tenant: "acme", region: "eu"}},
		{"one with another tenant", open("new", tenant, "globex"), message.Metadata{tenant: "globex", region: "eu"}},
		{"one with both", open("new", tenant, "globex", region, "us"), message.Metadata{tenant: "globex", region: "us"}},
		{
			"one with an envelope, where absent is absent on purpose", open("new", envelope.MetadataID, "x"),
			message.Metadata{envelope.MetadataID: "x"},
		},
		{
			"one that is malformed", open("", envelope.MetadataMalformed, "invalid_json"),
			message.Metadata{envelope.MetadataMalformed: "invalid_json"},
		},
		{
			"one that is sealed", open("{}", envelope.MetadataVersion, "1"),
			message.Metadata{envelope.MetadataVersion: "1"},
		},
	}
	received := func() *message.Message {
		return hook(text(5), region, "eu", envelope.MetadataHeaders, `{"x-token":"secret"}`, envelope.MetadataOrderingKey, "lane")
	}
	for _, tt := range tests {
		for way, publish := range map[string]func(pub message.Publisher, ctx context.Context, made *message.Message) []*message.Message{
			"returned": func(_ message.Publisher, _ context.Context, made *message.Message) []*message.Message {
				return []*message.Message{made}
			},
			"published": func(pub message.Publisher, ctx context.Context, made *message.Message) []*message.Message {
				made.SetContext(ctx)
				before := maps.Clone(made.Metadata)
				if err := pub.Publish("out", made); err != nil {
					t.Error(err)
				}
				if !maps.Equal(made.Metadata, before) {
					t.Errorf("%s: publishing changed the caller's message", tt.rule)
				}
				return nil
			},
		} {
			t.Run(tt.rule+" "+way, func(t *testing.T) {
				chain, r := newChain(t, hookmw.ChainConfig{}), &recorder{}
				pub := chained(t, chain, r, nil)
				made := tt.made.Copy()
				if tt.made.Metadata == nil {
					made.Metadata = nil
				}
				produced, err := chain.Middleware(func(msg *message.Message) ([]*message.Message, error) {
					return publish(pub, msg.Context(), made), nil
				})(received())
				if err != nil {
					t.Fatal(err)
				}
				got := append(r.given, produced...)
				if len(got) != 1 {
					t.Fatalf("%d messages", len(got))
				}
				if !maps.Equal(got[0].Metadata, tt.want) {
					t.Errorf("got %v, want %v", got[0].Metadata, tt.want)
				}
			})
		}
	}
}

// A recorder is a publisher that knows nothing of envelopes.
type recorder struct {
	mu     sync.Mutex
	given  []*message.Message
	topics []string
	closed int
}

func (r *recorder) Publish(topic string, messages ...*message.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range messages {
		r.topics = append(r.topics, topic)
	}
	r.given = append(r.given, messages...)
	return nil
}

func (r *recorder) Close() error {
	r.closed++
	return nil
}

// The cause of a message is that of its own handler, also where its transport keeps the context
// of whoever published it, and for a message of no tenant.
func TestChainCauseIsTheNearest(t *testing.T) {
	chain := newChain(t, hookmw.ChainConfig{})
	nested := func(tenant string) string {
		r := &recorder{}
		pub := chained(t, chain, r, nil)
		_, _ = chain.Middleware(func(outer *message.Message) ([]*message.Message, error) {
			inner := hook(text(5), envelope.MetadataTenantID, tenant)
			inner.SetContext(outer.Context())
			return chain.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				made := open("new")
				made.SetContext(msg.Context())
				return nil, pub.Publish("out", made)
			})(inner)
		})(hook(text(5)))
		return r.given[0].Metadata[envelope.MetadataTenantID]
	}
	for _, tenant := range []string{"globex", ""} {
		if got := nested(tenant); got != tenant {
			t.Errorf("what was made of a message of %q is of %q", tenant, got)
		}
	}
}

// A message that is tried again has no deeper context than before.
func TestChainAttemptsDoNotNest(t *testing.T) {
	h := newChain(t, hookmw.ChainConfig{}).Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil })
	msg := hook(text(5))
	_, _ = h(msg)
	ctx := msg.Context()
	_, _ = h(msg)
	if msg.Context() != ctx {
		t.Error("the second attempt made a context of its own")
	}
}

func TestChainPublisher(t *testing.T) {
	s := &store{}
	chain := newChain(t, hookmw.ChainConfig{ClaimCheck: claimCheck(t, hookmw.ClaimCheckConfig{Store: s})})
	b := &broker{}
	pub := chained(t, chain, b, nil)
	if again := chained(t, chain, pub, nil); again != pub {
		t.Error("a publisher of the chain was wrapped again")
	}
	decorated, err := chain.PublisherDecorator(nil)(b)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]message.Publisher{"wrapped": pub, "decorated": decorated} {
		if got := fmt.Sprint(p); got != "middleware_test.broker" {
			t.Errorf("%s: the name is %q", name, got)
		}
		if err := p.Publish("hooks", hook(text(70_000)), hook(text(1))); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.puts) != 2 || b.calls != 2 || len(b.given) != 4 {
		t.Errorf("%d puts and %d messages in %d calls, want 2 and 4 in 2", len(s.puts), len(b.given), b.calls)
	}
	if err := errors.Join(pub.Close(), pub.Close()); err != nil || b.closed != 1 {
		t.Errorf("closed %d times: %v", b.closed, err)
	}
	if err := pub.Publish("hooks", hook(text(1))); !errors.Is(err, marshaler.ErrClosed) {
		t.Errorf("Publish after Close: %v", err)
	}
}

// A message that was as large as its transport allows is dead-lettered, whatever its handler's
// error says, by a publisher of the chain as well as by one that the chain has yet to wrap.
func TestChainPoisonQueueHasRoomForTheReason(t *testing.T) {
	fails := func(*message.Message) ([]*message.Message, error) {
		return nil, errors.New(strings.Repeat("and so on ", 20_000))
	}
	for _, already := range []bool{false, true} {
		chain := newChain(t, hookmw.ChainConfig{Diagnostics: hookmw.Diagnostics{Max: 100}})
		msg := hook(text(10_000))
		inline, _, _ := kafkawire.Marshaler{}.Size("poison", msg, "")
		b := &broker{Marshaler: kafkawire.Marshaler{MaxMessageBytes: inline + 200}}
		var pub message.Publisher = b
		if already {
			pub = chained(t, chain, b, nil)
		}
		poison, err := chain.PoisonQueue(pub, nil, "poison")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := poison(chain.Middleware(fails))(msg); err != nil {
			t.Fatal("not dead-lettered: ", err)
		}
		if got := b.receive(t, 0); !slices.Equal(got.Payload, text(10_000)) {
			t.Errorf("dead-lettered with %d bytes", len(got.Payload))
		}
	}
}

func TestChainReportsEveryMistake(t *testing.T) {
	bare := &recorder{}
	gateway, err := claimcheck.NewClient(claimcheck.ClientConfig{BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	withStore := newChain(t, hookmw.ChainConfig{ClaimCheck: claimCheck(t, hookmw.ClaimCheckConfig{Store: &store{}})})
	redeems := newChain(t, hookmw.ChainConfig{ClaimCheck: claimCheck(t, hookmw.ClaimCheckConfig{Gateway: gateway})})
	without := newChain(t, hookmw.ChainConfig{})
	tests := []struct {
		rule string
		do   func() error
		want []string
	}{
		{"parts that are not valid", func() error {
			_, err := hookmw.NewChain(hookmw.ChainConfig{
				Trace:        hookmw.Trace{Attributes: []attribute.KeyValue{{}}},
				HeaderCaps:   hookmw.HeaderCaps{Forward: envelope.ForwardOptions{MaxHeaders: -1}},
				Malformed:    hookmw.Malformed{QuarantineTopic: "quarantine"},
				Diagnostics:  hookmw.Diagnostics{Max: -1},
				Verification: hookmw.Verification{Untrusted: -1},
			})
			return err
		}, []string{"chain: Trace: ", "chain: HeaderCaps: ", "chain: Malformed: ", "chain: Diagnostics: ", "chain: Verification: "}},
		{"no publisher", func() error { _, err := without.WrapPublisher(nil, nil); return err }, []string{"nil publisher"}},
		{
			"no sealer for a claim check", func() error { _, err := withStore.WrapPublisher(bare, nil); return err },
			[]string{"*middleware_test.recorder is none"},
		},
		{
			"no sealer and no store", func() error { _, err := redeems.WrapPublisher(bare, nil); return err },
			[]string{"*middleware_test.recorder is none", "takes a Store"},
		},
		{"a marshaler that is not valid", func() error {
			_, err := withStore.WrapPublisher(bare, kafkawire.Marshaler{Source: "\xff"})
			return err
		}, []string{"Source"}},
		{"no poison topic", func() error { _, err := without.PoisonQueue(bare, nil, ""); return err }, []string{"poison queue topic"}},
		{
			"no publisher of the poison topic", func() error { _, err := without.PoisonQueue(nil, nil, "poison"); return err },
			[]string{"nil publisher"},
		},
		{"nothing is needed without a claim check", func() error { _, err := without.WrapPublisher(bare, nil); return err }, nil},
		{"nor for a poison topic", func() error { _, err := without.PoisonQueue(bare, nil, "poison"); return err }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			err := tt.do()
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("error %v, want one with %q", err, tt.want)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want one with %q", err, want)
				}
			}
		})
	}
}
