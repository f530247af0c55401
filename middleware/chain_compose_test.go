package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/sony/gobreaker"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// A composition is a router that consumes the topic "hooks" through a chain with a claim check,
// and publishes to the topics "shipped" and "poison" of out.
type composition struct {
	*testing.T
	s     *store
	out   *broker
	sent  chan struct{} // one for each message of out
	chain *hookmw.Chain
	calls []string // payload lengths that the handler saw, and "!" where it had the wrong body
	err   error    // what the handler fails with
	from  int      // the first call that does not fail
	acked bool     // the message was acked when the handler ran
}

func (c *composition) handle(msg *message.Message) ([]*message.Message, error) {
	call := "whole"
	if !bytes.Equal(msg.Payload, text(len(msg.Payload))) || len(msg.Payload) < 70_000 {
		call = "broken"
	}
	c.calls = append(c.calls, call)
	select {
	case <-msg.Acked():
		c.acked = true
	default:
	}
	if c.err != nil && (c.from == 0 || len(c.calls) < c.from) {
		return nil, c.err
	}
	return []*message.Message{message.NewMessage(envelope.NewID(), text(70_001))}, nil
}

// run publishes messages, each once the one before was acked, and returns once so many were
// shipped.
func (c *composition) run(middlewares []message.HandlerMiddleware, out int, messages ...*message.Message) {
	c.Helper()
	in := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, discard)
	sealing, err := marshaler.WrapPublisher(in, marshaler.Options{Source: "github"})
	if err != nil {
		c.Fatal(err)
	}
	from, err := marshaler.WrapSubscriber(in, marshaler.Options{})
	if err != nil {
		c.Fatal(err)
	}
	router, err := message.NewRouter(message.RouterConfig{}, discard)
	if err != nil {
		c.Fatal(err)
	}
	router.AddMiddleware(middlewares...)
	router.AddPublisherDecorators(c.chain.PublisherDecorator(nil))
	router.AddHandler("ship", "hooks", from, "shipped", sender{c.out, c.sent}, c.handle)
	done := make(chan error, 1)
	go func() { done <- router.Run(context.Background()) }()
	<-router.Running()
	toIn := chained(c.T, c.chain, sealing, nil)
	for _, msg := range messages {
		if err := toIn.Publish("hooks", msg); err != nil {
			c.Error(err)
		}
	}
	for range out { // InstantAck acks before there is anything
		select {
		case <-c.sent:
		case <-time.After(time.Minute):
			c.Error("too little was published")
		}
	}
	if err := errors.Join(router.Close(), <-done, in.Close()); err != nil {
		c.Error(err)
	}
}

// A sender tells of each message that it sent.
type sender struct {
	*broker
	sent chan struct{}
}

func (s sender) Publish(topic string, messages ...*message.Message) error {
	err := s.broker.Publish(topic, messages...)
	for range messages {
		s.sent <- struct{}{}
	}
	return err
}

// Each of Watermill's own middlewares does its work around or inside the chain, and takes
// nothing from what the chain promises.
func TestChainComposes(t *testing.T) {
	retry := wmmw.Retry{MaxRetries: 2, InitialInterval: time.Nanosecond, ShouldRetry: hookmw.ShouldRetry}
	own, final := errors.New("out of stock"), envelope.Permanent(errors.New("no such order"))
	// What cannot be read is published as it came.
	broken := envelope.OpenMalformed([]byte("{"), &envelope.Error{Code: envelope.CodeInvalidJSON}, "broken", nil)
	numberedAnd := func(ids ...string) (list []*message.Message) {
		for _, id := range ids {
			list = append(list, numbered(id))
		}
		return list
	}
	type around = []message.HandlerMiddleware
	tests := []struct {
		name, reason string
		fails        error
		from         int // 0: every call fails
		stack        func(c *composition, poison message.HandlerMiddleware) around
		messages     []*message.Message // nil: one claim
		calls        int
		shipped      int
		poisoned     string // the reason; "": none
		puts         int    // objects that were stored: those of what was published, and of what was shipped
		redeemed     int    // claims, each by one reading of the index and one of the body
		then         func(c *composition)
	}{
		{
			name: "Retry", reason: "the attempts share one redemption, and have the same body",
			fails: own, from: 3,
			stack: func(c *composition, _ message.HandlerMiddleware) around {
				return around{retry.Middleware, c.chain.Middleware}
			},
			calls: 3, shipped: 1, puts: 2, redeemed: 1,
		},
		{
			name: "PoisonQueue", reason: "what fails is dead-lettered as the claim that it came as, never stored again",
			fails: own,
			stack: func(c *composition, poison message.HandlerMiddleware) around {
				return around{poison, retry.Middleware, c.chain.Middleware}
			},
			calls: 3, poisoned: "out of stock", puts: 1, redeemed: 1,
		},
		{
			name: "CorrelationID", reason: "what a handler makes has the id, and the tenant, of its cause",
			stack: func(c *composition, _ message.HandlerMiddleware) around {
				return around{wmmw.CorrelationID, c.chain.Middleware}
			},
			messages: []*message.Message{hook(text(70_000), wmmw.CorrelationIDMetadataKey, "order-7")},
			calls:    1, shipped: 1, puts: 2, redeemed: 1,
			then: func(c *composition) {
				if got := c.out.receive(c.T, 0).Metadata[wmmw.CorrelationIDMetadataKey]; got != "order-7" {
					c.Errorf("what was shipped has the correlation id %q", got)
				}
			},
		},
		{
			name: "Timeout", reason: "it ends the message's context before the router publishes: what was made is stored all the same",
			stack: func(c *composition, _ message.HandlerMiddleware) around {
				return around{wmmw.Timeout(time.Hour), c.chain.Middleware}
			},
			calls: 1, shipped: 1, puts: 2, redeemed: 1,
		},
		{
			name: "Timeout and PoisonQueue", reason: "nor does it keep a message from its poison topic",
			fails: final,
			stack: func(c *composition, poison message.HandlerMiddleware) around {
				return around{poison, wmmw.Timeout(time.Hour), c.chain.Middleware}
			},
			calls: 1, poisoned: "no such order", puts: 1, redeemed: 1,
		},
		{
			name: "Timeout and Retry", reason: "with ResetContextOnRetry the attempts do not share the first one's end, and still share its redemption",
			fails: own, from: 3,
			stack: func(c *composition, _ message.HandlerMiddleware) around {
				reset := retry
				reset.ResetContextOnRetry = true
				return around{reset.Middleware, wmmw.Timeout(time.Hour), c.chain.Middleware}
			},
			calls: 3, shipped: 1, puts: 2, redeemed: 1,
		},
		{
			name: "Throttle", reason: "it delays, and that is all",
			stack: func(c *composition, _ message.HandlerMiddleware) around {
				return around{wmmw.NewThrottle(1, time.Millisecond).Middleware, c.chain.Middleware}
			},
			messages: numberedAnd("a", "b", "c"),
			calls:    3, shipped: 3, puts: 6, redeemed: 3,
		},
		{
			name: "CircuitBreaker", reason: "a message that is at fault itself does not open it, where it is told so",
			stack: func(c *composition, poison message.HandlerMiddleware) around {
				breaker := wmmw.NewCircuitBreaker(gobreaker.Settings{
					ReadyToTrip:  func(counts gobreaker.Counts) bool { return counts.TotalFailures > 0 },
					IsSuccessful: func(err error) bool { return err == nil || envelope.IsPermanent(err) },
				})
				return around{poison, breaker.Middleware, c.chain.Middleware}
			},
			messages: append([]*message.Message{broken}, numberedAnd("a")...),
			calls:    1, shipped: 1, poisoned: "envelope: invalid_json", puts: 2, redeemed: 1,
		},
		{
			name: "Deduplicator", reason: "inside the chain it sees bodies: different ones are different, though each came as a claim",
			stack: func(c *composition, _ message.HandlerMiddleware) around {
				return around{c.chain.Middleware, new(wmmw.Deduplicator).Middleware}
			},
			messages: append(numberedAnd("a", "b"), hook(text(70_002))),
			calls:    2, shipped: 2, puts: 5, redeemed: 3,
		},
		{
			name: "Deduplicator by id", reason: "with a key that is not the payload it may be outside, where it saves the redemption",
			stack: func(c *composition, _ message.HandlerMiddleware) around {
				byID := &wmmw.Deduplicator{KeyFactory: wmmw.NewMessageHasherFromMetadataField(envelope.MetadataID)}
				return around{byID.Middleware, c.chain.Middleware}
			},
			messages: numberedAnd("a", "a", "b"),
			calls:    2, shipped: 2, puts: 5, redeemed: 2,
		},
		{
			name: "DelayOnError", reason: "the delay is metadata of the message, and goes with its claim",
			fails: own,
			stack: func(c *composition, poison message.HandlerMiddleware) around {
				d := &wmmw.DelayOnError{InitialInterval: time.Minute, MaxInterval: time.Hour, Multiplier: 2}
				return around{poison, d.Middleware, retry.Middleware, c.chain.Middleware}
			},
			calls: 3, poisoned: "out of stock", puts: 1, redeemed: 1,
			then: func(c *composition) {
				if got := c.out.receive(c.T, 0).Metadata[delay.DelayedForKey]; got != "1m0s" {
					c.Errorf("delayed for %q, want 1m0s", got)
				}
			},
		},
		{
			name: "Duplicator", reason: "the second call finds the body that the first one redeemed",
			stack: func(c *composition, _ message.HandlerMiddleware) around {
				return around{wmmw.Duplicator, c.chain.Middleware}
			},
			calls: 2, shipped: 2, puts: 2, redeemed: 1,
		},
		{
			name: "Recoverer", reason: "a panic is dead-lettered like any other error",
			stack: func(c *composition, poison message.HandlerMiddleware) around {
				return around{poison, wmmw.Recoverer, c.chain.Middleware, wmmw.RandomPanic(1)}
			},
			poisoned: `panic occurred: "random panic occurred", stacktrace:`, puts: 1, redeemed: 1,
		},
		{
			name: "InstantAck", reason: "inside the chain, since a transport may end the context of a message that was acked, and a claim is redeemed under it",
			stack: func(c *composition, _ message.HandlerMiddleware) around {
				return around{c.chain.Middleware, wmmw.InstantAck}
			},
			calls: 1, shipped: 1, puts: 2, redeemed: 1,
			then: func(c *composition) {
				if !c.acked {
					c.Error("the handler ran before the message was acked")
				}
			},
		},
		{
			name: "RandomFail", reason: "a failure outside the chain leaves the claim as it came: nothing is read for nothing",
			stack: func(c *composition, poison message.HandlerMiddleware) around {
				return around{poison, wmmw.RandomFail(1), c.chain.Middleware}
			},
			poisoned: "random fail occurred", puts: 1,
		},
		{
			name: "RandomPanic", reason: "so does a panic",
			stack: func(c *composition, poison message.HandlerMiddleware) around {
				return around{poison, wmmw.Recoverer, wmmw.RandomPanic(1), c.chain.Middleware}
			},
			poisoned: `panic occurred: "random panic occurred", stacktrace:`, puts: 1,
		},
		{
			name: "IgnoreErrors", reason: "what it ignores is acked, and not dead-lettered",
			fails: own,
			stack: func(c *composition, poison message.HandlerMiddleware) around {
				return around{poison, wmmw.NewIgnoreErrors([]error{own}).Middleware, c.chain.Middleware}
			},
			calls: 1, puts: 1, redeemed: 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &composition{
				T: t, s: &store{}, out: &broker{Marshaler: kafkawire.Marshaler{Source: "shop"}}, sent: make(chan struct{}, 16),
				err: tt.fails, from: tt.from,
			}
			c.chain = newChain(t, hookmw.ChainConfig{ClaimCheck: claimCheck(t, hookmw.ClaimCheckConfig{Store: c.s})})
			poison, err := c.chain.PoisonQueue(c.out, nil, "poison")
			if err != nil {
				t.Fatal(err)
			}
			if tt.messages == nil {
				tt.messages = numberedAnd("a")
			}
			c.run(tt.stack(c, poison), tt.shipped, tt.messages...)
			c.want(tt.reason, tt.calls, tt.shipped, tt.poisoned)
			if len(c.s.puts) != tt.puts || c.s.gets != 2*tt.redeemed {
				t.Errorf("%d puts and %d gets, want %d and %d: %s", len(c.s.puts), c.s.gets, tt.puts, 2*tt.redeemed, tt.reason)
			}
			if tt.then != nil {
				tt.then(c)
			}
		})
	}
}

// want checks what the handler saw, and what went out.
func (c *composition) want(reason string, calls, shipped int, poisoned string) {
	c.Helper()
	if len(c.calls) != calls || slices.Contains(c.calls, "broken") {
		c.Errorf("the handler saw %q, want %d whole bodies: %s", c.calls, calls, reason)
	}
	reasons := []string{}
	for i, record := range c.out.records {
		msg := c.out.receive(c.T, i)
		if record.Topic == "poison" {
			reasons = append(reasons, msg.Metadata[wmmw.ReasonForPoisonedKey])
			if envelope.IsMalformed(msg) == (msg.Metadata[envelope.MetadataClaim] != "") {
				c.Error("a poisoned message is neither malformed nor a claim")
			}
			continue
		}
		shipped--
		if msg.Metadata[envelope.MetadataTenantID] != "acme" || msg.Metadata[envelope.MetadataClaim] == "" ||
			msg.Metadata[envelope.MetadataSourceID] != "shop" {
			c.Errorf("what was shipped is of tenant %q and source %q and has the claim %q, want the cause's tenant, its own source and a claim",
				msg.Metadata[envelope.MetadataTenantID], msg.Metadata[envelope.MetadataSourceID], msg.Metadata[envelope.MetadataClaim])
		}
	}
	if shipped != 0 {
		c.Errorf("%d more were to be shipped: %s", shipped, reason)
	}
	if (poisoned == "") != (len(reasons) == 0) || len(reasons) > 1 || len(reasons) == 1 && !strings.HasPrefix(reasons[0], poisoned) {
		c.Errorf("poisoned because of %q, want %q: %s", reasons, poisoned, reason)
	}
}
