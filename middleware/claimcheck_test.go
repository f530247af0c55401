package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// A store is one in memory that counts its calls, and where a test can step in.
type store struct {
	memstore.Store
	put func(ctx context.Context, key string, obj *io.SectionReader) error
	get func(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)

	mu   sync.Mutex
	puts []string // keys
	gets int
}

func (s *store) Put(ctx context.Context, key string, obj *io.SectionReader) error {
	s.mu.Lock()
	s.puts = append(s.puts, key)
	s.mu.Unlock()
	if s.put != nil {
		return s.put(ctx, key, obj)
	}
	return s.Store.Put(ctx, key, obj)
}

func (s *store) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	s.mu.Lock()
	s.gets++
	s.mu.Unlock()
	if s.get != nil {
		return s.get(ctx, key, off, n)
	}
	return s.Store.Get(ctx, key, off, n)
}

// A broker is a publisher of Kafka, and its own marshaler.
type broker struct {
	kafkawire.Marshaler
	err error

	mu      sync.Mutex
	calls   int
	given   []*message.Message
	records []*sarama.ProducerMessage
	closed  int
}

func (b *broker) Publish(topic string, messages ...*message.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if b.err != nil {
		return b.err
	}
	for _, msg := range messages {
		record, err := b.Marshal(topic, msg)
		if err != nil {
			return err
		}
		b.given = append(b.given, msg)
		b.records = append(b.records, record)
	}
	return nil
}

func (b *broker) Close() error {
	b.closed++
	return b.err
}

// receive returns what a consumer gets of the record at index i.
func (b *broker) receive(t *testing.T, i int) *message.Message {
	t.Helper()
	record := b.records[i]
	in := &sarama.ConsumerMessage{Topic: record.Topic}
	if record.Value != nil {
		in.Value, _ = record.Value.Encode()
	}
	for _, h := range record.Headers {
		in.Headers = append(in.Headers, &h)
	}
	msg, err := b.Unmarshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// size is what sarama counts for the record at index i.
func (b *broker) size(i int) int64 { return int64(b.records[i].ByteSize(2)) }

func claimCheck(t testing.TB, c hookmw.ClaimCheckConfig) *hookmw.ClaimCheck {
	t.Helper()
	cc, err := hookmw.NewClaimCheck(c)
	if err != nil {
		t.Fatal(err)
	}
	return cc
}

func wrap(t testing.TB, cc *hookmw.ClaimCheck, pub message.Publisher, sealer marshaler.Sealer) message.Publisher {
	t.Helper()
	wrapped, err := cc.WrapPublisher(pub, sealer)
	if err != nil {
		t.Fatal(err)
	}
	return wrapped
}

// handle runs msg through the middleware and returns what the handler was given.
func handle(t *testing.T, cc *hookmw.ClaimCheck, msg *message.Message) (body []byte, err error) {
	t.Helper()
	called := false
	_, err = cc.Middleware(func(got *message.Message) ([]*message.Message, error) {
		if called = true; got != msg {
			t.Error("the handler was given another message")
		}
		body = got.Payload
		return nil, nil
	})(msg)
	if called != (err == nil) {
		t.Errorf("handler called: %v, error %v", called, err)
	}
	return body, err
}

// hook is a message with an envelope, of tenant acme.
func hook(body []byte, keysAndValues ...string) *message.Message {
	e := envelope.Envelope{
		ID: "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10", SourceID: "stripe", TenantID: "acme",
		ContentType: "application/json", DedupeKey: "evt_1", Body: body,
	}
	msg := e.Message()
	delete(msg.Metadata, envelope.MetadataSize)
	msg.Metadata[envelope.MetadataReceivedAt] = "1737500000000"
	msg.Metadata[envelope.MetadataIdempotencyKey] = "acme:stripe:evt_1"
	for i := 0; i < len(keysAndValues); i += 2 {
		if msg.Metadata[keysAndValues[i]] = keysAndValues[i+1]; keysAndValues[i+1] == "" {
			delete(msg.Metadata, keysAndValues[i])
		}
	}
	return msg
}

// text is a body of n bytes, which differs for each n.
func text(n int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%d bytes of body. ", n), n/16+1)[:n] }

func TestBudget(t *testing.T) {
	const inline, claim, tooLarge = "inline", "a claim", "too large"
	const unlimited = 1 << 40
	tests := []struct {
		rule   string
		max    int64 // InlineMaxBytes
		body   int
		limit  func(inline, claim int64) int64
		want   string
		text   string // of the error
		tenant string
	}{
		{"a body up to InlineMaxBytes stays", 2000, 2000, nil, inline, "", "acme"},
		{"a larger one does not", 2000, 2001, nil, claim, "", "acme"},
		{"by default up to 64 KiB", 0, 65_536, nil, inline, "", "acme"},
		{"and no more", 0, 65_537, nil, claim, "", "acme"},
		{"an empty body stays", 2000, 0, nil, inline, "", "acme"},
		{"never when InlineMaxBytes is negative", -1, 1, nil, claim, "", "acme"},
		{"not even an empty one", -1, 0, nil, claim, "", "acme"},
		{"the limit is inclusive", 2000, 2000, func(inline, _ int64) int64 { return inline }, inline, "", "acme"},
		{"what is over it with all that the transport counts is degraded", 2000, 2000, func(inline, _ int64) int64 { return inline - 1 }, claim, "", "acme"},
		{"down to a body of the limit itself", 2000, 2000, func(int64, int64) int64 { return 2000 }, claim, "", "acme"},
		{
			"a body over the limit that InlineMaxBytes keeps", 2000, 2000, func(int64, int64) int64 { return 1999 }, tooLarge,
			"message with a body up to InlineMaxBytes too large: 3450 bytes, at most 1999", "acme",
		},
		{"a claim that just fits", 2000, 2001, func(_, claim int64) int64 { return claim }, claim, "", "acme"},
		{
			"a claim that does not", 2000, 2001, func(_, claim int64) int64 { return claim - 1 }, tooLarge,
			"message without its body too large: 827 bytes, at most 826", "acme",
		},
		{"a degraded claim that just fits", 2000, 700, func(_, claim int64) int64 { return claim }, claim, "", "acme"},
		{"a claim counts the fallback tenant", -1, 1, func(_, claim int64) int64 { return claim }, claim, "", ""},
		{
			"whose length matters", -1, 1, func(_, claim int64) int64 { return claim - 1 }, tooLarge,
			"message without its body too large: 817 bytes, at most 816", "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			msg := hook(text(tt.body), envelope.MetadataTenantID, tt.tenant)
			if tt.limit == nil {
				tt.limit = func(int64, int64) int64 { return unlimited }
			}
			inlineSize, claimSize, _ := kafkawire.Marshaler{}.Size("hooks", msg, "default")
			b := &broker{Marshaler: kafkawire.Marshaler{MaxMessageBytes: tt.limit(inlineSize, claimSize)}}
			s := &store{}
			cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, InlineMaxBytes: tt.max})
			before := msg.Copy()
			err := wrap(t, cc, b, b.Marshaler).Publish("hooks", msg)

			if !bytes.Equal(msg.Payload, before.Payload) || !maps.Equal(msg.Metadata, before.Metadata) {
				t.Errorf("the caller's message became %v", msg.Metadata)
			}
			if tt.want == tooLarge {
				var e *hookmw.MessageError
				if !errors.Is(err, envelope.ErrMessageTooLarge) || !envelope.IsPermanent(err) || !errors.As(err, &e) ||
					e.ID != msg.UUID || e.Index != 0 || !strings.HasSuffix(err.Error(), tt.text) {
					t.Errorf("error %v", err)
				}
				if len(s.puts) != 0 || b.calls != 0 {
					t.Errorf("%d calls of the store, %d of the broker", len(s.puts), b.calls)
				}
				return
			}
			if err != nil || b.calls != 1 || len(b.records) != 1 {
				t.Fatalf("%d calls, %d records, error %v", b.calls, len(b.records), err)
			}
			got := b.receive(t, 0)
			size, puts := inlineSize, 0
			if tt.want == claim {
				size, puts = claimSize, 1
			}
			if b.size(0) != size || len(s.puts) != puts || (got.Metadata[envelope.MetadataClaim] != "") != (puts > 0) {
				t.Errorf("%d bytes, %d puts, claim %q; want %s of %d bytes", b.size(0), len(s.puts), got.Metadata[envelope.MetadataClaim], tt.want, size)
			}
			if tenant := got.Metadata[envelope.MetadataTenantID]; tenant != tt.tenant {
				t.Errorf("tenant %q", tenant)
			}
			if body, err := handle(t, cc, got); err != nil || !bytes.Equal(body, text(tt.body)) {
				t.Errorf("handled %d bytes, error %v", len(body), err)
			}
			if id := got.Metadata[envelope.MetadataID]; got.UUID != msg.UUID || id != msg.UUID {
				t.Errorf("id %s", id)
			}
		})
	}
}

// RabbitMQ counts the body alone, and its content header apart.
func TestBudgetOfRabbitMQ(t *testing.T) {
	m := amqpwire.Marshaler{MaxMessageBytes: 2000}
	s := &store{}
	b := &broker{}
	pub := wrap(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s}), b, m)
	msg := hook(text(900), "note", strings.Repeat("n", 4000))
	inline, _, limit := m.Size("", msg, "")
	if inline > limit {
		t.Fatalf("%d bytes", inline)
	}
	if err := pub.Publish("hooks", msg, hook(text(1200))); err != nil {
		t.Fatal(err)
	}
	if len(s.puts) != 1 || b.given[0].Metadata[envelope.MetadataClaim] != "" || b.given[1].Metadata[envelope.MetadataClaim] == "" {
		t.Errorf("stored %v", s.puts)
	}
	msg = hook(text(1), "note", strings.Repeat("n", 131_072))
	msg.Metadata[envelope.MetadataOrderingKey] = strings.Repeat("o", 131_072)
	err := pub.Publish("hooks", hook(text(70_000)), msg)
	var e *hookmw.MessageError
	if !errors.As(err, &e) || e.Index != 1 || !errors.Is(err, envelope.ErrMessageTooLarge) || len(s.puts) != 1 || b.calls != 1 {
		t.Errorf("error %.200v, %d puts, %d calls", err, len(s.puts), b.calls)
	}
}

// One call is one check-in with few packs and one publish, in order.
func TestPublishGroups(t *testing.T) {
	s, b := &store{}, &broker{}
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, InlineMaxBytes: 100})
	var messages []*message.Message
	var tenants []string
	for i := range 30 {
		tenant := []string{"acme", "globex", ""}[i%3]
		msg := hook(text(50+10*i), envelope.MetadataTenantID, tenant)
		msg.UUID = fmt.Sprintf("m-%d", i)
		msg.Metadata[envelope.MetadataID] = msg.UUID
		messages, tenants = append(messages, msg), append(tenants, tenant)
	}
	if err := wrap(t, cc, b, nil).Publish("hooks", messages...); err != nil {
		t.Fatal(err)
	}
	if b.calls != 1 || len(b.records) != 30 {
		t.Fatalf("%d calls with %d messages", b.calls, len(b.records))
	}
	slices.Sort(s.puts)
	if len(s.puts) != 3 || !strings.HasPrefix(s.puts[0], "claims/tenant=acme/dt=") ||
		!strings.HasPrefix(s.puts[1], "claims/tenant=default/dt=") || !strings.HasPrefix(s.puts[2], "claims/tenant=globex/dt=") {
		t.Errorf("stored %v", s.puts)
	}
	for i := range messages {
		got := b.receive(t, i)
		if large := 50+10*i > 100; (got.Metadata[envelope.MetadataClaim] != "") != large {
			t.Errorf("%d: claim %q", i, got.Metadata[envelope.MetadataClaim])
		}
		if body, err := handle(t, cc, got); err != nil || got.UUID != messages[i].UUID || !bytes.Equal(body, text(50+10*i)) {
			t.Errorf("%d: message %s with %d bytes, error %v", i, got.UUID, len(body), err)
		}
		if got.Metadata[envelope.MetadataTenantID] != tenants[i] {
			t.Errorf("%d: tenant %q", i, got.Metadata[envelope.MetadataTenantID])
		}
	}
	if s.gets == 0 || b.calls != 1 {
		t.Errorf("%d gets", s.gets)
	}
}

// What cannot be sent ends the call before anything is stored.
func TestPublishPermanent(t *testing.T) {
	tests := []struct {
		rule   string
		config hookmw.ClaimCheckConfig
		bad    *message.Message
		is     error
		text   string
	}{
		{
			"no source",
			hookmw.ClaimCheckConfig{},
			message.NewMessage("bad", nil), envelope.ErrMalformed,
			`claim check: message "bad" at index 2: envelope: invalid_field "ankusa_source_id": absent, and there is no default`,
		},
		{
			"a tenant that no reference can have",
			hookmw.ClaimCheckConfig{},
			hook(text(70_000), envelope.MetadataTenantID, "../globex"),
			claimcheck.ErrInvalidTenant, `at index 2: claimcheck: check in: invalid_tenant tenant "../globex"`,
		},
		{
			"no tenant, where one is required",
			hookmw.ClaimCheckConfig{RequireTenant: true},
			hook(text(70_000), envelope.MetadataTenantID, ""),
			claimcheck.ErrInvalidTenant, "claimcheck: check in: invalid_tenant: the message has no tenant",
		},
		{
			"a claim of another tenant",
			hookmw.ClaimCheckConfig{},
			hook(nil, envelope.MetadataClaim, "urn:ankusa:claim:v1:globex:01M39VMD8RA3C5HR4RBV67Y002", envelope.MetadataSize, "1",
				envelope.MetadataSHA256, strings.Repeat("0", 64)),
			envelope.ErrMalformed, "envelope: tenant_mismatch",
		},
		{
			"a claim under metadata that do not fit",
			hookmw.ClaimCheckConfig{},
			hook(nil, envelope.MetadataClaim, claimRef, envelope.MetadataSize, "1", envelope.MetadataSHA256, strings.Repeat("0", 64),
				"note", strings.Repeat("n", 1_000_000)),
			envelope.ErrMessageTooLarge, "message without its body too large: 1000838 bytes, at most 1000000",
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			s, b := &store{}, &broker{}
			tt.config.Store = s
			err := wrap(t, claimCheck(t, tt.config), b, nil).Publish("hooks", hook(text(1)), hook(text(70_000)), tt.bad, hook(text(80_000)))
			var e *hookmw.MessageError
			if !errors.As(err, &e) || e.ID != tt.bad.UUID || e.Index != 2 || !errors.Is(err, tt.is) || !envelope.IsPermanent(err) ||
				!strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v", err)
			}
			if len(s.puts) != 0 || b.calls != 0 {
				t.Errorf("%d calls of the store, %d of the broker", len(s.puts), b.calls)
			}
		})
	}
}

// A tenant that cannot be in a reference is no obstacle to what needs none.
func TestTenantsOfInlineBodies(t *testing.T) {
	s, b := &store{}, &broker{}
	pub := wrap(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s, RequireTenant: true}), b, nil)
	if err := pub.Publish("hooks", hook(text(1), envelope.MetadataTenantID, "a.b"), hook(text(1), envelope.MetadataTenantID, "")); err != nil {
		t.Error(err)
	}
	pub = wrap(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s, TenantFallback: "nobody"}), b, nil)
	if err := pub.Publish("hooks", hook(text(70_000), envelope.MetadataTenantID, "")); err != nil {
		t.Error(err)
	}
	if len(s.puts) != 1 || !strings.HasPrefix(s.puts[0], "claims/tenant=nobody/") {
		t.Errorf("stored %v", s.puts)
	}
}
