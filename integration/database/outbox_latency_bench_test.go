package database

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/outbox"
	"github.com/watermill-envelope/envelope/outbox/pgxoutbox"
)

// How long it is from a commit to the publishing of its event on a system that is otherwise
// idle, by LISTEN and by looking every 100 ms.
func BenchmarkOutboxLatency(b *testing.B) {
	d := durable(b)
	db := open(b, d.driver, d.source)
	for _, notify := range []bool{true, false} {
		b.Run(fmt.Sprintf("notify=%t", notify), func(b *testing.B) {
			o := applied(b, d, db, outbox.Config{Table: fmt.Sprintf("bench_latency_%t", notify), Notify: notify})
			published := make(chan time.Time, 1)
			c := outbox.RelayConfig{}
			if notify {
				l, err := pgxoutbox.NewListener(o, d.source)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = l.Close() }) // the server is stopped too
				c.Waker, c.PollInterval = l, 10*time.Second
			}
			r, err := o.Relay(open(b, d.driver, d.source), publishTime(published), c)
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			var took []time.Duration
			once := func() {
				time.Sleep(rand.N(100 * time.Millisecond)) // idle, at no fixed time between two looks
				inTx(b, db, func(ctx context.Context, tx *sql.Tx) error {
					_, err := o.PublishInTx(ctx, tx, kib)
					return err
				})
				committed := time.Now()
				took = append(took, max(0, (<-published).Sub(committed)))
			}
			once() // by then it listens
			took = nil
			for b.Loop() {
				once()
			}
			cancel()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
			slices.Sort(took)
			ms := func(i int) float64 { return float64(took[i]) / float64(time.Millisecond) }
			b.ReportMetric(ms(len(took)/2), "ms-p50")
			b.ReportMetric(ms(len(took)*99/100), "ms-p99")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// publishTime tells when something was published.
type publishTime chan time.Time

// Publish implements message.Publisher.
func (p publishTime) Publish(string, ...*message.Message) error {
	p <- time.Now()
	return nil
}

// Close implements message.Publisher.
func (publishTime) Close() error { return nil }
