package database

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
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

// What PublishInTx costs beside the same INSERT written by hand, each in a transaction of its own,
// with so many writers at a time. The ways take turns of some transactions each.
func BenchmarkOutboxPublish(b *testing.B) {
	d := durable(b)
	db := open(b, d.driver, d.source)
	db.SetMaxIdleConns(16)
	for _, writers := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			plain := applied(b, d, db, outbox.Config{Table: fmt.Sprintf("bench_publish_%d", writers)})
			notify := applied(b, d, db, outbox.Config{Table: fmt.Sprintf("bench_notify_%d", writers), Notify: true})
			byHand := applied(b, d, db, outbox.Config{Table: fmt.Sprintf("bench_hand_%d", writers)})
			insert := "INSERT INTO " + byHand.Table() + " (event_id, event_type, payload, subject_id) VALUES ($1, $2, $3, $4)"
			ways := []func(ctx context.Context, tx *sql.Tx) error{
				func(ctx context.Context, tx *sql.Tx) error {
					e, err := outbox.NewEnvelope(outbox.NewID(), kib)
					if err != nil {
						return err
					}
					_, err = tx.ExecContext(ctx, insert, e.EventID, e.EventType, string(e.Payload), nil)
					return err
				},
				func(ctx context.Context, tx *sql.Tx) error { _, err := plain.PublishInTx(ctx, tx, kib); return err },
				func(ctx context.Context, tx *sql.Tx) error { _, err := notify.PublishInTx(ctx, tx, kib); return err },
			}
			const turn = 25 // transactions of each writer
			var took [3]time.Duration
			do := func(way int) {
				var wg sync.WaitGroup
				begin := time.Now()
				for range writers {
					wg.Go(func() {
						for range turn {
							inTx(b, db, ways[way])
						}
					})
				}
				wg.Wait()
				took[way] += time.Since(begin)
			}
			for way := range ways {
				do(way) // warm
			}
			took = [3]time.Duration{}
			for n := 0; b.Loop(); n++ {
				for i := range ways {
					do((n + i) % len(ways)) // none is always the first
				}
			}
			each := func(way int) float64 {
				return took[way].Seconds() * 1e6 / float64(b.N*turn*writers)
			}
			b.ReportMetric(each(0), "µs-hand")
			b.ReportMetric(each(1), "µs-ours")
			b.ReportMetric(each(2), "µs-notify")
			b.ReportMetric(each(1)/each(0), "x-ours")
			b.ReportMetric(each(2)/each(0), "x-notify")
			b.ReportMetric(0, "ns/op")
		})
	}
}
