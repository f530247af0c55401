package middleware_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/emmansun/base64"

	"github.com/watermill-envelope/envelope/internal/sidebyside"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// idle is a chain of everything that has something to do only for some messages, without an SDK.
func idle(tb testing.TB) *hookmw.Chain {
	return newChain(tb, hookmw.ChainConfig{
		ClaimCheck: claimCheck(tb, hookmw.ClaimCheckConfig{Store: noStore{}}),
		Observer:   new(failures),
	})
}

// BenchmarkChain is what both sides of a chain add to a message that needs nothing of it: it is
// published, by a publisher of Kafka without its broker, and handled. The times are those of the
// best of many rounds with and without the chain in turn.
func BenchmarkChain(b *testing.B) {
	chain := idle(b)
	bare := kafkaPublisher{kafkawire.Marshaler{Source: "shop"}}
	with := chained(b, chain, bare, bare.Marshaler)
	nothing := func(*message.Message) ([]*message.Message, error) { return nil, nil }
	behind := chain.Middleware(nothing)
	for _, c := range inlineCases {
		b.Run("message="+c.name, func(b *testing.B) {
			out, in := benchHook(b, c.received, c.headers), benchHook(b, true, c.headers)
			ctx := in.Context()
			round := func(through bool) {
				var pub message.Publisher = bare
				h := message.HandlerFunc(nothing)
				if through {
					pub, h = with, behind
				}
				for range 100 {
					if err := pub.Publish("hooks", out); err != nil {
						b.Fatal(err)
					}
					in.SetContext(ctx)
					if _, err := h(in); err != nil {
						b.Fatal(err)
					}
				}
			}
			best := map[bool]time.Duration{false: time.Hour, true: time.Hour}
			for b.Loop() {
				for _, through := range []bool{false, true} {
					start := time.Now()
					round(through)
					best[through] = min(best[through], time.Since(start))
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(best[false])/100, "bare-ns")
			b.ReportMetric(float64(best[true]-best[false])/100, "added-ns")
			b.ReportMetric((testing.AllocsPerRun(10, func() { round(true) })-testing.AllocsPerRun(10, func() { round(false) }))/100, "added-allocs")
		})
	}
}

// A hop publishes a message and returns once its handler has returned.
func hopThrough(b *testing.B, pub message.Publisher, sub message.Subscriber, middlewares ...message.HandlerMiddleware) func(*message.Message) error {
	b.Helper()
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		b.Fatal(err)
	}
	router.AddMiddleware(middlewares...)
	handled := make(chan struct{})
	router.AddConsumerHandler("hop", "hooks", sub, func(*message.Message) error {
		handled <- struct{}{}
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- router.Run(context.Background()) }()
	<-router.Running()
	b.Cleanup(func() {
		if err := errors.Join(router.Close(), <-done); err != nil {
			b.Error(err)
		}
	})
	return func(msg *message.Message) error {
		if err := pub.Publish("hooks", msg); err != nil {
			return err
		}
		<-handled
		return nil
	}
}

// BenchmarkHop is a whole hop of a message of 1 KiB: publish, GoChannel, router, handler. What
// the marshalers and the chain add to it is measured beside the least that it could be: the
// digests and the base64 of both sides, and the maps of metadata.
func BenchmarkHop(b *testing.B) {
	chain := idle(b)
	for _, headers := range []int{0, 4, 16} {
		b.Run(fmt.Sprintf("headers=%d", headers), func(b *testing.B) {
			msg := benchHook(b, true, headers)
			channel := func() *gochannel.GoChannel {
				ch := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
				b.Cleanup(func() { _ = ch.Close() })
				return ch
			}
			wrapped := func() (message.Publisher, message.Subscriber) {
				ch := channel()
				pub, err := marshaler.WrapPublisher(ch, marshaler.Options{Source: "shop"})
				if err != nil {
					b.Fatal(err)
				}
				sub, err := marshaler.WrapSubscriber(ch, marshaler.Options{})
				if err != nil {
					b.Fatal(err)
				}
				return pub, sub
			}
			ch := channel()
			bare := hopThrough(b, ch, ch)
			sealed, opened := wrapped()
			sealing := hopThrough(b, sealed, opened)
			sealed, opened = wrapped()
			chaining := hopThrough(b, chained(b, chain, sealed, nil), opened, chain.Middleware)

			body := msg.Payload
			text := make([]byte, base64.StdEncoding.EncodedLen(len(body)))
			var sums [2][sha256.Size]byte
			var copied message.Metadata
			digest := func() error { // one of the two is of the payload that is published
				sums[0], sums[1] = sha256.Sum256(body), sha256.Sum256(text[:len(body)])
				return nil
			}
			coding := func() error {
				base64.StdEncoding.Encode(text, body)
				_, err := base64.StdEncoding.Decode(make([]byte, len(body)+2), text)
				return err
			}
			mapping := func() error { // the attributes that go out, and the metadata that come in
				for range 2 {
					copied = make(message.Metadata, len(msg.Metadata))
					maps.Copy(copied, msg.Metadata)
				}
				return nil
			}
			sidebyside.Run(b, []sidebyside.Way{
				{Name: "bare", F: func() error { return bare(msg) }},
				{Name: "marshaler", F: func() error { return sealing(msg) }},
				{Name: "chain", F: func() error { return chaining(msg) }},
				{Name: "digest", F: digest},
				{Name: "base64", F: coding},
				{Name: "maps", F: mapping},
			}, 100)
			if sums[0] == sums[1] || len(copied) == 0 {
				b.Error("the least was not done")
			}
		})
	}
}
