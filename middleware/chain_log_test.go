package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// failures is an Observer.
type failures []string

func (f *failures) HeadersDropped(reason string, n int) {
	*f = append(*f, fmt.Sprintf("%s %d", reason, n))
}

func (f *failures) Refused(topic string, code envelope.Code) {
	*f = append(*f, fmt.Sprintf("refused %s", code))
}

func (f *failures) Untrusted(_ string, v envelope.Verification, action string) {
	*f = append(*f, fmt.Sprintf("%s %s", action, v.Status))
}

func (f *failures) HandlerFailed(handler, class, code string) {
	*f = append(*f, handler+"/"+class+"/"+code)
}

// Every attempt that fails is one line, whatever refused the message and whoever else has a
// logger, and has nothing of the body, its headers or a credential.
func TestChainLogs(t *testing.T) {
	log, out := lines()
	s := &store{}
	withLogger := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Logger: log})
	lazy := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Lazy: true, Logger: log})
	silent := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Lazy: true})
	secrets := []string{
		envelope.MetadataHeaders, `{"x-token":"secret"}`, "note", "secret", envelope.MetadataVerification, "ok",
	}
	claim := func(ref string) *message.Message {
		return hook(nil, append(secrets, envelope.MetadataClaim, ref, envelope.MetadataSize, "5",
			envelope.MetadataSHA256, strings.Repeat("0", 64))...)
	}
	inline := func() *message.Message { return hook([]byte("secret"), secrets...) }
	read := func(cc *hookmw.ClaimCheck) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			_, err := cc.OpenBody(msg)
			return nil, err
		}
	}
	fails := func(err error) message.HandlerFunc {
		return func(*message.Message) ([]*message.Message, error) { return nil, err }
	}
	const id = "message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 source_id=stripe tenant_id=acme "
	const good, again = `level=ERROR msg="message failed for good" `, `level=WARN msg="message to be retried" `
	tests := []struct {
		rule    string
		cc      *hookmw.ClaimCheck
		msg     *message.Message
		handler message.HandlerFunc
		want    string // the beginning of the one line
		counts  string
	}{
		{"all goes well", withLogger, inline(), fails(nil), "", ""},
		{
			"the handler's own error", withLogger, inline(), fails(errors.New("out of stock")),
			again + id + `error="out of stock"`, "/unknown/unknown",
		},
		{
			"a permanent one", withLogger, inline(), fails(envelope.Permanent(errors.New("no such order"))),
			good + id + `error="no such order"`, "/permanent/unknown",
		},
		{
			"a transient one", withLogger, inline(), fails(envelope.Transient(errors.New("no connection"))),
			again + id + `error="no connection"`, "/transient/unknown",
		},
		{
			"a malformed message, with its field", withLogger, open("", append(secrets, envelope.MetadataMalformed, "invalid_field:size")...), fails(nil),
			good + `message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 code=invalid_field field=size error="envelope: invalid_field`, "refused invalid_field\n/permanent/invalid_field",
		},
		{
			"a claim that is not there", withLogger, claim(claimRef), fails(nil),
			good + id + `code=not_found claim=` + claimRef + ` error="claim check: message`, "/permanent/not_found",
		},
		{
			"a signed claim", withLogger, claim(signedRef), fails(nil),
			good + id + `code=signed_ref claim=urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:1737500000:<signature> error=`, "/permanent/signed_ref",
		},
		{
			"a claim that nothing redeems", nil, claim(signedRef), fails(nil),
			good + id + `code=claim_not_enabled claim=urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:1737500000:<signature> error=`, "refused claim_not_enabled\n/permanent/claim_not_enabled",
		},
		{
			"a body that the handler could not open", silent, claim(claimRef), read(silent),
			good + id + `code=not_found claim=` + claimRef, "/permanent/not_found",
		},
		{
			"one that its claim check has logged", lazy, claim(claimRef), read(lazy),
			`level=WARN msg="body not redeemed" ` + id + `code=not_found claim=` + claimRef, "/permanent/not_found",
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			var counts failures
			chain := newChain(t, hookmw.ChainConfig{
				ClaimCheck: tt.cc, Malformed: hookmw.Malformed{Logger: log}, Logger: log, Observer: &counts,
			})
			out.Reset()
			_, err := chain.Middleware(tt.handler)(tt.msg)
			if (err == nil) != (tt.want == "") {
				t.Fatalf("error %v", err)
			}
			if got := out.String(); !strings.HasPrefix(got, tt.want) || strings.Count(got, "\n") != min(1, len(counts)) {
				t.Errorf("logged\n%swant one line\n%s", got, tt.want)
			} else if strings.Contains(got, "secret") || strings.Contains(got, "c2lnbmF0dXJl") {
				t.Errorf("a secret in %s", got)
			}
			if got := strings.Join(counts, "\n"); got != tt.counts {
				t.Errorf("counted %q, want %q", got, tt.counts)
			}
		})
	}
}

// What Verification and a Quarantine do is one line as well, whether there is an error or not.
func TestChainLogsWhatItDecides(t *testing.T) {
	const id = "message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 source_id=stripe tenant_id=acme "
	untrusted := func() *message.Message { return hook(text(5), envelope.MetadataVerification, "failed") }
	malformed := func() *message.Message { return open("", envelope.MetadataMalformed, "invalid_json") }
	tests := []struct {
		rule   string
		config hookmw.ChainConfig
		msg    *message.Message
		built  string // the line of NewChain
		want   string // the beginning of the line of the message
		counts failures
	}{
		{
			"the default says once that it lets all through",
			hookmw.ChainConfig{},
			untrusted(),
			"level=INFO msg=\"hooks pass whatever their verification says\"\n", "",
			failures{"pass failed"},
		},
		{
			"a hook that is dropped",
			hookmw.ChainConfig{Verification: hookmw.Verification{Untrusted: hookmw.DropUntrusted}},
			untrusted(),
			"", `level=WARN msg="hook dropped" ` + id + "code=untrusted error=",
			failures{"drop failed"},
		},
		{
			"a hook that is refused",
			hookmw.ChainConfig{Verification: hookmw.Verification{Untrusted: hookmw.RefuseUntrusted}},
			untrusted(),
			"", `level=ERROR msg="message failed for good" ` + id + "code=untrusted error=",
			failures{"refuse failed", "/permanent/untrusted"},
		},
		{
			"a message in quarantine",
			hookmw.ChainConfig{
				Verification: hookmw.Verification{Untrusted: hookmw.DropUntrusted},
				Malformed:    hookmw.Malformed{Quarantine: new(poisonTopic), QuarantineTopic: "quarantine"},
			},
			malformed(),
			"", `level=WARN msg="message quarantined" message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 code=invalid_json error=`,
			failures{"refused invalid_json"},
		},
		{
			"a message that could not be put there",
			hookmw.ChainConfig{
				Verification: hookmw.Verification{Untrusted: hookmw.DropUntrusted},
				Malformed:    hookmw.Malformed{Quarantine: &poisonTopic{down: 1}, QuarantineTopic: "quarantine"},
			},
			malformed(),
			"", `level=WARN msg="message to be retried" message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 code=invalid_json error=`,
			failures{"/transient/invalid_json"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			log, out := lines()
			var counts failures
			tt.config.Logger, tt.config.Observer = log, &counts
			chain := newChain(t, tt.config)
			if got := out.String(); got != tt.built {
				t.Errorf("NewChain logged %q, want %q", got, tt.built)
			}
			for range 2 { // handlers
				out.Reset()
				counts = nil
				h := chain.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil })
				if out.Len() > 0 {
					t.Errorf("a handler logged %s", out)
				}
				if q, ok := tt.config.Malformed.Quarantine.(*poisonTopic); ok {
					q.down = min(1, q.refused+q.down)
				}
				_, _ = h(tt.msg)
				if got := out.String(); !strings.HasPrefix(got, tt.want) || strings.Count(got, "\n") != min(1, len(tt.want)) {
					t.Errorf("logged\n%swant one line\n%s", got, tt.want)
				}
				if !slices.Equal(counts, tt.counts) {
					t.Errorf("counted %q, want %q", counts, tt.counts)
				}
			}
		})
	}
}

// A panic is one line that has nothing of its value, and goes on with its own stack.
func TestChainLogsPanics(t *testing.T) {
	log, out := lines()
	var counts failures
	chain := newChain(t, hookmw.ChainConfig{Logger: log, Observer: &counts})
	out.Reset()
	_, err := wmmw.Recoverer(chain.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		panic("secret " + string(msg.Payload))
	}))(hook(text(5), envelope.MetadataVerification, "ok"))
	var panicked wmmw.RecoveredPanicError
	if !errors.As(err, &panicked) || !strings.Contains(panicked.Stacktrace, "TestChainLogsPanics.func1") {
		t.Errorf("error %v, want the panic with the handler in its stack", err)
	}
	const want = `level=WARN msg="message to be retried" message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 source_id=stripe tenant_id=acme ` +
		"code=panic error=\"the handler panicked\"\n"
	if got := out.String(); got != want {
		t.Errorf("logged\n%swant\n%s", got, want)
	}
	if !slices.Equal(counts, failures{"/unknown/panic"}) {
		t.Errorf("counted %q", counts)
	}
}

// Through a whole stack, the lines of a message are those of its attempts, with the topic and
// the handler, and one more where its retries were used up.
func TestChainLogsThroughTheStack(t *testing.T) {
	tests := []struct {
		rule string
		errs []error // of each attempt
		want []string
	}{
		{"handled in the end", []error{errors.New("a"), errors.New("b"), nil}, []string{"WARN retried a", "WARN retried b"}},
		{
			"given up",
			[]error{errors.New("a"), errors.New("b"), errors.New("c")},
			[]string{"WARN retried a", "WARN retried b", "WARN retried c", "ERROR good c"},
		},
		{"permanent at once", []error{envelope.Permanent(errors.New("a"))}, []string{"ERROR good a"}},
		{"an outage that ends while the message waits", []error{
			envelope.Transient(errors.New("a")), envelope.Transient(errors.New("b")), envelope.Transient(errors.New("c")), nil,
		}, []string{"WARN retried a", "WARN retried b", "WARN retried c"}},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			log, out := lines()
			chain := newChain(t, hookmw.ChainConfig{Logger: log})
			poison, err := chain.PoisonQueue(new(poisonTopic), nil, "orders.poison")
			if err != nil {
				t.Fatal(err)
			}
			topic, run := ship(t, func(_ *message.Message) ([]*message.Message, error) {
				err := tt.errs[0]
				tt.errs = tt.errs[1:]
				return nil, err
			}, poison, wmmw.Retry{MaxRetries: 2, InitialInterval: time.Nanosecond, ShouldRetry: hookmw.ShouldRetry}.Middleware, chain.Middleware)
			run()
			out.Reset()
			if err := topic.Publish("orders", hook([]byte("{}"))); err != nil {
				t.Fatal(err)
			}
			if len(tt.errs) > 0 {
				t.Errorf("%d attempts were not made", len(tt.errs))
			}
			var want strings.Builder
			for _, line := range tt.want {
				var level, what, text string
				_, _ = fmt.Sscan(line, &level, &what, &text)
				msg := map[string]string{"retried": "message to be retried", "good": "message failed for good"}[what]
				fmt.Fprintf(&want, "level=%s msg=%q message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 source_id=stripe tenant_id=acme topic=orders handler=ship error=%s\n",
					level, msg, text)
			}
			if got := out.String(); got != want.String() {
				t.Errorf("logged\n%swant\n%s", got, want.String())
			}
		})
	}
}

// ship returns a topic whose Publish waits until a message to "orders" was acked, and what
// starts a router with those middlewares around the one handler "ship" of it.
func ship(t *testing.T, h message.HandlerFunc, middlewares ...message.HandlerMiddleware) (topic *gochannel.GoChannel, run func()) {
	t.Helper()
	topic = gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(middlewares...)
	router.AddHandler("ship", "orders", topic, "shipped", new(recorder), h)
	return topic, func() {
		done := make(chan error, 1)
		go func() { done <- router.Run(context.Background()) }()
		<-router.Running()
		t.Cleanup(func() {
			if err := errors.Join(router.Close(), <-done, topic.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
