package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/middleware"
)

// publishers is how many goroutines publish at once, each of them one message at a time.
const publishers = 16

// A hop is publish, broker, router, handler, made in one way.
type hop struct {
	broker suite.Broker
	// chain is on both sides; nil is none.
	chain *middleware.Chain
	// message returns the message that is published under an id.
	message func(id string) *message.Message
	// id returns the id of what the handler gets; nil: the UUID.
	id func(msg *message.Message) string
}

// numbered is the id of message i, as long as any UUID.
func numbered(i int) string {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[8:], uint64(i))
	return id.String()
}

// run sends b.N messages and waits until the last of them is handled: an op is a message, and
// p99-ms is the time from the call of Publish to the handler.
func (h hop) run(b *testing.B, topic string) {
	b.Helper()
	pub, sub := h.broker.Publisher(b), h.broker.Subscriber(b, topic)
	var mw []message.HandlerMiddleware
	if h.chain != nil {
		var err error
		if pub, err = h.chain.WrapPublisher(pub, h.broker.Sealer); err != nil {
			b.Fatal(err)
		}
		mw = append(mw, h.chain.Middleware)
	}
	const warm = 500
	began, took := make([]time.Time, warm+b.N), make([]time.Duration, warm+b.N)
	var left atomic.Int64
	done := make(chan struct{}, 1)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		b.Fatal(err)
	}
	router.AddMiddleware(mw...)
	router.AddConsumerHandler("bench", topic, sub, func(msg *message.Message) error {
		text := msg.UUID
		if h.id != nil {
			text = h.id(msg)
		}
		id, err := uuid.Parse(text)
		if err != nil {
			return err
		}
		i := binary.BigEndian.Uint64(id[8:])
		if took[i] != 0 {
			return nil // once more
		}
		took[i] = time.Since(began[i])
		if left.Add(-1) == 0 {
			done <- struct{}{}
		}
		return nil
	})
	if s, ok := sub.(message.SubscribeInitializer); ok {
		if err := s.SubscribeInitialize(topic); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := router.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() { cancel(); running.Wait() })
	<-router.Running()

	send := func(from, to int) {
		left.Store(int64(to - from))
		var next atomic.Int64
		next.Store(int64(from))
		var all sync.WaitGroup
		for range publishers {
			all.Go(func() {
				for i := next.Add(1) - 1; i < int64(to); i = next.Add(1) - 1 {
					msg := h.message(numbered(int(i)))
					began[i] = time.Now()
					if err := pub.Publish(topic, msg); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		select {
		case <-done:
		case <-time.After(2 * time.Minute):
			b.Fatal(fmt.Errorf("%d of %d messages are missing", left.Load(), to-from))
		}
	}
	send(0, warm)
	b.ResetTimer()
	send(warm, warm+b.N)
	b.StopTimer()
	times := took[warm:]
	slices.Sort(times)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64(times[len(times)*99/100])/1e6, "p99-ms")
}
